"""Columns: the plain decoder, the compiled one and records.py have one opinion on every batch."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barbicel.codecs.kafka import columns_compiled
from barbicel.codecs.kafka.columns import (
    Columns,
    OpenedBatch,
    Wanted,
    decode_columns,
    is_compiled,
    open_batch,
)
from barbicel.codecs.kafka.columns_compiled import decode_compiled
from barbicel.codecs.kafka.columns_layout import BinaryColumn
from barbicel.codecs.kafka.columns_plain import decode_plain
from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.codecs.kafka.record_batch import BadBatch, Batch, TimestampType, decode_header
from barbicel.codecs.kafka.records import KafkaRecord, decode_records
from tests.codecs.kafka.golden_batches import APPEND_TIME, PLAIN, batch_of, with_crc
from tests.codecs.kafka.test_records import LIES

MiB = 1 << 20
ALL = Wanted(headers=True)
Decoder = Callable[[Sequence[OpenedBatch], Wanted], Columns | None]


def opened(data: bytes, max_bytes: int = MiB) -> OpenedBatch:
    view = memoryview(data)
    return open_batch(Batch(decode_header(view), view), max_bytes=max_bytes)


def cells(column: BinaryColumn) -> list[bytes | None]:
    data, bounds = column.data.tobytes(), column.bounds.tolist()
    assert bounds[0] == 0
    assert bounds[-1] == len(data)
    return [
        data[bounds[n] : bounds[n + 1]] if is_there else None for n, is_there in enumerate(column.is_there)
    ]


def rows(columns: Columns) -> list[KafkaRecord]:
    assert columns.keys is not None
    assert columns.values is not None
    assert columns.headers is not None
    keys, values, bounds = cells(columns.keys), cells(columns.values), columns.headers.bounds.tolist()
    flat = list(zip(cells(columns.headers.keys), cells(columns.headers.values), strict=True))
    return [
        KafkaRecord(offset, timestamp, keys[n], values[n], tuple(flat[bounds[n] : bounds[n + 1]]))  # type: ignore[arg-type]
        for n, (offset, timestamp) in enumerate(
            zip(columns.offsets.tolist(), columns.timestamps_ms.tolist(), strict=True)
        )
    ]


def reference(data: bytes) -> list[KafkaRecord] | None:
    try:
        return list(decode_records(memoryview(data), max_bytes=MiB))
    except BadBatch:
        return None


def agreed(data: bytes) -> list[KafkaRecord] | None:
    """What all three say of a batch; None is that it is damaged."""
    expected = reference(data)
    try:
        batch = opened(data)
    except BadBatch:
        assert expected is None
        return None
    compiled = decode_compiled([batch], ALL)
    if compiled is not None:
        assert rows(compiled) == expected
    for decode in (decode_plain, decode_columns):
        if expected is None:
            with pytest.raises(BadBatch):
                decode([batch], ALL)
        else:
            assert rows(decode([batch], ALL)) == expected
    return expected


blobs = st.none() | st.binary(max_size=40) | st.binary(min_size=120, max_size=300)
any_headers = st.lists(st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=9)), max_size=4)
any_times = st.integers(-1, 2**45) | st.integers(2**60, 2**60 + 99)
any_record = st.builds(NewRecord, any_times, blobs, blobs, any_headers.map(tuple))
any_batch = st.builds(
    build_batch,
    st.lists(any_record, min_size=1, max_size=30),
    base_offset=st.integers(0, 2**40),
    codec=st.sampled_from(Codec),
    timestamp_type=st.sampled_from(TimestampType),
)


def test_the_compiled_decoder_is_used() -> None:
    assert is_compiled()


@given(any_batch)
@settings(max_examples=150, deadline=None)
def test_all_three_give_the_same_rows(data: bytes) -> None:
    assert agreed(data) is not None
    # What is sound is not left to the slow one.
    assert decode_compiled([opened(data)], ALL) is not None


@given(st.lists(any_batch, max_size=6), st.integers(0, 40), st.integers(0, 40), st.booleans())
@settings(max_examples=80, deadline=None)
def test_many_batches_and_a_range(data: list[bytes], first: int, count: int, has_keys: bool) -> None:
    batches = [opened(batch) for batch in data]
    base = min((batch.header.base_offset for batch in batches), default=0)
    wanted = Wanted(base + first, base + first + count, keys=has_keys, headers=True)
    compiled, plain = decode_compiled(batches, wanted), decode_plain(batches, wanted)
    assert compiled is not None
    flat = [record for batch in data for record in reference(batch) or []]
    expected = [record for record in flat if wanted.from_offset <= record.offset < wanted.end_offset]
    for columns in (compiled, plain):
        assert columns.offsets.tolist() == [record.offset for record in expected]
        assert columns.values is not None
        assert cells(columns.values) == [record.value for record in expected]
        assert (columns.keys is not None) == has_keys
    assert compiled.timestamp_types.tolist() == plain.timestamp_types.tolist()


def test_the_goldens() -> None:
    assert agreed(PLAIN) == [
        KafkaRecord(5, 1000, None, b"a", ()),
        KafkaRecord(6, 997, b"k", None, ((b"h", None),)),
    ]
    columns = decode_columns([opened(APPEND_TIME)], ALL)
    assert columns.timestamp_types.tolist() == [1, 1]
    assert columns.timestamps_ms.tolist() == [1300, 1300]


@pytest.mark.parametrize(("records", "count"), LIES.values(), ids=LIES.keys())
def test_a_lie_with_a_right_crc_is_an_error(records: str, count: int) -> None:
    assert agreed(batch_of(bytes.fromhex(records), count=count)) is None


@given(any_batch, st.data())
@settings(max_examples=200, deadline=None)
def test_damage_with_a_right_crc_is_never_read_in_two_ways(data: bytes, draw: st.DataObject) -> None:
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        # Behind the CRC: attributes, deltas, times, the count, the records.
        damaged[draw.draw(st.integers(21, len(damaged) - 1))] = draw.draw(st.integers(0, 255))
    agreed(with_crc(bytes(damaged)))


@given(st.binary(max_size=400), st.integers(-2, 60))
@settings(max_examples=300, deadline=None)
@example(b"\xff" * 400, 57)
@example(b"\x80" * 400, 57)
def test_any_bytes_as_records(records: bytes, count: int) -> None:
    agreed(batch_of(records, count=count))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=8, max_size=8), st.binary(max_size=64))
@settings(max_examples=300, deadline=None)
def test_a_table_of_batches_that_lies_never_leads_out_of_bounds(numbers: list[int], data: bytes) -> None:
    numbers[columns_compiled.COUNT] = abs(numbers[columns_compiled.COUNT]) % 100
    table = np.array([numbers], np.int64)
    room = columns_compiled.new_room(5, 10, ALL)
    columns_compiled.fill(np.frombuffer(data, np.uint8), table, room, ALL)


def test_a_wrong_crc() -> None:
    damaged = bytearray(PLAIN)
    damaged[-1] ^= 1
    with pytest.raises(BadBatch, match="crc32c"):
        opened(bytes(damaged))


@pytest.mark.parametrize("size", [0, 60, 61, len(PLAIN) - 1])
def test_a_cut_batch(size: int) -> None:
    with pytest.raises(BadBatch):
        opened(PLAIN[:size])


@pytest.mark.parametrize("codec", Codec)
def test_a_bomb_is_bounded(codec: Codec) -> None:
    data = build_batch([NewRecord(0, None, bytes(2 * MiB))], codec=codec)
    with pytest.raises(BadBatch) as refused:
        opened(data)
    assert refused.value.error_code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_count_is_held_against_the_bytes_before_memory_is_taken() -> None:
    data = bytearray(PLAIN)
    struct.pack_into(">i", data, 57, 2**31 - 1)
    with pytest.raises(BadBatch, match="cannot be in"):
        opened(with_crc(bytes(data)))


def test_times_at_the_edges_are_left_to_the_plain_decoder() -> None:
    times = [0, 2**62, 2**63 - 1, -(2**62)]
    data = build_batch([NewRecord(time, None, b"a") for time in times], base_offset=3)
    assert decode_compiled([opened(data)], ALL) is None
    assert [row.timestamp_ms for row in agreed(data) or []] == times


@pytest.mark.parametrize("base", [2**63 - 1, 2**63 - 5, -(2**63), -(2**63) + 4])
@pytest.mark.parametrize("change", [-9, 9])
def test_a_time_beyond_64_bits_is_never_another_time(base: int, change: int) -> None:
    data = bytearray(build_batch([NewRecord(100, None, b"a"), NewRecord(100 + change, None, b"b")]))
    struct.pack_into(">q", data, 27, base)
    is_possible = -(2**63) <= base + change < 2**63
    assert (agreed(with_crc(bytes(data))) is not None) == is_possible


def test_an_offset_beyond_all_others() -> None:
    data = build_batch([NewRecord(0, None, b"a")], base_offset=2**63 - 2)
    assert [row.offset for row in agreed(data) or []] == [2**63 - 2]


def test_no_batches() -> None:
    columns = decode_columns([], ALL)
    assert columns.rows == 0
    assert rows(columns) == []


def test_code_that_can_be_kept_nowhere_is_compiled_all_the_same() -> None:
    found: dict[str, Callable[[int], int]] = {}
    exec(compile("def twice(number): return 2 * number", "/nowhere/source.py", "exec"), found)
    assert columns_compiled.compiled(found["twice"])(21) == 42
