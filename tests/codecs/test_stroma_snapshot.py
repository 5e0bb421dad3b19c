"""Stroma's snapshots against goldens that were written from the specification (tests/golden/stroma).

Fed whole, growing byte by byte, with trailing data, with every bit flipped, and with lies whose CRCs are
right. test_stroma_events.py does the same with deltas.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.codecs import stroma_snapshot as fmt
from barbicel.codecs.stroma_format import CRC, MAX_GENERATION, MAX_OFFSET, NO_DEADLINE_MS, hash_name
from barbicel.codecs.stroma_snapshot import Inflight, Snapshot
from barbicel.errors import CorruptFile, UnknownVersion
from tests.golden import load, names
from tests.golden.crc32c_bitwise import crc32c as crc32c_bitwise

T = 1_700_000_000_000
BIG = 5_000_000_000
U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1
ORDERS_3 = 0xCF0A953472259127
BILLING = 0x0C95C7ECE1CE1A97

PLAIN = "stroma/snap-plain"
EXTENDED = "stroma/snap-extended"
EMPTY = "stroma/snap-empty"
SNAPSHOTS = {
    PLAIN: Snapshot(
        created_ts_ms=T,
        tp_hash=ORDERS_3,
        group_hash=BILLING,
        generation=0,
        acked_until=42,
        inflight=((42, Inflight(T + 30_000, 1)), (44, Inflight(T + 45_000, 2))),
    ),
    EXTENDED: Snapshot(
        created_ts_ms=T + 1000,
        tp_hash=ORDERS_3,
        group_hash=BILLING,
        generation=7,
        acked_until=BIG,
        inflight=((BIG + 6, Inflight(NO_DEADLINE_MS, 3)),),
        is_committed=True,
        leader_epoch=4,
        metadata="nœud-7".encode(),
        ranges=((BIG + 1, BIG + 3), (BIG + 4, BIG + 5)),
        releases=((BIG + 3, 2),),
    ),
    EMPTY: Snapshot(
        created_ts_ms=T + 2000, tp_hash=ORDERS_3, group_hash=BILLING, generation=1, acked_until=0
    ),
}

# Where fields of the goldens are.
FLAGS = 10
PAYLOAD = 76
INFLIGHT_COUNT = PAYLOAD + 8
EXTENDED_EXTENSION = 124
EXTENDED_METADATA_LEN = 188
EMPTY_METADATA_LEN = 116


def bit_flips(data: bytes) -> Iterator[tuple[int, bytes]]:
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 0x80 >> bit % 8
        yield bit // 8, bytes(flipped)


def with_bytes(data: bytes, position: int, new: str) -> bytes:
    raw = bytes.fromhex(new)
    return data[:position] + raw + data[position + len(raw) :]


def reseal(snapshot: bytes) -> bytes:
    """The same bytes with both CRCs right."""
    header, payload = snapshot[:72], snapshot[76:-4]
    return b"".join(
        (
            header,
            crc32c_bitwise(header).to_bytes(4, "big"),
            payload,
            crc32c_bitwise(payload).to_bytes(4, "big"),
        )
    )


# --- sizes and goldens ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (fmt.SNAP_HEADER_BYTES, 76),
        (fmt.SNAP_COUNTS.size + fmt.SNAP_HINT.size + CRC.size, 28),
        (fmt.SNAP_INFLIGHT.size, 24),
        (fmt.SNAP_EXTENSION.size, 16),
        (fmt.SNAP_RANGE.size, 16),
        (fmt.SNAP_RELEASE.size, 16),
        (fmt.SNAP_METADATA_LEN.size, 2),
        (len(load(PLAIN)), 76 + 28 + 2 * 24),
        (len(load(EMPTY)), 76 + 28 + 16 + 2),
        (len(load(EXTENDED)), 76 + 28 + 24 + 16 + 2 * 16 + 16 + 2 + 7),
    ],
)
def test_sizes(size: int, expected: int) -> None:
    assert size == expected


def test_every_golden_snapshot_is_used() -> None:
    assert {name for name in names("stroma") if "snap" in name} == SNAPSHOTS.keys()


def test_name_hashes() -> None:
    assert hash_name("orders-3") == ORDERS_3
    assert hash_name("billing") == BILLING
    # The first half of the well-known SHA-256 of nothing.
    assert hash_name("") == 0xE3B0C44298FC1C14


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_golden_decodes(name: str) -> None:
    assert fmt.decode_snapshot(load(name)) == SNAPSHOTS[name]


@pytest.mark.parametrize("name", [EXTENDED, EMPTY])
def test_golden_encodes(name: str) -> None:
    assert fmt.encode_snapshot(SNAPSHOTS[name]) == load(name)


def test_snapshot_without_extension_is_written_back_with_one() -> None:
    encoded = fmt.encode_snapshot(SNAPSHOTS[PLAIN])
    assert len(encoded) == len(load(PLAIN)) + 16 + 2
    assert encoded[PAYLOAD:148] == load(PLAIN)[PAYLOAD:148]
    assert fmt.decode_snapshot(encoded) == SNAPSHOTS[PLAIN]


@pytest.mark.parametrize(
    ("name", "hint"), [(PLAIN, T + 30_000), (EXTENDED, NO_DEADLINE_MS), (EMPTY, NO_DEADLINE_MS)]
)
def test_hint_is_the_earliest_deadline(name: str, hint: int) -> None:
    assert SNAPSHOTS[name].min_deadline_ms == hint
    at = PAYLOAD + 16 + 24 * len(SNAPSHOTS[name].inflight)
    assert int.from_bytes(load(name)[at : at + 8], "big") == hint


# --- cut short, and with trailing data ------------------------------------------------------------


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_every_prefix_is_refused(name: str) -> None:
    data = load(name)
    for size in range(len(data)):
        with pytest.raises(CorruptFile) as caught:
            fmt.decode_snapshot(data[:size])
        assert not isinstance(caught.value, UnknownVersion)


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_every_prefix_with_right_crcs_is_refused(name: str) -> None:
    data = load(name)
    for size in range(PAYLOAD + 4, len(data)):
        with pytest.raises(CorruptFile):
            fmt.decode_snapshot(reseal(data[:size]))


@pytest.mark.parametrize("trailing", [b"\0", b"KE\0\1", bytes(16), bytes(24), b"\xff" * 100])
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_trailing_data_is_refused(name: str, trailing: bytes) -> None:
    with pytest.raises(CorruptFile, match="crc32c"):
        fmt.decode_snapshot(load(name) + trailing)
    with pytest.raises(CorruptFile, match="bytes"):
        fmt.decode_snapshot(reseal(load(name) + trailing))


# --- damage, and lies with right CRCs -------------------------------------------------------------


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_every_flipped_bit_is_refused(name: str) -> None:
    for byte, flipped in bit_flips(load(name)):
        with pytest.raises(CorruptFile) as caught:
            fmt.decode_snapshot(flipped)
        assert not isinstance(caught.value, UnknownVersion), byte
        assert caught.value.position == (0 if byte < 8 else 72 if byte < PAYLOAD else len(flipped) - 4)


@pytest.mark.parametrize(
    ("position", "new", "message"),
    [
        (0, "4b44454c54410000", "magic"),
        (12, "0000004b", "header_len 75"),
        (12, "ffffffff", "header_len 4294967295"),
        (INFLIGHT_COUNT, "00000000", "commit_state"),
        (INFLIGHT_COUNT, "00000006", "6 entries of 24 bytes"),
        (EXTENDED_EXTENSION + 8, "00000001", "metadata_len"),
        (EXTENDED_EXTENSION + 8, "00000005", "5 entries of 16 bytes"),
        (EXTENDED_EXTENSION + 12, "00000000", "metadata_len"),
        (EXTENDED_EXTENSION + 12, "00000003", "3 entries of 16 bytes"),
        (EXTENDED_METADATA_LEN, "0006", "metadata_len 6 with 7 bytes"),
        (EXTENDED_METADATA_LEN, "0008", "metadata_len 8 with 7 bytes"),
        (EXTENDED_METADATA_LEN, "fffe", "metadata_len 65534 with 7 bytes"),
        (EXTENDED_METADATA_LEN, "ffff", "metadata_len 65535 with 7 bytes"),
    ],
)
def test_snapshot_that_lies(position: int, new: str, message: str) -> None:
    with pytest.raises(CorruptFile, match=message) as caught:
        fmt.decode_snapshot(reseal(with_bytes(load(EXTENDED), position, new)))
    assert not isinstance(caught.value, UnknownVersion)


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        (EXTENDED, "0000", "73 bytes too many"),
        (EMPTY, "0000", "18 bytes too many"),
        (PLAIN, "0001", "1 entries of 16 bytes, 0 bytes are left"),
    ],
)
def test_extension_is_there_exactly_if_the_flags_say_so(name: str, flags: str, message: str) -> None:
    with pytest.raises(CorruptFile, match=message):
        fmt.decode_snapshot(reseal(with_bytes(load(name), FLAGS, flags)))


@pytest.mark.parametrize(
    ("position", "new"), [(8, "0000"), (8, "0002"), (8, "ffff"), (FLAGS, "0003"), (FLAGS, "8001")]
)
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_sound_snapshot_of_another_version_is_not_damage(name: str, position: int, new: str) -> None:
    newer = with_bytes(load(name), position, new)
    with pytest.raises(UnknownVersion) as caught:
        fmt.decode_snapshot(reseal(newer))
    assert caught.value.position == 8
    with pytest.raises(CorruptFile, match="crc32c does not match"):
        fmt.decode_snapshot(newer)


@pytest.mark.parametrize("commit_state", ["00000002", "80000001", "ffffffff"])
def test_commit_state_is_0_or_1(commit_state: str) -> None:
    with pytest.raises(CorruptFile, match="commit_state"):
        fmt.decode_snapshot(reseal(with_bytes(load(EXTENDED), EXTENDED_EXTENSION, commit_state)))


def test_reserved_bytes_and_the_hint_are_not_read() -> None:
    noisy = load(EXTENDED)
    for position, new in ((56, "ff" * 16), (88, "ffffffff"), (112, "ffffffff"), (184, "ffffffff")):
        noisy = with_bytes(noisy, position, new)
    noisy = with_bytes(noisy, 116, "00" * 8)
    assert fmt.decode_snapshot(reseal(noisy)) == SNAPSHOTS[EXTENDED]


@pytest.mark.parametrize(
    ("name", "position", "new"),
    [
        (PLAIN, INFLIGHT_COUNT, "ffffffff"),
        (EXTENDED, INFLIGHT_COUNT, "ffffffff"),
        (EXTENDED, EXTENDED_EXTENSION + 8, "ffffffff00000001"),
        (EXTENDED, EXTENDED_EXTENSION + 8, "00000002ffffffff"),
        (EMPTY, EMPTY_METADATA_LEN, "fffe"),
    ],
)
def test_declared_counts_allocate_nothing(name: str, position: int, new: str) -> None:
    lie = reseal(with_bytes(load(name), position, new))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFile):
            fmt.decode_snapshot(lie)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024


def test_metadata_that_does_not_fit_its_length_is_refused() -> None:
    longest = replace(SNAPSHOTS[EMPTY], metadata=bytes(0xFFFE))
    assert fmt.decode_snapshot(fmt.encode_snapshot(longest)) == longest
    for size in (0xFFFF, 0x10000, 0x10001):
        with pytest.raises(ValueError, match=f"{size} bytes"):
            fmt.encode_snapshot(replace(longest, metadata=bytes(size)))


def test_empty_metadata_is_not_null() -> None:
    empty = replace(SNAPSHOTS[EMPTY], metadata=b"")
    assert fmt.decode_snapshot(fmt.encode_snapshot(empty)).metadata == b""
    assert fmt.decode_snapshot(load(EMPTY)).metadata is None


@pytest.mark.parametrize("generation", [MAX_GENERATION + 1, U64_MAX])
def test_generation_that_nobody_counts_up_to_is_refused(generation: int) -> None:
    with pytest.raises(CorruptFile, match=f"generation {generation}") as caught:
        fmt.decode_snapshot(fmt.encode_snapshot(replace(SNAPSHOTS[EMPTY], generation=generation)))
    assert caught.value.position == 40


LAST = MAX_OFFSET - 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"acked_until": MAX_OFFSET + 1}, "acked_until"),
        ({"acked_until": U64_MAX}, "acked_until"),
        ({"ranges": ((LAST, MAX_OFFSET + 1),)}, "does not lie behind"),
        ({"inflight": ((MAX_OFFSET, Inflight(1, 1)),)}, "does not follow"),
        ({"releases": ((MAX_OFFSET, 1),)}, "does not follow"),
        ({"inflight": ((7, Inflight(1, 1)),), "releases": ((7, 1),)}, "7 is inflight and released"),
        ({"ranges": ((3, 6), (9, 12)), "inflight": ((5, Inflight(1, 1)),)}, "5 is acked and"),
        ({"ranges": ((3, 6), (9, 12)), "releases": ((9, 1),)}, "9 is acked and"),
        ({"ranges": ((3, 6), (9, 12)), "releases": ((11, 1),)}, "11 is acked and"),
    ],
)
def test_state_that_no_group_can_be_in_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CorruptFile, match=message):
        fmt.decode_snapshot(fmt.encode_snapshot(replace(SNAPSHOTS[EMPTY], **changes)))


def test_last_state_that_a_group_can_be_in_is_read() -> None:
    last = replace(
        SNAPSHOTS[EMPTY],
        ranges=((3, 6), (LAST - 2, LAST)),
        inflight=((2, Inflight(1, 1)), (6, Inflight(1, 1))),
        releases=((LAST, 1),),
    )
    for snapshot in (last, replace(SNAPSHOTS[EMPTY], acked_until=MAX_OFFSET)):
        assert fmt.decode_snapshot(fmt.encode_snapshot(snapshot)) == snapshot


# --- round trips and garbage ----------------------------------------------------------------------

u32 = st.integers(0, U32_MAX)
u64 = st.integers(0, U64_MAX)
# What lies beyond the frontier, as (distance to what lies before it, length, what it is).
pieces = st.tuples(
    st.integers(1, 2**40), st.integers(1, 2**40), st.sampled_from(["acked", "inflight", "released"])
)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    acked_until = draw(st.integers(0, 2**62))
    at, inflight, ranges, releases = acked_until, [], [], []
    for distance, length, kind in draw(st.lists(pieces, max_size=20)):
        at += distance
        if kind == "acked":
            ranges.append((at, at + length))
            at += length
        elif kind == "inflight":
            inflight.append((at, Inflight(draw(u64), draw(u32))))
        else:
            releases.append((at, draw(u32)))
    is_committed = draw(st.booleans())
    return Snapshot(
        created_ts_ms=draw(u64),
        tp_hash=draw(u64),
        group_hash=draw(u64),
        generation=draw(st.integers(0, MAX_GENERATION)),
        acked_until=acked_until,
        inflight=tuple(inflight),
        is_committed=is_committed,
        leader_epoch=draw(st.none() | st.integers(0, U32_MAX - 1)) if is_committed else None,
        metadata=draw(st.none() | st.binary(max_size=300)) if is_committed else None,
        ranges=tuple(ranges),
        releases=tuple(releases),
        delta_position=draw(u64),
    )


@settings(deadline=None)
@given(snapshots())
def test_round_trip(snapshot: Snapshot) -> None:
    encoded = fmt.encode_snapshot(snapshot)
    beyond = 24 * len(snapshot.inflight) + 16 * len(snapshot.ranges) + 16 * len(snapshot.releases)
    assert len(encoded) == 76 + 28 + 16 + 2 + beyond + len(snapshot.metadata or b"")
    assert encoded == reseal(encoded)
    assert fmt.decode_snapshot(encoded) == snapshot


def test_round_trip_of_many() -> None:
    many = replace(
        SNAPSHOTS[EXTENDED],
        inflight=tuple((BIG + 3 * i, Inflight(T + i, i)) for i in range(1, 1000)),
        ranges=tuple((BIG + 3 * i + 1, BIG + 3 * i + 2) for i in range(1, 1000)),
        releases=tuple((BIG + 3 * i + 2, i) for i in range(1, 1000)),
    )
    assert fmt.decode_snapshot(fmt.encode_snapshot(many)) == many
    assert many.min_deadline_ms == T + 1


@settings(deadline=None)
@given(name=st.sampled_from(sorted(SNAPSHOTS)), size=st.integers(0, 76), tail=st.binary(max_size=200))
def test_garbage_is_a_corrupt_file(name: str, size: int, tail: bytes) -> None:
    with pytest.raises(CorruptFile):
        fmt.decode_snapshot(load(name)[:size] + tail)


@settings(deadline=None)
@given(name=st.sampled_from(sorted(SNAPSHOTS)), payload=st.binary(max_size=200))
def test_garbage_behind_right_crcs_is_a_value_or_a_corrupt_file(name: str, payload: bytes) -> None:
    sealed = reseal(load(name)[:PAYLOAD] + payload + bytes(4))
    try:
        snapshot = fmt.decode_snapshot(sealed)
    except CorruptFile:
        return
    assert fmt.decode_snapshot(fmt.encode_snapshot(snapshot)) == snapshot
