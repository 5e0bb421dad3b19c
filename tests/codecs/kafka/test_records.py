"""Records read from goldens, from damaged batches, and from lies whose CRC is right."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.codecs.kafka.compression import Codec, compress
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.codecs.kafka.record_batch import BadBatch, decode_header, stamp_append_time
from barbicel.codecs.kafka.records import (
    KafkaRecord,
    TimedOffset,
    decode_records,
    find_timestamp,
    max_timestamp_offset,
)
from tests.codecs.kafka.golden_batches import (
    APPEND_TIME,
    COMMIT,
    PLAIN,
    RECORDS_AT,
    any_records,
    batch_of,
    times,
    with_crc,
)
from tests.codecs.kafka.other_records import KAFKA_PYTHON

MiB = 1 << 20
T = 1_700_000_000_000
NOTHING = bytes.fromhex("0c 00 00 00 01 01 00")  # the smallest record, at the base offset


def decode(batch: bytes | bytearray, max_bytes: int = MiB) -> list[KafkaRecord]:
    return list(decode_records(memoryview(batch), max_bytes=max_bytes))


def test_the_goldens_are_read() -> None:
    assert decode(PLAIN) == [
        KafkaRecord(5, 1000, None, b"a", ()),
        KafkaRecord(6, 997, b"k", None, ((b"h", None),)),
    ]
    assert decode(APPEND_TIME) == [
        KafkaRecord(0, 1300, None, b"a", ()),
        KafkaRecord(1, 1300, None, b"v" * 100, ()),
    ]
    assert decode(COMMIT) == [KafkaRecord(100, 1000, b"\0\0\0\1", b"\0\0\0\0\0\x09", ())]


def test_a_stamped_batch_gives_the_time_of_the_append() -> None:
    batch = bytearray(build_batch([NewRecord(T, None, b"1"), NewRecord(T - 50, None, b"2")], codec=Codec.LZ4))
    stamp_append_time(batch, T + 7)
    assert [record.timestamp_ms for record in decode(batch)] == [T + 7, T + 7]
    assert KAFKA_PYTHON.decode(bytes(batch)) == decode(batch)


def bad(batch: bytes, max_bytes: int = MiB) -> ErrorCode:
    with pytest.raises(BadBatch) as refused:
        decode(batch, max_bytes)
    return refused.value.error_code


# What is wrong → the bytes of the records, their count.
LIES = {
    "no bytes": ("", 1),
    "fewer records than said": (NOTHING.hex(), 2),
    "more records than said": (NOTHING.hex() + "0c 00 00 02 01 01 00", 1),
    "a byte after the last": (NOTHING.hex() + "00", 1),
    "length 0": ("00 00 00 00 01 01 00", 1),
    "a negative length": ("0b 00 00 00 01 01 00", 1),
    "a length too short": ("0a 00 00 00 01 01 00", 1),
    "a length too long": ("0e 00 00 00 01 01 00", 1),
    "a length into the next record": ("0e 00 00 00 01 01 00" + "0c 00 00 02 01 01 00", 2),
    "a length of 4 GiB": ("feffffff1f 00 00 00 01 01 00", 1),
    "a length of 6 bytes": ("8c8080808000 00 00 00 01 01 00", 1),
    "a length without an end": ("ff" * 1000, 1),
    "a key too long": ("0c 00 00 00 08 01 00", 1),
    "a key of 2 GiB": ("14 00 00 00 feffffff0f 01 00", 1),
    "a value too long": ("0c 00 00 00 01 04 00", 1),
    "a value of 2 GiB": ("14 00 00 00 01 feffffff0f 00", 1),
    "an offset below the base": ("0c 00 00 01 01 01 00", 1),
    "an offset beyond the last": ("0c 00 00 02 01 01 00", 1),
    "the same offset twice": (NOTHING.hex() * 2, 2),
    "an offset of 6 bytes": ("16 00 00 808080808000 01 01 00", 1),
    "a timestamp of 11 bytes": ("20 00 8080808080808080808000 00 01 01 00", 1),
    "a timestamp beyond 64 bits": ("1e 00 ffffffffffffffffff7f 00 01 01 00", 1),
    "a timestamp that overflows with its base": ("1e 00 feffffffffffffffff01 00 01 01 00", 1),
    "a negative number of headers": ("0c 00 00 00 01 01 01", 1),
    "a header that is not there": ("0c 00 00 00 01 01 02", 1),
    "two thousand million headers": ("14 00 00 00 01 01 feffffff0f", 1),
    "a header without a key": ("10 00 00 00 01 01 02 01 01", 1),
    "a header's key too long": ("10 00 00 00 01 01 02 08 01", 1),
    "a header's value too long": ("10 00 00 00 01 01 02 00 08", 1),
    "a header's value beyond the end, and the length too": ("18 00 00 00 01 01 02 00 08", 1),
    "a header's key that ends before it starts": ("0e 00 00 00 01 01 02 01" + "0c 00 00 02 01 01 00", 2),
}


@pytest.mark.parametrize(("records", "count"), LIES.values(), ids=LIES.keys())
def test_a_lie_with_a_right_crc_is_noticed(records: str, count: int) -> None:
    batch = batch_of(bytes.fromhex(records), count=count)
    assert bad(batch) is ErrorCode.INVALID_RECORD


def test_the_records_before_a_lie_are_given() -> None:
    records = decode_records(memoryview(batch_of(NOTHING * 2, count=2)), max_bytes=MiB)
    assert next(records).offset == 0
    with pytest.raises(BadBatch, match="the record after offset 0 is damaged"):
        next(records)


def test_a_record_that_goes_beyond_the_end_is_not_given() -> None:
    records, count = LIES["a header's value beyond the end, and the length too"]
    with pytest.raises(BadBatch, match="the record after offset -1 is damaged"):
        next(decode_records(memoryview(batch_of(bytes.fromhex(records), count=count)), max_bytes=MiB))


def test_a_gap_in_the_offsets_is_no_lie() -> None:
    batch = bytearray(batch_of(NOTHING + bytes.fromhex("0c 00 00 08 01 01 00"), count=2))
    struct.pack_into(">i", batch, 23, 4)
    assert [record.offset for record in decode(with_crc(bytes(batch)))] == [0, 4]


def test_a_batch_may_be_empty() -> None:
    assert decode(batch_of(b"", count=0)) == []
    assert max_timestamp_offset(memoryview(batch_of(b"", count=0)), max_bytes=MiB) is None


@pytest.mark.parametrize("golden", [PLAIN, APPEND_TIME])
def test_records_cut_anywhere_are_refused(golden: bytes) -> None:
    for size in range(len(golden) - RECORDS_AT):
        assert bad(batch_of(golden[RECORDS_AT : RECORDS_AT + size], count=2)) is ErrorCode.INVALID_RECORD


def test_every_flipped_bit_with_a_right_crc_is_refused_or_read_within_bounds() -> None:
    for position in range(len(PLAIN) - RECORDS_AT):
        for bit in range(8):
            flipped = bytearray(PLAIN[RECORDS_AT:])
            flipped[position] ^= 1 << bit
            try:
                records = decode(batch_of(bytes(flipped), count=2))
            except BadBatch:
                continue
            assert [record.offset for record in records] == [0, 1]
            assert max_timestamp_offset(memoryview(batch_of(bytes(flipped), count=2)), max_bytes=MiB)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 9))
def test_garbage_is_refused_or_read_within_bounds(data: bytes, count: int) -> None:
    batch = memoryview(batch_of(data, count=count))
    try:
        records = list(decode_records(batch, max_bytes=100))
    except BadBatch:
        return
    assert len(records) == count
    assert records == [] or find_timestamp(batch, -(2**63), max_bytes=100) == records[0][:2]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_damaged_compression_is_corrupt(codec: Codec) -> None:
    packed = compress(codec, NOTHING)
    assert decode(batch_of(packed, count=1, attributes=codec)) == [KafkaRecord(0, 1000, None, None, ())]
    assert bad(batch_of(packed[:-1], count=1, attributes=codec)) is ErrorCode.CORRUPT_MESSAGE
    assert bad(batch_of(b"", count=1, attributes=codec)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("attributes", [5, 6, 7])
def test_an_unknown_codec_is_refused(attributes: int) -> None:
    assert bad(batch_of(NOTHING, count=1, attributes=attributes)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", Codec)
def test_more_inside_than_allowed_is_too_large(codec: Codec) -> None:
    batch = build_batch([NewRecord(T, None, bytes(100_000))], codec=codec)
    inside = decode_header(memoryview(build_batch([NewRecord(T, None, bytes(100_000))]))).size - RECORDS_AT
    assert len(decode(batch, inside)) == 1
    assert bad(batch, inside - 1) is ErrorCode.MESSAGE_TOO_LARGE


def test_more_headers_than_allowed_are_too_large_and_none_is_made() -> None:
    """Two bytes each there, and some hundred as objects."""
    headers = ((b"", None),) * 100_000
    batch = memoryview(build_batch([NewRecord(0, None, b"v", headers)], codec=Codec.GZIP))
    (record,) = decode_records(batch, max_bytes=MiB, max_headers=100_000)
    assert record.headers == headers
    tracemalloc.start()
    try:
        with pytest.raises(BadBatch, match="has 100000 headers") as problem:
            list(decode_records(batch, max_bytes=MiB, max_headers=99_999))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert problem.value.error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert peak_bytes < 2 * MiB


def test_a_great_many_small_records_are_not_all_held_at_once() -> None:
    batch = memoryview(build_batch([NewRecord(T, None, None)] * 30_000, codec=Codec.ZSTD))
    tracemalloc.start()
    try:
        assert sum(1 for _ in decode_records(batch, max_bytes=MiB)) == 30_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * MiB  # a list of them has 6


@settings(max_examples=100, deadline=None)
@given(any_records, st.sampled_from(Codec), times, st.integers(0, 90))
def test_a_time_is_found_as_by_reading_all(
    records: list[NewRecord], codec: Codec, wanted: int, from_offset: int
) -> None:
    batch = build_batch(records, codec=codec, base_offset=5)
    everything = decode(batch)
    later = [each[:2] for each in everything if each.timestamp_ms >= wanted and each.offset >= from_offset]
    found = find_timestamp(memoryview(batch), wanted, max_bytes=MiB, from_offset=from_offset)
    assert found == (later[0] if later else None)

    greatest = max(each.timestamp_ms for each in everything)
    first = next(each.offset for each in everything if each.timestamp_ms == greatest)
    expected = TimedOffset(first, greatest) if greatest >= 0 else None
    assert max_timestamp_offset(memoryview(batch), max_bytes=MiB) == expected


def test_a_stamped_batch_is_found_by_the_time_of_the_append() -> None:
    batch = memoryview(APPEND_TIME)
    assert find_timestamp(batch, 1300, max_bytes=MiB) == (0, 1300)
    assert find_timestamp(batch, 1300, max_bytes=MiB, from_offset=1) == (1, 1300)
    assert find_timestamp(batch, 1301, max_bytes=MiB) is None
    assert max_timestamp_offset(batch, max_bytes=MiB) == (0, 1300)


SEEN_BY_THE_SEARCH = [
    "no bytes",
    "fewer records than said",
    "length 0",
    "a negative length",
    "a length into the next record",
    "a length of 4 GiB",
    "a length of 6 bytes",
    "a length without an end",
    "an offset below the base",
    "an offset beyond the last",
    "the same offset twice",
    "an offset of 6 bytes",
    "a timestamp of 11 bytes",
    "a timestamp beyond 64 bits",
    "a timestamp that overflows with its base",
]


@pytest.mark.parametrize("name", SEEN_BY_THE_SEARCH)
def test_a_lie_about_time_or_place_is_noticed_by_the_search(name: str) -> None:
    records, count = LIES[name]
    batch = memoryview(batch_of(bytes.fromhex(records), count=count))
    with pytest.raises(BadBatch):
        find_timestamp(batch, 2**63 - 1, max_bytes=MiB)
