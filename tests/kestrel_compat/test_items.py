"""Items as records and back, and what is made of records that somebody else wrote."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import ControlType, NewRecord, build_batch, build_control_batch
from barbicel.codecs.kafka.record_batch import decode_header, encode_batch
from barbicel.codecs.kafka.records import Headers
from barbicel.kestrel_compat.items import (
    EXPIRY_HEADER,
    FLAGS_HEADER,
    FOR_HEADER,
    MAX_FLAGS,
    MAX_HEADERS,
    MAX_OPENED_BYTES,
    MAX_RECORDS,
    Audience,
    Item,
    Stretch,
    decode_stretch,
    new_record,
)

MAX_BYTES = 1 << 20
NOW_MS = 1_700_000_000_000


def decode(
    *batches: bytes | bytearray,
    from_offset: int = 0,
    max_bytes: int = MAX_BYTES,
    enough_bytes: int = 1 << 40,
) -> Stretch:
    return decode_stretch([memoryview(batch) for batch in batches], from_offset, max_bytes, enough_bytes)


def decode_headers(*headers: tuple[bytes, bytes | None]) -> tuple[Item, Audience]:
    """Of a record that somebody wrote."""
    found = decode(build_batch([NewRecord(NOW_MS, b"key", b"x", headers)]))
    assert not found.unreadable
    return found.items[0], found.audiences.get(0)


# --- there and back -------------------------------------------------------------------------------------

ITEMS = st.tuples(
    st.binary(max_size=300),
    st.integers(-(2**31), MAX_FLAGS),
    st.none() | st.integers(1, 2**62),
    st.none() | st.frozensets(st.text(max_size=10).map("kestrel+{}".format), max_size=3),
    st.integers(0, 2**44),
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(ITEMS, min_size=1, max_size=6),
    st.sampled_from(list(Codec)),
    st.integers(0, 50),
    st.integers(0, 9),
)
def test_an_item_comes_back_as_it_was(
    given: list[tuple[bytes, int, int | None, Audience, int]], codec: Codec, base_offset: int, skipped: int
) -> None:
    records = [new_record(*item) for item in given]
    batch = build_batch(records, base_offset=base_offset, codec=codec)
    from_offset = base_offset + skipped
    found = decode(batch, from_offset=from_offset)
    wanted = list(enumerate(given, base_offset))[skipped:]
    assert found.items == [
        Item(offset, data, flags, expiry_ms, added_ms)
        for offset, (data, flags, expiry_ms, _, added_ms) in wanted
    ]
    assert found.audiences == {
        # Nobody is somebody without a name: no group has an empty one.
        offset: audience or frozenset([""])
        for offset, (_, _, _, audience, _) in wanted
        if audience is not None
    }
    assert (found.start_offset, found.end_offset) == (from_offset, max(from_offset, base_offset + len(given)))
    assert not found.unreadable


def test_a_plain_item_is_a_plain_record() -> None:
    assert new_record(b"x", 0, None, None, NOW_MS) == NewRecord(NOW_MS, None, b"x", ())


def test_what_an_item_has_is_in_headers_that_people_can_read() -> None:
    record = new_record(b"x", 5, 1234, frozenset(["kestrel+b", "kestrel+a"]), NOW_MS)
    assert record.headers == (
        (b"kestrel-expiry-ms", b"1234"),
        (b"kestrel-flags", b"5"),
        (b"kestrel-for", b"kestrel+a"),
        (b"kestrel-for", b"kestrel+b"),
    )


def test_batches_one_after_the_other_and_what_lies_between() -> None:
    """Offsets between two batches are nobody's; the last batch's end is the end."""
    first = build_batch([NewRecord(1, None, b"a")], base_offset=3)
    second = build_batch([NewRecord(2, None, b"b"), NewRecord(3, None, None)], base_offset=7)
    found = decode(first, second, from_offset=1)
    assert [item.offset for item in found.items] == [3, 7]
    assert (found.start_offset, found.end_offset) == (1, 9)


def test_nothing_is_an_empty_stretch() -> None:
    assert decode(from_offset=5) == Stretch(5, 5, [], {}, [])


@pytest.mark.parametrize(
    ("expiry_ms", "max_age_ms", "deadline_ms"),
    [(None, None, None), (50, None, 50), (None, 10, 110), (105, 10, 105), (500, 10, 110)],
)
def test_an_item_has_the_earlier_of_two_ends(
    expiry_ms: int | None, max_age_ms: int | None, deadline_ms: int | None
) -> None:
    assert Item(0, b"", 0, expiry_ms, 100).deadline_ms(max_age_ms) == deadline_ms


# --- strangers' records ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"-",
        b"--5",
        b"- 5",
        b"+5",
        b" 5",
        b"5.0",
        b"five",
        b"\xff\xfe",
        "٣".encode(),
        b"1" * 21,
        b"0x10",
    ],
)
def test_what_is_no_number_is_as_if_it_were_not_there(value: bytes | None) -> None:
    item, audience = decode_headers((EXPIRY_HEADER, value), (FLAGS_HEADER, value))
    assert (item.data, item.flags, item.expiry_ms, audience) == (b"x", 0, None, None)


@pytest.mark.parametrize(
    ("value", "flags"),
    [(b"4294967295", MAX_FLAGS), (b"4294967296", 0), (b"99999999999999999999", 0), (b"-5", -5)],
)
def test_flags_have_32_bits_and_perhaps_a_sign(value: bytes, flags: int) -> None:
    assert decode_headers((FLAGS_HEADER, value))[0].flags == flags


def test_a_far_expiry_is_never() -> None:
    item, _ = decode_headers((EXPIRY_HEADER, b"99999999999999999999"))
    assert item.expiry_ms == 99999999999999999999


def test_the_last_of_several_numbers_holds() -> None:
    item, _ = decode_headers((FLAGS_HEADER, b"1"), (FLAGS_HEADER, b"2"))
    assert item.flags == 2


def test_many_names_and_strange_ones() -> None:
    headers: Headers = tuple((FOR_HEADER, b"kestrel+%d" % number) for number in range(5000))
    _, audience = decode_headers(*headers, (FOR_HEADER, b"\xff"), (b"other", b"x"))
    assert audience == frozenset(
        [f"kestrel+{number}" for number in range(5000)] + ["\N{REPLACEMENT CHARACTER}"]
    )


def test_a_name_that_is_null_names_nobody() -> None:
    assert decode_headers((FOR_HEADER, None))[1] is None
    assert decode_headers((FOR_HEADER, None), (FOR_HEADER, b"kestrel"))[1] == frozenset(["kestrel"])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([EXPIRY_HEADER, FLAGS_HEADER, FOR_HEADER, b"", b"\xff"]),
            st.none() | st.binary(max_size=30) | st.from_regex(rb"[0-9]{1,25}", fullmatch=True),
        ),
        max_size=6,
    )
)
def test_no_header_costs_the_item(headers: list[tuple[bytes, bytes | None]]) -> None:
    item, _ = decode_headers(*headers)
    assert item.data == b"x"
    assert -MAX_FLAGS <= item.flags <= MAX_FLAGS
    assert item.expiry_ms is None or item.expiry_ms >= 0


# --- what holds no items --------------------------------------------------------------------------------


def test_records_without_a_value_are_no_items() -> None:
    batch = build_batch([NewRecord(1, b"k", None), NewRecord(2, b"k", b""), NewRecord(3, None, None)])
    found = decode(batch)
    assert [(item.offset, item.data) for item in found.items] == [(1, b"")]
    assert found.end_offset == 3


def test_control_batches_hold_no_items() -> None:
    marker = build_control_batch(
        ControlType.COMMIT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=1,
        base_offset=1,
    )
    found = decode(build_batch([NewRecord(1, None, b"a")]), marker)
    assert [item.offset for item in found.items] == [0]
    assert (found.end_offset, found.unreadable) == (2, [])


def lying_batch(codec: Codec, records: bytes, base_offset: int = 0, count: int = 1) -> bytearray:
    """With a good header and checksum around anything."""
    header = decode_header(
        memoryview(build_batch([NewRecord(1, None, b"x")] * count, base_offset=base_offset))
    )
    return encode_batch(header._replace(attributes=codec), records)


@pytest.mark.parametrize("codec", list(Codec))
def test_what_cannot_be_opened_is_told_and_passed_over(codec: Codec) -> None:
    bad = lying_batch(codec, b"\x99 this is no compressed record", base_offset=1, count=2)
    good = build_batch([NewRecord(1, None, b"good")], base_offset=3)
    found = decode(build_batch([NewRecord(1, None, b"first")]), bad, good)
    assert [item.data for item in found.items] == [b"first", b"good"]
    assert found.end_offset == 4
    ((base_offset, end_offset, reason),) = found.unreadable
    assert (base_offset, end_offset) == (1, 3)
    assert reason


def test_the_items_before_a_damaged_record_are_given() -> None:
    whole = build_batch([NewRecord(1, None, b"a"), NewRecord(1, None, b"b")])
    header = decode_header(memoryview(whole))
    found = decode(encode_batch(header, whole[61:-1]))
    assert [item.data for item in found.items] == [b"a"]
    assert [(one.base_offset, one.end_offset) for one in found.unreadable] == [(0, 2)]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_compressed_batch_is_opened_up_to_a_size(codec: Codec) -> None:
    batch = build_batch([NewRecord(1, None, b"x" * 100_000)], codec=codec)
    assert [len(item.data) for item in decode(batch, max_bytes=200_000).items] == [100_000]
    found = decode(batch, max_bytes=50_000)
    assert found.items == []
    assert "50000" in found.unreadable[0].reason


def test_what_is_not_compressed_is_given_whatever_its_size() -> None:
    """It is in memory already: a client that was told STORED gets it back."""
    found = decode(build_batch([NewRecord(1, None, b"x" * 100_000)]), max_bytes=1000)
    assert [len(item.data) for item in found.items] == [100_000]


def test_a_record_with_millions_of_headers_is_passed_over() -> None:
    """Compressed they are a few kilobytes, and as objects they would be gigabytes."""
    few = NewRecord(1, None, b"few", ((b"", None),) * MAX_HEADERS)
    many = NewRecord(1, None, b"many", ((b"", None),) * (MAX_HEADERS + 1))
    batches = (build_batch([one], base_offset=at, codec=Codec.GZIP) for at, one in enumerate((few, many)))
    found = decode(*batches)
    assert [item.data for item in found.items] == [b"few"]
    assert [(one.base_offset, one.end_offset) for one in found.unreadable] == [(1, 2)]


def test_a_batch_with_millions_of_records_is_passed_over() -> None:
    """The same: 64 KB of gzip hold nine million records, and as items they would be two gigabytes."""
    tiny = NewRecord(1, None, b"")
    most = build_batch([tiny] * MAX_RECORDS, base_offset=0, codec=Codec.GZIP)
    more = build_batch([tiny] * (MAX_RECORDS + 1), base_offset=MAX_RECORDS, codec=Codec.GZIP)
    assert len(decode(most, max_bytes=MAX_OPENED_BYTES).items) == MAX_RECORDS
    found = decode(more, max_bytes=MAX_OPENED_BYTES)
    assert found.items == []
    assert [(one.base_offset, one.end_offset) for one in found.unreadable] == [
        (MAX_RECORDS, 2 * MAX_RECORDS + 1)
    ]
    assert str(MAX_RECORDS + 1) in found.unreadable[0].reason


# --- a part at a time -----------------------------------------------------------------------------------

BOMB = b"x" * 5000

PARTS = st.lists(
    st.tuples(
        st.sampled_from(["plain", "control", *(codec.name for codec in Codec)]),
        st.lists(st.sampled_from([b"", b"a", b"b" * 100, BOMB, None]), min_size=1, max_size=4),
        st.integers(0, 2),
    ),
    max_size=8,
)


def batches_of(parts: list[tuple[str, list[bytes | None], int]]) -> list[bytes]:
    """Mixed, with gaps, items for some only, and batches that are larger inside than is opened."""
    batches, offset = [], 3
    for kind, values, gap in parts:
        offset += gap
        if kind == "control":
            marker = build_control_batch(
                ControlType.COMMIT,
                producer_id=1,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=NOW_MS,
                base_offset=offset,
            )
            batches.append(marker)
            offset += 1
            continue
        headers = ((FOR_HEADER, b"kestrel+a"),) if gap else ()
        codec = Codec.NONE if kind == "plain" else Codec[kind]
        records = [NewRecord(NOW_MS, None, value, headers) for value in values]
        batches.append(bytes(build_batch(records, base_offset=offset, codec=codec)))
        offset += len(values)
    return batches


@settings(max_examples=200, deadline=None)
@given(PARTS, st.integers(0, 12), st.sampled_from([1, 90, 200, 5000]))
def test_parts_are_what_the_whole_is(
    parts: list[tuple[str, list[bytes | None], int]], from_offset: int, enough_bytes: int
) -> None:
    batches = batches_of(parts)
    limit = 4000
    ends = [decode_header(memoryview(batch)).end_offset for batch in batches]
    left = [batch for batch, end in zip(batches, ends, strict=True) if end > from_offset]
    whole = decode(*left, from_offset=from_offset, max_bytes=limit)
    put_together = Stretch(from_offset, from_offset, [], {}, [])
    while left:
        part = decode(*left, from_offset=put_together.end_offset, max_bytes=limit, enough_bytes=enough_bytes)
        assert part.start_offset == put_together.end_offset < part.end_offset
        put_together.items.extend(part.items)
        put_together.audiences.update(part.audiences)
        put_together.unreadable.extend(part.unreadable)
        put_together = put_together._replace(end_offset=part.end_offset)
        left = [one for one in left if decode_header(memoryview(one)).end_offset > part.end_offset]
    assert put_together == whole


def test_no_more_is_opened_than_is_enough() -> None:
    """But for one batch: fifty of 60 MiB lie in a few kilobytes."""
    batches = [
        build_batch([NewRecord(1, None, b"x" * 1000)], base_offset=at, codec=Codec.ZSTD) for at in range(9)
    ]
    assert len(decode(*batches, enough_bytes=1).items) == 1
    assert len(decode(*batches, enough_bytes=1500).items) == 2
    passed_over = decode(*batches, max_bytes=500, enough_bytes=1500)
    assert (len(passed_over.items), len(passed_over.unreadable), passed_over.end_offset) == (0, 3, 3)


def test_what_is_not_compressed_is_not_cut_short() -> None:
    """There is never more inside than there is outside, and it was read with the same limit."""
    batches = [build_batch([NewRecord(1, None, b"x" * 1000)], base_offset=at) for at in range(9)]
    assert len(decode(*batches, enough_bytes=sum(map(len, batches))).items) == 9


def test_no_more_records_are_opened_than_one_batch_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of nothing at all each, they would be few bytes."""
    monkeypatch.setattr("barbicel.kestrel_compat.items.MAX_RECORDS", 10)
    batches = [build_batch([NewRecord(1, None, b"")] * 4, base_offset=4 * at) for at in range(9)]
    assert len(decode(*batches).items) == 12
