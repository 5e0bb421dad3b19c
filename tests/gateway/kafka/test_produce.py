"""Produce: what is stored, what is refused with which code, and what a client without answers gets."""

from __future__ import annotations

import errno
import struct
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.record_batch import decode_header, walk_batches
from barbicel.errors import RecordTooLarge
from barbicel.gateway.broker import batch_opening
from barbicel.gateway.broker import partition as partition_module
from tests.codecs.kafka.golden_batches import batch_of, with_crc
from tests.gateway.kafka.in_memory import NOW_MS, Client, Gateway, batch, in_memory_gateway
from tests.gateway.kafka.requests import fetch, only, produce, produced, values_of
from tests.support.fault_disk import FaultDisk

MAGIC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT, COUNT_AT = 16, 21, 23, 27, 35, 57
VERSIONS = range(3, 14)


def changed(data: bytes, at: int, layout: str, value: int) -> bytes:
    """The batch with one field changed and its CRC right."""
    return with_crc(data[:at] + struct.pack(layout, value) + data[at + struct.calcsize(layout) :])


def end_offset(gateway: Gateway, number: int = 0) -> int:
    found = gateway.broker.topics.partition("t", number)
    assert found is not None
    return found.end_offset


def ask_one(client: Client, data: bytes | None, version: int = 9, **more: Any) -> Any:
    return only(produced(client.ask(produce(data, **more), version)))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_stores_and_answers(gateway: Gateway, version: int) -> None:
    topic = gateway.create(partitions=2)
    client = gateway.connect()
    request = produce(batch(b"a", b"b"), batch(b"c"), topic_id=topic.topic.id)
    first, second = produced(client.ask(request, version))
    assert (first.index, first.error_code, first.base_offset) == (0, 0, 0)
    assert (second.index, second.error_code, second.base_offset) == (1, 0, 0)
    assert (end_offset(gateway, 0), end_offset(gateway, 1)) == (2, 1)
    assert only(produced(client.ask(produce(batch(b"d"), topic_id=topic.topic.id), version))).base_offset == 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_that_are_only_offered_end_the_connection(gateway: Gateway, version: int) -> None:
    gateway.create()
    client = gateway.connect()
    client.send(produce(batch(b"a")), version)
    gateway.reactor.until(lambda: client.is_closed)
    assert not client.has_answer
    assert end_offset(gateway) == 0


GOOD = batch(b"value")
REFUSED = [
    (None, ErrorCode.INVALID_RECORD),
    (b"", ErrorCode.INVALID_RECORD),
    (GOOD[:-1], ErrorCode.INVALID_RECORD),
    (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    (GOOD[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
    (GOOD[:MAGIC_AT] + b"\1" + GOOD[MAGIC_AT + 1 :], ErrorCode.INVALID_RECORD),
    (GOOD[:MAGIC_AT] + b"\3" + GOOD[MAGIC_AT + 1 :], ErrorCode.CORRUPT_MESSAGE),
    (changed(GOOD, LAST_DELTA_AT, ">i", 2**31 - 1), ErrorCode.INVALID_RECORD),
    (
        changed(changed(GOOD, COUNT_AT, ">i", 2**31 - 1), LAST_DELTA_AT, ">i", 2**31 - 2),
        ErrorCode.INVALID_RECORD,
    ),
    (changed(GOOD, ATTRIBUTES_AT, ">h", 7), ErrorCode.INVALID_RECORD),
    (changed(GOOD, ATTRIBUTES_AT, ">h", 1 << 5), ErrorCode.INVALID_RECORD),
    (
        batch(b"x", is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    (batch(b"x" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
    (batch(b"x", timestamp_ms=NOW_MS + 3_700_000), ErrorCode.INVALID_TIMESTAMP),
]


@pytest.mark.parametrize(("data", "code"), REFUSED)
def test_a_bad_batch_is_refused_alone(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, data: bytes | None, code: ErrorCode
) -> None:
    topic = gateway.create(partitions=2)
    client = gateway.connect()
    bad, good = produced(client.ask(produce(data, batch(b"fine")), 9))
    assert (bad.error_code, bad.base_offset) == (code, -1)
    assert (good.error_code, good.base_offset) == (0, 0)
    assert (end_offset(gateway, 0), end_offset(gateway, 1)) == (0, 1)
    assert only(caplog.messages).startswith("10.0.0.1:40000, Produce refused: t-0: ")
    assert topic.partitions[0].damage_found.produced == (code is ErrorCode.CORRUPT_MESSAGE)
    assert not client.is_closed


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (produce(GOOD, topic="unknown"), 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (produce(GOOD, partitions=[1]), 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (produce(GOOD, partitions=[-1]), 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (produce(GOOD, topic_id=UUID(int=5)), 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (produce(GOOD, acks=2), 9, ErrorCode.INVALID_REQUIRED_ACKS),
        (produce(GOOD, transactional_id="x"), 9, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (produce(batch(b"x", codec=Codec.ZSTD)), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_a_request_is_refused_with_kafkas_code(
    gateway: Gateway, request_: Any, version: int, code: ErrorCode
) -> None:
    gateway.create()
    assert only(produced(gateway.connect().ask(request_, version))).error_code == code
    assert end_offset(gateway) == 0


def test_of_two_records_of_one_partition_both_are_stored(gateway: Gateway) -> None:
    gateway.create()
    rows = produced(gateway.connect().ask(produce(batch(b"a"), batch(b"b"), partitions=[0, 0]), 9))
    assert [row.base_offset for row in rows] == [0, 1]


def test_a_request_for_nothing_is_answered(gateway: Gateway) -> None:
    gateway.create()
    assert produced(gateway.connect().ask(produce(), 9)) == []


# --- acks=0 ---------------------------------------------------------------------------------------------


def test_without_acks_there_is_no_answer_and_it_counts_until_it_is_stored(gateway: Gateway) -> None:
    gateway.create()
    client = gateway.connect()
    client.send(produce(batch(b"a"), acks=0), 9)
    client.forget_answer()
    assert client.connection.is_waiting
    assert only(produced(client.ask(produce(batch(b"b")), 9))).base_offset == 1
    assert not client.connection.is_waiting


@pytest.mark.parametrize("data", [GOOD[:-1] + b"?", batch(b"x", timestamp_ms=NOW_MS + 3_700_000)])
def test_without_acks_a_refusal_closes_the_connection(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    gateway.create()
    client = gateway.connect()
    client.send(produce(data, acks=0), 9)
    assert client.is_closed
    assert "closing the connection of 10.0.0.1:40000: Produce failed: t-0: " in caplog.text


def test_without_acks_a_failed_write_closes_the_connection() -> None:
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        gateway.create()
        client = gateway.connect()
        disk.fail("write", errno.EIO, path_contains=".log")
        client.send(produce(batch(b"a"), acks=0), 9)
        gateway.reactor.until(lambda: client.is_closed)


# --- a log that takes no writes -------------------------------------------------------------------------


def test_a_stopped_log_answers_a_storage_error_and_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        gateway.create(partitions=2)
        client = gateway.connect()
        disk.fail("write", errno.EIO, path_contains=".log")
        codes = [ask_one(client, batch(b"a")).error_code for _ in range(2)]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert ask_one(client, batch(b"a"), partitions=[1]).error_code == 0
        assert end_offset(gateway) == 0
        row = only(only(client.ask(fetch(0), 11).responses).partitions)
        assert (row.error_code, row.high_watermark) == (0, 0)
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 1
    assert "t-0 takes no writes" in told[0]


def test_a_batch_that_the_log_can_never_take_is_too_large(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(records: object) -> int:
        raise RecordTooLarge("a record of 200 bytes, the log accepts 100")

    topic = gateway.create()
    monkeypatch.setattr(topic.partitions[0].log, "check", refuse)
    assert ask_one(gateway.connect(), batch(b"a")).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_what_is_refused_is_told_in_short_and_not_again_and_again(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    client = gateway.connect()
    for _ in range(5):
        ask_one(client, batch(b"a"), topic="x" * 32_000)
    (record,) = caplog.records
    assert "10.0.0.1:40000, Produce refused: xxx" in record.getMessage()
    assert len(record.getMessage()) < 400


# --- time -----------------------------------------------------------------------------------------------


def test_log_append_time_is_the_brokers_and_the_crc_stays_right(gateway: Gateway) -> None:
    gateway.create(message_timestamp_type="LogAppendTime")
    client = gateway.connect()
    gateway.now_ms = NOW_MS + 5
    row = ask_one(client, batch(b"a", timestamp_ms=1))
    assert row.log_append_time_ms == NOW_MS + 5
    fetched = only(only(client.ask(fetch(0), 11).responses).partitions)
    assert values_of(fetched) == [b"a"]
    assert decode_header(memoryview(bytes(fetched.records))).max_timestamp == NOW_MS + 5


def test_create_time_is_the_producers(gateway: Gateway) -> None:
    gateway.create()
    assert ask_one(gateway.connect(), batch(b"a", timestamp_ms=77)).log_append_time_ms == -1


def test_a_timestamp_may_be_too_old(gateway: Gateway) -> None:
    gateway.create(message_timestamp_before_max_ms="1000")
    client = gateway.connect()
    assert ask_one(client, batch(b"a", timestamp_ms=NOW_MS - 1001)).error_code == ErrorCode.INVALID_TIMESTAMP
    assert ask_one(client, batch(b"a", timestamp_ms=NOW_MS - 1000)).error_code == 0


def test_a_highest_timestamp_that_was_left_out_is_calculated(gateway: Gateway) -> None:
    gateway.create()
    client = gateway.connect()
    assert ask_one(client, changed(GOOD, MAX_TIMESTAMP_AT, ">q", -1)).error_code == 0
    fetched = only(only(client.ask(fetch(0), 11).responses).partitions)
    assert decode_header(memoryview(bytes(fetched.records))).max_timestamp == NOW_MS
    assert values_of(fetched) == [b"value"]


def test_no_timestamp_at_all_is_stored(gateway: Gateway) -> None:
    gateway.create()
    assert ask_one(gateway.connect(), batch(b"a", timestamp_ms=-1)).error_code == 0


def test_a_bomb_is_not_opened_further_than_a_little(gateway: Gateway) -> None:
    bomb = changed(batch(b"\0" * (20 << 20), codec=Codec.ZSTD), MAX_TIMESTAMP_AT, ">q", -1)
    assert len(bomb) < 1 << 20
    gateway.create()
    assert ask_one(gateway.connect(), bomb).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert end_offset(gateway) == 0


def test_nobody_waits_for_the_records_of_a_batch_to_be_counted(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_opening, "MAX_TIMED_RECORDS", 1)
    gateway.create()
    two = changed(batch(b"a", b"b"), MAX_TIMESTAMP_AT, ">q", -1)
    assert ask_one(gateway.connect(), two).error_code == ErrorCode.MESSAGE_TOO_LARGE


def left_out(*values: bytes, **more: Any) -> bytes:
    """A batch without its highest timestamp."""
    return changed(batch(*values, **more), MAX_TIMESTAMP_AT, ">q", -1)


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_keep_their_order_while_some_of_them_are_opened(gateway: Gateway, codec: Codec) -> None:
    gateway.create()
    client = gateway.connect()
    batches = [
        left_out(*[b"0"] * 60, codec=codec, producer_id=1, producer_epoch=0, base_sequence=0),
        batch(b"1", producer_id=1, producer_epoch=0, base_sequence=60),
        batch(b"2", producer_id=1, producer_epoch=0, base_sequence=61),
        left_out(b"3", codec=codec, producer_id=1, producer_epoch=0, base_sequence=62),
        batch(b"4", producer_id=1, producer_epoch=0, base_sequence=63),
    ]
    for one in batches:
        client.send(produce(one), 9)
    rows = [only(produced(client.answer())) for _ in batches]
    assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0), (0, 60), (0, 61), (0, 62), (0, 63)]
    fetched = only(only(client.ask(fetch(0), 11).responses).partitions)
    assert values_of(fetched) == [b"0"] * 60 + [b"1", b"2", b"3", b"4"]


def test_a_batch_that_cannot_be_opened_keeps_nobody_waiting(gateway: Gateway) -> None:
    gateway.create()
    client = gateway.connect()
    garbage = batch_of(b"not zstd", count=1, attributes=int(Codec.ZSTD))
    for one in (changed(garbage, MAX_TIMESTAMP_AT, ">q", -1), GOOD, left_out(b"a", codec=Codec.GZIP)):
        client.send(produce(one), 9)
    rows = [only(produced(client.answer())) for _ in range(3)]
    assert [row.error_code for row in rows] == [ErrorCode.CORRUPT_MESSAGE, 0, 0]
    assert end_offset(gateway) == 2


def test_the_reactor_thread_decompresses_nothing(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.create()
    threads: list[str] = []

    def open_batch(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return batch_opening.open_batch(*arguments)

    monkeypatch.setattr(partition_module, "open_batch", open_batch)
    client = gateway.connect()
    many = [left_out(b"a", codec=Codec.ZSTD), left_out(*[b"a"] * 51), left_out(b"a")]
    for one in many:
        assert ask_one(client, one).error_code == 0
    assert ["long-work" in name for name in threads] == [True, True, False]


def test_a_fault_while_opening_is_told_and_ends_nothing(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.create()
    client = gateway.connect()
    with monkeypatch.context() as patch:
        patch.setattr(partition_module, "open_batch", lambda *_: 1 // 0)
        row = ask_one(client, left_out(b"a", codec=Codec.ZSTD))
    assert row.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a batch for t-0 was not opened" in caplog.text
    assert ask_one(client, left_out(b"a", codec=Codec.ZSTD)).error_code == 0


# --- compression ----------------------------------------------------------------------------------------


STORED = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@pytest.mark.parametrize("name", list(STORED))
@pytest.mark.parametrize("codec", list(Codec))
def test_a_topic_has_its_own_codec(gateway: Gateway, name: str, codec: Codec) -> None:
    gateway.create(compression_type=name)
    client = gateway.connect()
    values = [b"value" * 100, b"", b"other"]
    numbered = batch(*values, codec=codec, producer_id=5, producer_epoch=0, base_sequence=0)
    assert ask_one(client, numbered).error_code == 0
    assert ask_one(client, left_out(*values, codec=codec)).error_code == 0
    fetched = only(only(client.ask(fetch(0), 11).responses).partitions)
    headers = [one.header for one in walk_batches(memoryview(bytes(fetched.records)))]
    assert [header.codec for header in headers] == [STORED[name]] * 2
    assert [header.producer_id for header in headers] == [5, -1]
    assert [header.max_timestamp for header in headers] == [NOW_MS] * 2
    assert values_of(fetched) == values * 2


@pytest.mark.parametrize("codec", list(Codec))
def test_without_one_batches_are_stored_as_they_come(gateway: Gateway, codec: Codec) -> None:
    gateway.create(compression_type="producer")
    client = gateway.connect()
    sent = batch(b"value" * 100, codec=codec)
    ask_one(client, sent)
    fetched = only(only(client.ask(fetch(0), 11).responses).partitions)
    assert bytes(fetched.records)[21:] == sent[21:]


def _instead(settings: dict[str, str], _: Mapping[str, str]) -> Mapping[str, str]:
    return settings


def test_a_topics_codec_can_be_changed(gateway: Gateway) -> None:
    topic = gateway.create()
    client = gateway.connect()
    for name in ("gzip", "producer"):
        settings = {"compression.type": name}
        gateway.reactor.result(gateway.broker.topics.change_settings("t", partial(_instead, settings)))
        ask_one(client, batch(b"value" * 100))
    found = topic.partitions[0].read_tail(0, 1 << 20, at_least_one=True)
    assert [decode_header(data).codec for data in found] == [Codec.GZIP, Codec.NONE]


def test_what_is_too_large_without_compression_is_refused(gateway: Gateway) -> None:
    gateway.create(compression_type="uncompressed", max_message_bytes="10000")
    client = gateway.connect()
    assert ask_one(client, batch(bytes(9_000), codec=Codec.ZSTD)).error_code == 0
    row = ask_one(client, batch(bytes(10_000), codec=Codec.ZSTD))
    assert row.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_with_log_append_time_a_bomb_is_not_opened_at_all(gateway: Gateway) -> None:
    gateway.create(message_timestamp_type="LogAppendTime")
    bomb = batch_of(b"\x28\xb5\x2f\xfd" * 20, count=1, attributes=int(Codec.ZSTD))
    assert ask_one(gateway.connect(), bomb).error_code == 0


# --- idempotence ----------------------------------------------------------------------------------------


def from_producer(sequence: int, *values: bytes, epoch: int = 0) -> bytes:
    return batch(*values, producer_id=7, producer_epoch=epoch, base_sequence=sequence)


def test_a_repetition_gets_the_first_answer(gateway: Gateway) -> None:
    gateway.create()
    client = gateway.connect()
    assert ask_one(client, from_producer(0, b"a", b"b")).base_offset == 0
    assert ask_one(client, from_producer(2, b"c")).base_offset == 2
    again = ask_one(client, from_producer(0, b"a", b"b"))
    assert (again.error_code, again.base_offset) == (0, 0)
    assert end_offset(gateway) == 3
    refused = ask_one(client, from_producer(9, b"x"))
    assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repetition_of_a_batch_on_its_way_waits_for_it(gateway: Gateway) -> None:
    gateway.create()
    first, second = gateway.connect(port=1), gateway.connect(port=2)
    first.send(produce(from_producer(0, b"a")), 9)
    second.send(produce(from_producer(0, b"a")), 9)
    assert only(produced(first.answer())).base_offset == 0
    assert only(produced(second.answer())).base_offset == 0
    assert end_offset(gateway) == 1


def test_a_repetition_of_a_batch_that_fails_fails_too() -> None:
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        gateway.create()
        first, second = gateway.connect(port=1), gateway.connect(port=2)
        disk.fail("write", errno.EIO, path_contains=".log")
        first.send(produce(from_producer(0, b"a")), 9)
        second.send(produce(from_producer(0, b"a")), 9)
        for client in (first, second):
            assert only(produced(client.answer())).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_producers_are_known_after_a_restart(tmp_path: Path) -> None:
    for expected_end in (2, 2):
        with in_memory_gateway(tmp_path / "data") as gateway:
            if not gateway.broker.topics.by_name("t"):
                gateway.create()
            client = gateway.connect()
            assert ask_one(client, from_producer(0, b"a")).base_offset == 0
            assert ask_one(client, from_producer(1, b"b")).base_offset == 1
            assert end_offset(gateway) == expected_end


def test_every_answer_says_where_the_log_starts(gateway: Gateway) -> None:
    topic = gateway.create()
    client = gateway.connect()
    ask_one(client, batch(b"a", b"b"))
    topic.partitions[0].log.truncate_before(1)
    assert ask_one(client, batch(b"c"), 5).log_start_offset == 1


def test_the_answer_has_the_name_or_the_id(gateway: Gateway) -> None:
    topic = gateway.create()
    answer = gateway.connect().ask(produce(batch(b"a"), topic_id=topic.topic.id), 13)
    assert only(answer.responses).topic_id == topic.topic.id
