"""ListOffsets: the ends, by time inside of batches, and logs that cannot be read everywhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from tests.codecs.kafka.golden_batches import batch_of
from tests.gateway.kafka.in_memory import Client, Gateway, batch
from tests.gateway.kafka.requests import list_offsets, only, produce

VERSIONS = range(1, 12)
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6


def ask(client: Client, *timestamps: int, version: int = 7, **more: Any) -> list[Any]:
    return list(only(client.ask(list_offsets(*timestamps, **more), version).topics).partitions)


def offset_at(client: Client, timestamp: int, version: int = 7) -> tuple[int, int]:
    row = only(ask(client, timestamp, version=version))
    assert row.error_code == 0
    return row.offset, row.timestamp


@pytest.fixture
def client(gateway: Gateway) -> Client:
    """Offsets 0 to 3 at 100, 300, 200, 400, in two batches."""
    gateway.create()
    client = gateway.connect()
    for times in ((100, 300), (200, 400)):
        client.ask(produce(build_batch([NewRecord(time, None, b"x") for time in times])), 9)
    return client


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_answered(client: Client, version: int) -> None:
    rows = [only(ask(client, timestamp, version=version)) for timestamp in (LATEST, EARLIEST, 150)]
    assert [row.offset for row in rows] == [4, 0, 1]
    if version >= 4:
        assert {row.leader_epoch for row in rows} == {0}


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(0, (0, 100)), (100, (0, 100)), (101, (1, 300)), (301, (3, 400)), (401, (-1, -1))],
)
def test_the_first_record_at_or_after_a_time(client: Client, timestamp: int, found: tuple[int, int]) -> None:
    assert offset_at(client, timestamp) == found


def test_the_record_with_the_highest_timestamp(client: Client, gateway: Gateway) -> None:
    assert offset_at(client, MAX_TIMESTAMP) == (3, 400)
    gateway.create("empty")
    assert only(ask(client, MAX_TIMESTAMP, topic="empty")).offset == -1


@pytest.mark.parametrize(
    ("timestamp", "since", "offset"),
    [(MAX_TIMESTAMP, 7, 3), (EARLIEST_LOCAL, 8, 0), (LATEST_TIERED, 9, -1), (EARLIEST_PENDING, 11, -1)],
)
def test_special_times_need_their_version(client: Client, timestamp: int, since: int, offset: int) -> None:
    before = only(ask(client, timestamp, version=since - 1))
    assert before.error_code == ErrorCode.UNSUPPORTED_VERSION
    row = only(ask(client, timestamp, version=since))
    assert (row.error_code, row.offset) == (0, offset)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"topic": "unknown"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"current_leader_epoch": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_refusals(client: Client, more: dict[str, Any], code: ErrorCode) -> None:
    for timestamp in (LATEST, EARLIEST, 5):
        row = only(ask(client, timestamp, **more))
        assert (row.error_code, row.offset) == (code, -1)


@pytest.mark.parametrize("timestamp", [LATEST, 150])
def test_a_partition_that_is_named_twice_is_refused_once(client: Client, timestamp: int) -> None:
    row = only(ask(client, timestamp, timestamp))
    assert (row.error_code, row.offset) == (ErrorCode.INVALID_REQUEST, -1)


def test_a_long_search_keeps_no_cold_read_waiting(
    client: Client, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many clients search, and however many threads there are for either."""
    found = gateway.broker.topics.partition("t", 0)
    assert found is not None
    is_over = threading.Event()
    monkeypatch.setattr(found.log, "scan_from_time", lambda _: iter(() if is_over.wait(30) else "?"))
    searching = [gateway.connect(port=port) for port in range(8)]
    for one in searching:
        one.send(list_offsets(150), 7)
    try:
        assert gateway.reactor.result(gateway.broker.read_cold(lambda: "read")) == "read"
    finally:
        is_over.set()
    assert [only(only(one.answer().topics).partitions).offset for one in searching] == [-1] * 8


def test_a_request_searches_one_partition_at_a_time(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not the rest of them once its client is gone."""
    topic = gateway.create("many", partitions=5)
    has_begun, may_go_on, begun = threading.Event(), threading.Event(), []

    def scan(number: int, _: int) -> Iterator[Any]:
        begun.append(number)
        has_begun.set()
        may_go_on.wait(30)
        return iter(())

    for partition in topic.partitions:
        monkeypatch.setattr(partition.log, "scan_from_time", partial(scan, partition.number))
    client = gateway.connect()
    request = list_offsets(topic="many")
    kind = messages.ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    request.topics[0].partitions = [
        kind(partition_index=number, current_leader_epoch=-1, timestamp=7) for number in range(5)
    ]
    client.send(request, 7)
    other = gateway.broker.work_long(lambda: begun.copy())
    assert gateway.reactor.result(other) in ([], [0])
    assert has_begun.wait(30)
    client.lose()
    may_go_on.set()
    gateway.reactor.result(gateway.broker.work_long(lambda: None))
    gateway.reactor.result(gateway.broker.work_long(lambda: None))
    assert begun == [0]


def test_what_is_below_the_start_is_not_found(client: Client, gateway: Gateway) -> None:
    found = gateway.broker.topics.partition("t", 0)
    assert found is not None
    found.log.truncate_before(1)
    assert offset_at(client, EARLIEST) == (1, -1)
    assert offset_at(client, 0) == (1, 300)


def test_a_batch_that_cannot_be_opened_is_found_by_its_first_offset(gateway: Gateway) -> None:
    """Its producer lied about what is inside; others must be able to seek all the same."""
    gateway.create()
    client = gateway.connect()
    client.ask(produce(batch_of(b"not zstd at all", count=1, attributes=int(Codec.ZSTD))), 9)
    client.ask(produce(batch(b"good", timestamp_ms=2000)), 9)
    assert offset_at(client, 500) == (0, 1000)
    assert offset_at(client, 1500) == (1, 2000)
    assert offset_at(client, MAX_TIMESTAMP) == (1, 2000)


def test_a_log_that_cannot_be_read_is_an_error(client: Client, gateway: Gateway) -> None:
    found = gateway.broker.topics.partition("t", 0)
    assert found is not None
    found.log.close()
    assert only(ask(client, 100)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", range(2, 5))
def test_the_end_of_a_leader_epoch(client: Client, version: int) -> None:
    kind = messages.OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    rows = [
        kind.OffsetForLeaderPartition(partition=number, current_leader_epoch=current, leader_epoch=epoch)
        for number, current, epoch in ((0, 0, 0), (0, 1, 0), (0, -1, 5), (3, -1, 0))
    ]
    request = messages.OffsetForLeaderEpochRequest(replica_id=-1, topics=[kind(topic="t", partitions=rows)])
    answer = only(client.ask(request, version).topics).partitions
    assert [(row.error_code, row.leader_epoch, row.end_offset) for row in answer] == [
        (0, 0, 4),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1),
        (0, -1, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
    ]
