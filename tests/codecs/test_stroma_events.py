"""Stroma's deltas against goldens that were written from the specification (tests/golden/stroma).

The header and the events behind it are fed whole, growing byte by byte, with trailing data, with every bit
flipped, and with lies whose CRC is right. test_stroma_snapshot.py does the same with snapshots.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from itertools import accumulate, pairwise

import pytest
from crc32c import crc32c as library_crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.codecs import stroma_events as fmt
from barbicel.codecs.stroma_events import (
    Ack,
    BumpAckedUntil,
    ClearInflight,
    Commit,
    DecodedEvents,
    DeltaHeader,
    Event,
    MarkInflight,
    Release,
    Reset,
)
from barbicel.codecs.stroma_format import MAX_GENERATION, MAX_OFFSET, NO_DEADLINE_MS
from barbicel.errors import CorruptFile, UnknownVersion
from tests.golden import load, names
from tests.golden.crc32c_bitwise import crc32c as crc32c_bitwise

T = 1_700_000_000_000
BIG = 5_000_000_000
U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1

EVERY_TYPE = "stroma/delta-events"
PLAIN = "stroma/delta-plain"
HEADERS = {EVERY_TYPE: DeltaHeader(T + 3000, 1), PLAIN: DeltaHeader(T + 4000, 0)}
# With the position of each.
EVENTS: dict[str, list[tuple[int, Event]]] = {
    EVERY_TYPE: [
        (60, MarkInflight(42, T + 33_000, 1)),
        (96, MarkInflight(43, NO_DEADLINE_MS, 3)),
        (132, Ack(43)),
        (156, Release(42, 1)),
        (184, MarkInflight(42, T + 63_000, 2)),
        (220, ClearInflight(42)),
        (244, BumpAckedUntil(BIG)),
        (268, Commit(50, 4, b"node-7")),
        (304, Commit(51, None, None)),
        (334, Reset()),
    ],
    PLAIN: [(60, Ack(0)), (84, BumpAckedUntil(2))],
}


def exact(events: list[Event]) -> list[tuple[type, Event]]:
    """Events that compare by type too: as tuples Ack(5) and ClearInflight(5) are equal."""
    return [(type(event), event) for event in events]


def expected(name: str, count: int | None = None) -> list[tuple[type, Event]]:
    return exact([event for _, event in EVENTS[name]][:count])


def bounds(name: str) -> list[int]:
    """Where the events begin, and where the last one ends."""
    return [*(position for position, _ in EVENTS[name]), len(load(name))]


def bit_flips(data: bytes, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    for bit in range(8 * start, 8 * end):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 0x80 >> bit % 8
        yield bit // 8, bytes(flipped)


def with_bytes(data: bytes, position: int, new: str) -> bytes:
    raw = bytes.fromhex(new)
    return data[:position] + raw + data[position + len(raw) :]


def reseal_header(header: bytes) -> bytes:
    return header[:-4] + crc32c_bitwise(header[:-4]).to_bytes(4, "big")


def framed(number: int, payload: bytes, version: int = 1, flags: int = 0) -> bytes:
    """An event with a right CRC, not made by the encoder under test."""
    covered = b"".join(
        value.to_bytes(size, "big")
        for value, size in ((version, 2), (number, 2), (flags, 2), (len(payload), 4))
    )
    covered += payload
    return b"KE" + covered + crc32c_bitwise(covered).to_bytes(4, "big")


# --- sizes and goldens ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "bytes_expected"),
    [
        (fmt.DELTA_HEADER_BYTES, 60),
        (fmt.EVENT_OVERHEAD_BYTES, 16),
        (fmt.MARK_INFLIGHT.size, 20),
        (fmt.OFFSET.size, 8),
        (fmt.RESET.size, 0),
        (fmt.COMMIT.size, 14),
        (fmt.RELEASE.size, 12),
    ],
)
def test_sizes(size: int, bytes_expected: int) -> None:
    assert size == bytes_expected


def test_every_golden_delta_is_used() -> None:
    assert {name for name in names("stroma") if "delta" in name} == HEADERS.keys() == EVENTS.keys()


def test_goldens_have_every_type_of_event() -> None:
    numbers = {load(EVERY_TYPE)[position + 5] for position, _ in EVENTS[EVERY_TYPE]}
    assert numbers == {1, 2, 3, 4, 5, 6, 7}


@pytest.mark.parametrize("name", HEADERS)
def test_golden_header(name: str) -> None:
    assert fmt.decode_delta_header(load(name)) == HEADERS[name]
    assert fmt.encode_delta_header(HEADERS[name]) == load(name)[:60]


@pytest.mark.parametrize("name", EVENTS)
def test_golden_events_decode(name: str) -> None:
    decoded = fmt.decode_events(load(name), 60)
    assert exact(decoded.events) == expected(name)
    assert decoded.position == len(load(name))
    assert decoded.problem is None


@pytest.mark.parametrize("name", EVENTS)
def test_golden_events_encode(name: str) -> None:
    for (_, event), (start, end) in zip(EVENTS[name], pairwise(bounds(name)), strict=True):
        assert fmt.encode_event(event) == load(name)[start:end]


@pytest.mark.parametrize("name", EVENTS)
def test_decoding_begins_at_any_event(name: str) -> None:
    for i, (position, _) in enumerate(EVENTS[name]):
        decoded = fmt.decode_events(load(name), position)
        assert exact(decoded.events) == expected(name)[i:]


@pytest.mark.parametrize("name", EVENTS)
def test_whole_events_are_counted_from_anywhere(name: str) -> None:
    data, starts = load(name), bounds(name)[:-1]
    for position in range(len(data)):
        assert fmt.count_events(data, position) == sum(start >= position for start in starts)


@pytest.mark.parametrize(
    "event",
    [
        b"KE\0\1\0\1\0\0" + (1 << 19).to_bytes(4, "big"),
        b"KE\0\1\0\6\0\0" + (60_000).to_bytes(4, "big") + bytes(12) + (59_986).to_bytes(2, "big"),
        b"KE\0\1",
    ],
    ids=["long marks", "long commits", "only starts"],
)
def test_counting_looks_at_each_byte_a_few_times_at_most(
    event: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these seems to begin an event that is much longer than the distance to the next."""
    data, checked = event * ((1 << 20) // len(event)), 0

    def crc32c(part: bytes) -> int:
        nonlocal checked
        checked += len(part)
        return library_crc32c(part)

    monkeypatch.setattr(fmt, "crc32c", crc32c)
    assert fmt.count_events(data, 0) == 0
    assert checked <= fmt.SEARCH_FACTOR * len(data) + 70_000


# --- cut short, and with trailing data ------------------------------------------------------------


@pytest.mark.parametrize("name", HEADERS)
def test_every_prefix_of_a_header_is_refused(name: str) -> None:
    for size in range(60):
        with pytest.raises(CorruptFile) as caught:
            fmt.decode_delta_header(load(name)[:size])
        assert not isinstance(caught.value, UnknownVersion)
    assert fmt.decode_delta_header(load(name)[:60]) == HEADERS[name]


@pytest.mark.parametrize("name", HEADERS)
def test_header_ends_where_it_ends(name: str) -> None:
    assert fmt.decode_delta_header(load(name)[:60] + b"\xff" * 100) == HEADERS[name]


@pytest.mark.parametrize("name", EVENTS)
def test_events_of_every_prefix(name: str) -> None:
    data, ends = load(name), bounds(name)[1:]
    for size in range(60, len(data) + 1):
        decoded = fmt.decode_events(data[:size], 60)
        whole = sum(end <= size for end in ends)
        assert exact(decoded.events) == expected(name, whole)
        assert decoded.position == (60 if whole == 0 else ends[whole - 1])
        assert (decoded.problem is None) == (decoded.position == size)


@pytest.mark.parametrize("trailing", [b"\0", b"KE", b"KE\0\1", bytes(16), bytes(4096), b"\xff" * 16])
@pytest.mark.parametrize("name", EVENTS)
def test_events_with_trailing_data(name: str, trailing: bytes) -> None:
    decoded = fmt.decode_events(load(name) + trailing, 60)
    assert exact(decoded.events) == expected(name)
    assert decoded.position == len(load(name))
    assert decoded.problem


def test_nothing_is_no_problem() -> None:
    assert fmt.decode_events(b"", 0) == DecodedEvents([], 0, None)
    assert fmt.decode_events(load(PLAIN)[:60], 60) == DecodedEvents([], 60, None)


# --- one bit flipped ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HEADERS)
def test_every_flipped_bit_of_a_header_is_refused(name: str) -> None:
    for byte, flipped in bit_flips(load(name), 0, 60):
        with pytest.raises(CorruptFile) as caught:
            fmt.decode_delta_header(flipped)
        assert not isinstance(caught.value, UnknownVersion), byte
        assert caught.value.position == (0 if byte < 8 else 56), byte


@pytest.mark.parametrize("name", EVENTS)
def test_every_flipped_bit_of_an_event_ends_the_decoding_there(name: str) -> None:
    data, starts = load(name), bounds(name)[:-1]
    for byte, flipped in bit_flips(data, 60, len(data)):
        damaged = sum(start <= byte for start in starts) - 1
        decoded = fmt.decode_events(flipped, 60)
        assert exact(decoded.events) == expected(name, damaged), byte
        assert decoded.position == starts[damaged], byte
        assert decoded.problem, byte


# --- lies with a right CRC ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("position", "new", "kind"),
    [
        (0, "4b534e4150000000", CorruptFile),
        (8, "0000", UnknownVersion),
        (8, "0002", UnknownVersion),
        (10, "0001", UnknownVersion),
        (10, "8000", UnknownVersion),
        (12, "00000000", CorruptFile),
        (12, "ffffffff", CorruptFile),
    ],
)
@pytest.mark.parametrize("name", HEADERS)
def test_header_that_lies(name: str, position: int, new: str, kind: type[CorruptFile]) -> None:
    with pytest.raises(CorruptFile) as caught:
        fmt.decode_delta_header(reseal_header(with_bytes(load(name)[:60], position, new)))
    assert type(caught.value) is kind


def test_reserved_bytes_are_not_read() -> None:
    noisy = reseal_header(with_bytes(load(EVERY_TYPE)[:60], 32, "ff" * 24))
    assert fmt.decode_delta_header(noisy) == HEADERS[EVERY_TYPE]


@pytest.mark.parametrize(
    "newer",
    [
        framed(0, b""),
        framed(8, b""),
        framed(8, bytes(20)),
        framed(0xFFFF, bytes(8)),
        framed(2, bytes(8), version=0),
        framed(2, bytes(8), version=2),
        framed(2, bytes(8), flags=1),
        framed(2, bytes(8), flags=0x8000),
    ],
)
def test_unknown_event_is_refused_and_not_passed_over(newer: bytes) -> None:
    data = load(PLAIN) + newer + framed(5, b"")
    with pytest.raises(UnknownVersion) as caught:
        fmt.decode_events(data, 60)
    assert caught.value.position == len(load(PLAIN))


def test_unknown_event_without_a_right_crc_is_damage() -> None:
    newer = bytearray(framed(8, bytes(20)))
    newer[20] ^= 1
    decoded = fmt.decode_events(load(PLAIN) + bytes(newer), 60)
    assert exact(decoded.events) == expected(PLAIN)
    assert decoded.problem == "the event's crc32c does not match"


NO_METADATA = bytes(12)


@pytest.mark.parametrize(
    ("number", "payload"),
    [
        *((number, bytes(size)) for number in (2, 3, 4) for size in (0, 7, 9, 20)),
        *((1, bytes(size)) for size in (0, 8, 19, 21, 24)),
        *((5, bytes(size)) for size in (1, 8)),
        *((7, bytes(size)) for size in (0, 8, 11, 13, 16)),
        (6, b""),
        (6, bytes(13)),
        (6, NO_METADATA + b"\0\0" + b"x"),
        (6, NO_METADATA + b"\0\1"),
        (6, NO_METADATA + b"\0\2" + b"x"),
        (6, NO_METADATA + b"\0\1" + b"xy"),
        (6, NO_METADATA + b"\xff\xff" + b"x"),
        (6, NO_METADATA + b"\xff\xfe"),
    ],
)
def test_event_of_a_wrong_size_is_refused(number: int, payload: bytes) -> None:
    with pytest.raises(CorruptFile) as caught:
        fmt.decode_events(load(PLAIN) + framed(number, payload), 60)
    assert not isinstance(caught.value, UnknownVersion)
    assert caught.value.position == len(load(PLAIN))


@pytest.mark.parametrize("number", [1, 2, 6, 99])
def test_declared_length_allocates_nothing(number: int) -> None:
    lie = with_bytes(framed(number, bytes(20)), 8, "ffffffff")
    tracemalloc.start()
    try:
        decoded = fmt.decode_events(lie, 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoded == DecodedEvents([], 0, "an event of 4294967295 bytes reaches beyond the end")
    assert peak < 64 * 1024


def test_metadata_that_does_not_fit_its_length_is_refused() -> None:
    longest = Commit(1, 2, bytes(0xFFFE))
    assert fmt.decode_events(fmt.encode_event(longest), 0).events == [longest]
    for size in (0xFFFF, 0x10000, 0x10001):
        with pytest.raises(ValueError, match=f"{size} bytes"):
            fmt.encode_event(Commit(1, 2, bytes(size)))


def test_empty_metadata_is_not_null() -> None:
    empty, null = Commit(1, 0, b""), Commit(1, 0, None)
    assert fmt.encode_event(empty) != fmt.encode_event(null)
    assert fmt.decode_events(fmt.encode_event(empty) + fmt.encode_event(null), 0).events == [empty, null]


# --- round trips and garbage ----------------------------------------------------------------------

u32 = st.integers(0, U32_MAX)
u64 = st.integers(0, U64_MAX)
positions = st.integers(0, MAX_OFFSET)
offsets = st.integers(0, MAX_OFFSET - 1)
# Half of the metadata is full of things that begin like events.
metadata = st.one_of(
    st.none(),
    st.binary(max_size=100),
    st.integers(0, 3000).map(lambda size: (b"KE\0\1\0\2\0\0" * 375)[:size]),
)
events = st.one_of(
    st.builds(MarkInflight, offsets, u64, u32),
    st.builds(Ack, offsets),
    st.builds(ClearInflight, offsets),
    st.builds(BumpAckedUntil, positions),
    st.builds(Reset),
    st.builds(Commit, positions, st.none() | st.integers(0, U32_MAX - 1), metadata),
    st.builds(Release, offsets, u32),
)


@given(created_ts_ms=u64, generation=st.integers(0, MAX_GENERATION))
def test_header_round_trip(created_ts_ms: int, generation: int) -> None:
    header = DeltaHeader(created_ts_ms, generation)
    encoded = fmt.encode_delta_header(header)
    assert encoded == reseal_header(encoded)
    assert fmt.decode_delta_header(encoded) == header


@settings(deadline=None)
@given(before=st.binary(max_size=70), drawn=st.lists(events, max_size=12), cut=st.integers(0, 5000))
def test_round_trip(before: bytes, drawn: list[Event], cut: int) -> None:
    encoded = [fmt.encode_event(event) for event in drawn]
    data = before + b"".join(encoded)
    decoded = fmt.decode_events(data, len(before))
    assert (exact(decoded.events), *decoded[1:]) == (exact(drawn), len(data), None)

    ends = list(accumulate(map(len, encoded), initial=len(before)))
    size = max(len(before), len(data) - cut)
    whole = sum(end <= size for end in ends) - 1
    shorter = fmt.decode_events(data[:size], len(before))
    assert exact(shorter.events) == exact(drawn[:whole])
    assert shorter.position == ends[whole]
    assert (shorter.problem is None) == (size == ends[whole])


@settings(deadline=None)
@given(cut=st.integers(60, 349), garbage=st.binary(min_size=1, max_size=200))
def test_what_lies_before_the_damage_is_kept(cut: int, garbage: bytes) -> None:
    data = load(EVERY_TYPE)
    damaged = data[:cut] + garbage + data[cut + len(garbage) :]
    pairs = enumerate(zip(data, damaged, strict=False))
    first_changed = next((i for i, (old, new) in pairs if old != new), len(data))
    decoded = fmt.decode_events(damaged, 60)
    whole = sum(end <= first_changed for end in bounds(EVERY_TYPE)[1:])
    assert exact(decoded.events) == expected(EVERY_TYPE, whole)
    assert (decoded.problem is None) == (damaged == data)


@settings(deadline=None)
@given(
    head=st.sampled_from([b"", b"KE", b"KE\0\1", b"KE\0\1\0\2\0\0\0\0\0\x08", b"KE\0\1\0\5\0\0\0\0\0\0"]),
    tail=st.binary(max_size=200),
)
def test_garbage_is_a_problem(head: bytes, tail: bytes) -> None:
    decoded = fmt.decode_events(head + tail, 0)
    assert (decoded.events, decoded.position) == ([], 0)
    assert (decoded.problem is None) == (not head + tail)


@settings(deadline=None)
@given(number=st.integers(0, 9), payload=st.binary(max_size=40))
def test_garbage_behind_a_right_crc_is_an_event_or_a_corrupt_file(number: int, payload: bytes) -> None:
    data = framed(number, payload)
    try:
        decoded = fmt.decode_events(data, 0)
    except CorruptFile as error:
        assert isinstance(error, UnknownVersion) == (number not in range(1, 8))
        return
    assert [fmt.encode_event(event) for event in decoded.events] == [data]


@settings(deadline=None)
@given(size=st.integers(0, 56), tail=st.binary(max_size=100))
def test_garbage_is_no_header(size: int, tail: bytes) -> None:
    data = load(PLAIN)[:size] + tail
    if data[:60] == load(PLAIN)[:60]:
        return
    with pytest.raises(CorruptFile):
        fmt.decode_delta_header(data)


@pytest.mark.parametrize("generation", [MAX_GENERATION + 1, U64_MAX])
def test_generation_that_nobody_counts_up_to_is_refused(generation: int) -> None:
    with pytest.raises(CorruptFile, match=f"generation {generation}") as caught:
        fmt.decode_delta_header(fmt.encode_delta_header(DeltaHeader(0, generation)))
    assert caught.value.position == 24


def test_last_position_has_no_message() -> None:
    """Nothing lies behind it, so a message there could not be acked."""
    for last in (BumpAckedUntil(MAX_OFFSET), Commit(MAX_OFFSET, None, None)):
        assert fmt.decode_events(fmt.encode_event(last), 0).events == [last]
    messages: list[Event] = [
        Ack(MAX_OFFSET),
        ClearInflight(MAX_OFFSET),
        MarkInflight(MAX_OFFSET, 0, 0),
        Release(MAX_OFFSET, 0),
    ]
    for event in messages:
        with pytest.raises(ValueError, match="an offset is 0 to"):
            fmt.encode_event(event)
    with pytest.raises(CorruptFile, match=f"a Ack of offset {MAX_OFFSET}"):
        fmt.decode_events(framed(2, MAX_OFFSET.to_bytes(8, "big")), 0)


@pytest.mark.parametrize(
    "event",
    [
        MarkInflight(1, -1, 1),
        MarkInflight(1, U64_MAX + 1, 1),
        MarkInflight(1, 1, -1),
        MarkInflight(1, 1, U32_MAX + 1),
        Release(1, -1),
        Release(1, U32_MAX + 1),
        Commit(1, -1, None),
        Commit(1, U32_MAX, None),
        Commit(1, U32_MAX + 1, None),
    ],
    ids=str,
)
def test_number_that_does_not_fit_its_field_is_refused(event: Event) -> None:
    """0xFFFFFFFF is no leader epoch: read again it would be none at all."""
    with pytest.raises(ValueError, match="cannot be written|leader epoch"):
        fmt.encode_event(event)


@pytest.mark.parametrize("offset", [-1, MAX_OFFSET + 1, U64_MAX])
def test_offset_that_no_log_has_is_refused(offset: int) -> None:
    for event in (Ack(offset), Commit(offset, None, None), MarkInflight(offset, 0, 0)):
        with pytest.raises(ValueError, match="an offset is 0 to"):
            fmt.encode_event(event)
    if offset > 0:
        with pytest.raises(CorruptFile, match=f"a Ack of offset {offset}"):
            fmt.decode_events(framed(2, offset.to_bytes(8, "big")), 0)
