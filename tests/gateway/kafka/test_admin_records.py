"""What partitions hold: records deleted, sizes and producers described, over raw requests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from barbicel.codecs.kafka.error_codes import ErrorCode as E
from barbicel.codecs.kafka.messages import DescribeLogDirsRequest, DescribeProducersRequest
from tests.gateway.kafka.admin_requests import delete, delete_records, earliest, make_topic
from tests.gateway.kafka.raw_client import RawClient
from tests.support.gateway import Gateway, running_gateway

RECORDS = 10


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running_gateway(tmp_path_factory.mktemp("records")) as running:
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[RawClient]:
    with RawClient((gateway.host, gateway.port)) as connected:
        yield connected


@pytest.fixture(scope="module")
def producer(gateway: Gateway) -> Iterator[Any]:
    made = KafkaProducer(bootstrap_servers=gateway.bootstrap)
    yield made
    made.close()


@pytest.fixture
def topic(client: RawClient, producer: Any, request: pytest.FixtureRequest) -> str:
    """Ten records, each its own batch, in the first of two partitions."""
    name = f"topic-{random.Random(request.node.nodeid).getrandbits(64):x}"
    make_topic(client, name, 2)
    for number in range(RECORDS):
        producer.send(name, b"%d" % number, partition=0).get(20)
    return name


def values(gateway: Gateway, topic: str) -> list[bytes]:
    """All records of the first partition, by a consumer that begins at the start."""
    consumer = KafkaConsumer(bootstrap_servers=gateway.bootstrap, consumer_timeout_ms=20_000)
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    end = consumer.end_offsets([place])[place]
    found = []
    while consumer.position(place) < end:
        found.append(next(consumer).value)
    consumer.close()
    return found


# --- deleting records -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_every_version_moves_the_start(gateway: Gateway, client: RawClient, topic: str, version: int) -> None:
    assert delete_records(client, topic, (0, 3), version=version) == [(0, E.NONE, 3)]
    assert (earliest(client, topic), earliest(client, topic, 1)) == (3, 0)
    assert values(gateway, topic) == [b"%d" % number for number in range(3, RECORDS)]


def test_the_end_is_minus_one(gateway: Gateway, client: RawClient, producer: Any, topic: str) -> None:
    assert delete_records(client, topic, (0, -1), (1, -1)) == [(0, E.NONE, RECORDS), (1, E.NONE, 0)]
    assert earliest(client, topic) == RECORDS
    assert producer.send(topic, b"next", partition=0).get(20).offset == RECORDS
    assert values(gateway, topic) == [b"next"]


@pytest.mark.parametrize("offset", [RECORDS + 1, 1 << 62, -2, -(1 << 63)])
def test_an_offset_that_is_not_there_is_out_of_range(client: RawClient, topic: str, offset: int) -> None:
    assert delete_records(client, topic, (0, offset)) == [(0, E.OFFSET_OUT_OF_RANGE, -1)]
    assert earliest(client, topic) == 0


def test_below_the_start_there_is_nothing_to_delete(client: RawClient, topic: str) -> None:
    for before, start in ((5, 5), (7, 7), (2, 7)):
        assert delete_records(client, topic, (0, before)) == [(0, E.NONE, start)]
    assert delete_records(client, topic, (0, 0)) == [(0, E.NONE, 7)]
    assert earliest(client, topic) == 7


def test_of_a_partition_that_is_named_twice_the_last_offset_counts(client: RawClient, topic: str) -> None:
    assert delete_records(client, topic, (0, 5), (0, 3)) == [(0, E.NONE, 3)]
    assert earliest(client, topic) == 3


def test_each_partition_has_its_own_fate(client: RawClient, topic: str) -> None:
    assert delete_records(client, topic, (0, 1), (2, 0), (-1, 0), (1, 1)) == [
        (0, E.NONE, 1),
        (2, E.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (-1, E.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (1, E.OFFSET_OUT_OF_RANGE, -1),
    ]
    assert delete_records(client, "nope", (0, 0)) == [(0, E.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert delete_records(client, topic) == []


def test_what_was_deleted_stays_deleted_after_a_kill(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_gateway(tmp_path_factory.mktemp("killed")) as gateway:
        with RawClient((gateway.host, gateway.port)) as client:
            make_topic(client, "t")
            producer = KafkaProducer(bootstrap_servers=gateway.bootstrap)
            for number in range(RECORDS):
                producer.send("t", b"%d" % number).get(20)
            producer.close()
            assert delete_records(client, "t", (0, 4)) == [(0, E.NONE, 4)]
        gateway.kill()
        gateway.start()
        with RawClient((gateway.host, gateway.port)) as client:
            assert earliest(client, "t") == 4
            assert values(gateway, "t") == [b"%d" % number for number in range(4, RECORDS)]


# --- sizes ----------------------------------------------------------------------------------------------


def log_dirs(client: RawClient, topics: dict[str, list[int]] | None, version: int = 5) -> Any:
    row = DescribeLogDirsRequest.DescribableLogDirTopic
    asked = (
        None if topics is None else [row(topic=name, partitions=numbers) for name, numbers in topics.items()]
    )
    answer = client.ask(DescribeLogDirsRequest(topics=asked), version)
    assert answer.error_code == E.NONE
    (directory,) = answer.results
    assert directory.error_code == E.NONE
    return directory


def sizes(directory: Any) -> dict[tuple[str, int], int]:
    assert not any(
        row.offset_lag or row.is_future_key for topic in directory.topics for row in topic.partitions
    )
    return {
        (topic.name, row.partition_index): row.partition_size
        for topic in directory.topics
        for row in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 6))
def test_every_version_tells_sizes(gateway: Gateway, client: RawClient, topic: str, version: int) -> None:
    directory = log_dirs(client, {topic: [0, 1]}, version)
    assert directory.log_dir == str(gateway.data.resolve())
    found = sizes(directory)
    # A batch of one record has some 70 bytes, and the log frames it.
    assert 70 * RECORDS < found[topic, 0] - found[topic, 1] < 200 * RECORDS
    if version >= 4:
        assert directory.total_bytes >= directory.usable_bytes > 0
    else:
        assert (directory.total_bytes, directory.usable_bytes) == (-1, -1)
    assert directory.is_cordoned is False


def test_unknown_partitions_have_no_size(client: RawClient, topic: str) -> None:
    directory = log_dirs(client, {topic: [1, 2, -1, 1], "nope": [0]})
    assert set(sizes(directory)) == {(topic, 1)}
    assert len(directory.topics[0].partitions) == 1
    assert log_dirs(client, {}).topics == []


def test_all_sizes_at_once(client: RawClient, topic: str) -> None:
    assert {(topic, 0), (topic, 1)} <= set(sizes(log_dirs(client, None)))
    assert delete(client, topic)[0].error_code == E.NONE
    assert not {(topic, 0), (topic, 1)} & set(sizes(log_dirs(client, None)))


def test_deleting_records_frees_their_bytes(client: RawClient, topic: str) -> None:
    delete_records(client, topic, (0, -1))
    found = sizes(log_dirs(client, {topic: [0, 1]}))
    assert found[topic, 0] == found[topic, 1]


# --- producers ------------------------------------------------------------------------------------------


def producers(client: RawClient, *topics: tuple[str, list[int]]) -> dict[tuple[str, int], Any]:
    row = DescribeProducersRequest.TopicRequest
    asked = [row(name=name, partition_indexes=numbers) for name, numbers in topics]
    answer = client.ask(DescribeProducersRequest(topics=asked), 0)
    rows = [(topic.name, row) for topic in answer.topics for row in topic.partitions]
    found = {(name, row.partition_index): row for name, row in rows}
    assert len(found) == len(rows)
    return found


def test_producers_are_described(client: RawClient, topic: str) -> None:
    found = producers(client, (topic, [0, 1]))
    assert [(row.error_code, row.error_message) for row in found.values()] == [(E.NONE, None)] * 2
    (row,) = found[topic, 0].active_producers
    assert row.producer_id >= 0
    assert (row.producer_epoch, row.last_sequence) == (0, RECORDS - 1)
    assert row.last_timestamp > 0
    assert (row.coordinator_epoch, row.current_txn_start_offset) == (-1, -1)
    assert found[topic, 1].active_producers == []


def test_producers_of_what_is_not_there(client: RawClient, topic: str) -> None:
    found = producers(client, (topic, [2, -1]), ("nope", [0]), ("a b", [0]))
    assert {place: row.error_code for place, row in found.items()} == {
        (topic, 2): E.UNKNOWN_TOPIC_OR_PARTITION,
        (topic, -1): E.UNKNOWN_TOPIC_OR_PARTITION,
        ("nope", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
        ("a b", 0): E.INVALID_TOPIC_EXCEPTION,
    }
    assert all(row.error_message for row in found.values())


def test_producers_are_told_once_however_often_they_are_asked_for(client: RawClient, topic: str) -> None:
    found = producers(client, (topic, [0] * 10_000), (topic, [0, 1]))
    assert set(found) == {(topic, 0), (topic, 1)}
