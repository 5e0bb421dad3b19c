"""Runs of small batches: what is taken is what the log's own decoder reads; what needs a judge is not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.codecs.kafka.columns import SMALL_RECORD_BYTES, Wanted, decode_run
from barbicel.codecs.kafka.columns_runs import find_run
from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import ControlType, NewRecord, build_batch, build_control_batch
from barbicel.codecs.kafka.record_batch import BadBatch, decode_header
from barbicel.codecs.kafka.records import KafkaRecord
from barbicel.codecs.kafka.records import decode_records as decode_kafka
from barbicel.codecs.keratin_record import decode_records, encode_lost, encode_record
from tests.codecs.kafka.golden_batches import batch_of, with_crc
from tests.codecs.kafka.test_columns import ALL, any_headers, blobs, rows

FAR = 2**62
T = 1_700_000_000_000
FIRST = 1000
any_records = st.lists(
    st.builds(NewRecord, st.integers(0, 2**45), blobs, blobs, any_headers.map(tuple)), min_size=1, max_size=5
)


def framed(batch: bytes, headers: bytes = b"") -> bytes:
    header = decode_header(memoryview(batch))
    span = header.last_offset_delta + 1
    return b"".join(encode_record(header.base_offset, span, T, headers, batch))


def log_of(*batches: list[NewRecord], codec: Codec = Codec.NONE) -> bytes:
    """The bytes of a log's file, from offset 1000 on."""
    pieces, offset = [], FIRST
    for records in batches:
        pieces.append(framed(build_batch(records, base_offset=offset, codec=codec)))
        offset += len(records)
    return b"".join(pieces)


def judged(data: bytes) -> list[KafkaRecord]:
    """What the log's own decoder and records.py read, up to the first thing that is wrong."""
    found: list[KafkaRecord] = []
    for record in decode_records(memoryview(data), 0, FIRST).records:
        header = decode_header(record.payload) if len(record.payload) >= 61 else None
        if header is None or (header.base_offset, header.end_offset) != (record.offset, record.end_offset):
            break
        try:
            found += decode_kafka(record.payload, max_bytes=1 << 20)
        except BadBatch:
            break
    return found


@given(st.lists(any_records, min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_small_batches_are_read_at_once(batches: list[list[NewRecord]]) -> None:
    data = log_of(*batches)
    run = decode_run(data, FIRST, FAR, ALL, 1)
    assert run is not None
    assert (run.size, run.next_offset) == (len(data), FIRST + sum(map(len, batches)))
    assert rows(run.columns) == judged(data)


@given(st.lists(any_records, min_size=2, max_size=6), st.data())
@settings(max_examples=200, deadline=None)
def test_damage_is_never_taken(batches: list[list[NewRecord]], draw: st.DataObject) -> None:
    data = bytearray(log_of(*batches))
    data[draw.draw(st.integers(0, len(data) - 1))] ^= draw.draw(st.integers(1, 255))
    run = find_run(bytes(data), FIRST, FAR)
    decoded = decode_run(bytes(data), FIRST, FAR, ALL, 0)
    if decoded is not None:
        expected = judged(bytes(data))
        assert rows(decoded.columns) == expected[: decoded.columns.rows]
        assert decoded.size == run.size < len(data)


@given(st.binary(max_size=600))
@settings(max_examples=200, deadline=None)
def test_any_bytes(data: bytes) -> None:
    assert find_run(data, FIRST, FAR).size == 0
    sound = log_of([NewRecord(T, None, b"a")])
    assert find_run(sound + data, FIRST, FAR).size == len(sound)


def test_it_stops_where_the_bytes_end() -> None:
    data = log_of(*([NewRecord(T, None, b"%d" % number)] for number in range(5)))
    for size in range(len(data) + 1):
        run = find_run(data[:size], FIRST, FAR)
        assert run.size == len(data) // 5 * (size // (len(data) // 5))
    assert find_run(data, FIRST, FIRST + 3).next_offset == FIRST + 3
    assert find_run(data, FIRST + 1, FAR).size == 0


MARKER = build_control_batch(
    ControlType.ABORT,
    producer_id=1,
    producer_epoch=0,
    coordinator_epoch=0,
    timestamp_ms=T,
    base_offset=FIRST + 1,
)
ONE = [NewRecord(T, None, b"x")]
LIE = bytearray(batch_of(bytes.fromhex("0c 00 00 00 01 01 00"), count=1))
LIE[:8] = (FIRST + 1).to_bytes(8)
# lastOffsetDelta is signed: this one is below 0.
FAR_DELTA = bytearray(build_batch(ONE, base_offset=FIRST + 1))
FAR_DELTA[23:27] = (2**31).to_bytes(4)
UNUSUAL = {
    "compressed": framed(build_batch(ONE, base_offset=FIRST + 1, codec=Codec.LZ4)),
    "transactional": framed(
        build_batch(ONE, base_offset=FIRST + 1, is_transactional=True, producer_id=1, producer_epoch=0)
    ),
    "a marker": framed(MARKER),
    "a loss": encode_lost(FIRST + 1, 3, T),
    "large": framed(build_batch([NewRecord(T, None, bytes(SMALL_RECORD_BYTES))], base_offset=FIRST + 1)),
    "no batch": b"".join(encode_record(FIRST + 1, 1, T, b"", b"something else")),
    "another offset inside": b"".join(
        encode_record(FIRST + 1, 1, T, b"", build_batch(ONE, base_offset=FIRST))
    ),
    "another span inside": b"".join(
        encode_record(FIRST + 1, 2, T, b"", build_batch(ONE, base_offset=FIRST + 1))
    ),
    "a span of more than 31 bits": b"".join(
        encode_record(FIRST + 1, 2**31 + 1, T, b"", with_crc(bytes(FAR_DELTA)))
    ),
    "a wrong crc inside": framed(bytes(LIE[:-1]) + b"\x01"),
}


@pytest.mark.parametrize("unusual", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_what_is_not_usual_is_left_to_others(unusual: bytes) -> None:
    front = log_of(ONE)
    run = find_run(front + unusual, FIRST, FAR)
    assert (run.size, run.next_offset) == (len(front), FIRST + 1)


def test_a_log_with_headers_of_its_own() -> None:
    data = framed(build_batch(ONE * 3, base_offset=FIRST), b"own headers")
    run = decode_run(data, FIRST, FAR, Wanted(FIRST + 1, FIRST + 2), 1)
    assert run is not None
    assert run.columns.offsets.tolist() == [FIRST + 1]


def test_records_that_lie_are_left_to_others() -> None:
    lie = bytearray(batch_of(bytes.fromhex("0e 00 00 00 01 01 00"), count=1))
    lie[:8] = FIRST.to_bytes(8)
    assert find_run(framed(bytes(lie)), FIRST, FAR).size > 0
    assert decode_run(framed(bytes(lie)), FIRST, FAR, ALL, 1) is None
