"""Batches that are built here, against goldens, and to and from kafka-python and aiokafka."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import ControlType, NewRecord, build_batch, build_control_batch
from barbicel.codecs.kafka.produced_batch import check_batch
from barbicel.codecs.kafka.record_batch import TimestampType, decode_header
from barbicel.codecs.kafka.records import KafkaRecord, decode_records
from tests.codecs.kafka.golden_batches import APPEND_TIME, COMMIT, PLAIN, any_records, with_crc
from tests.codecs.kafka.other_records import AIOKAFKA, KAFKA_PYTHON, OtherRecords

MiB = 1 << 20
T = 1_700_000_000_000
OTHERS = pytest.mark.parametrize("other", [KAFKA_PYTHON, AIOKAFKA], ids=["kafka-python", "aiokafka"])


def decode(batch: bytes, max_bytes: int = MiB) -> list[KafkaRecord]:
    return list(decode_records(memoryview(batch), max_bytes=max_bytes))


def test_the_goldens_are_built() -> None:
    plain = [NewRecord(1000, None, b"a"), NewRecord(997, b"k", None, ((b"h", None),))]
    assert build_batch(plain, base_offset=5, leader_epoch=7) == PLAIN

    append_time = build_batch(
        [NewRecord(1000, None, b"a"), NewRecord(1300, None, b"v" * 100)],
        producer_id=7,
        producer_epoch=1,
        base_sequence=2**31 - 1,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        is_transactional=True,
    )
    assert append_time == APPEND_TIME

    marker = build_control_batch(
        ControlType.COMMIT,
        producer_id=42,
        producer_epoch=3,
        coordinator_epoch=9,
        timestamp_ms=1000,
        base_offset=100,
        leader_epoch=2,
    )
    assert marker == COMMIT


@pytest.mark.parametrize("control_type", ControlType)
def test_kafka_python_understands_the_markers(control_type: ControlType) -> None:
    marker = build_control_batch(
        control_type, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=T
    )
    batch = KAFKA_PYTHON.read(marker)
    (record,) = batch
    assert batch.is_control_batch
    assert record.abort == (control_type is ControlType.ABORT)
    assert record.commit == (control_type is ControlType.COMMIT)


@settings(max_examples=150, deadline=None)
@given(any_records, st.sampled_from(Codec), st.integers(0, 2**40))
def test_what_is_built_is_read(records: list[NewRecord], codec: Codec, base_offset: int) -> None:
    batch = build_batch(records, codec=codec, base_offset=base_offset)
    assert with_crc(batch) == batch
    assert decode(batch) == [
        KafkaRecord(base_offset + delta, *record) for delta, record in enumerate(records)
    ]
    header = decode_header(memoryview(batch))
    assert header.max_timestamp == max(record.timestamp_ms for record in records)
    assert (header.codec, header.records_count) == (codec, len(records))


def test_what_is_built_may_be_produced() -> None:
    batch = build_batch([NewRecord(T, None, b"v")], producer_id=1, producer_epoch=0, base_sequence=0)
    assert check_batch(memoryview(batch), MiB).data == batch


@OTHERS
@settings(max_examples=60, deadline=None)
@given(records=any_records, codec=st.sampled_from(Codec))
def test_others_read_what_is_built(other: OtherRecords, records: list[NewRecord], codec: Codec) -> None:
    batch = build_batch(records, codec=codec, base_offset=7)
    assert other.read(batch).validate_crc()
    assert other.decode(batch) == decode(batch)


@OTHERS
@settings(max_examples=60, deadline=None)
@given(records=any_records, codec=st.sampled_from(Codec))
def test_what_others_build_is_accepted_and_read(
    other: OtherRecords, records: list[NewRecord], codec: Codec
) -> None:
    # aiokafka takes the timestamp -1 in the first record for "no record yet".
    records = [record._replace(timestamp_ms=max(record.timestamp_ms, 0)) for record in records]
    batch = other.build(records, codec, (11, 3, 5))
    header = check_batch(memoryview(batch), MiB).header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (11, 3, 5)
    assert decode(batch) == [KafkaRecord(offset, *record) for offset, record in enumerate(records)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (0, 2**63 - 1),
        (2**63 - 1, 0),
        (-1, 2**62),
        (-(2**63), -1),
        (T, T - 2**40),
        (5, 5 + 2**33),
        (64, 0),
        (0, 64),
    ],
)
def test_timestamps_far_apart_come_back(first: int, second: int) -> None:
    records = [NewRecord(first, None, None), NewRecord(second, None, None)]
    assert [record.timestamp_ms for record in decode(build_batch(records))] == [first, second]


def test_what_the_format_has_no_room_for_is_not_built() -> None:
    with pytest.raises(ValueError, match="needs a record"):
        build_batch([])
    with pytest.raises(ValueError, match="more than 64 bits"):
        build_batch([NewRecord(2**63 - 1, None, None), NewRecord(-(2**63), None, None)])
    with pytest.raises(ValueError, match="cannot hold this"):
        build_batch([NewRecord(2**63, None, None)])


def test_a_big_record_has_longer_varints() -> None:
    records = [NewRecord(T, b"k" * 20_000, b"v" * 3_000_000, ((b"h" * 9000, b"x" * 17_000),))]
    batch = build_batch(records)
    assert decode(batch, 4 * MiB) == [KafkaRecord(0, *records[0])]
    assert KAFKA_PYTHON.decode(batch) == AIOKAFKA.decode(batch) == decode(batch, 4 * MiB)
