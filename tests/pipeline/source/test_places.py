"""Which topics and partitions a path holds, and which of them the options ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from barbicel.codecs.topic_file import TopicState
from barbicel.errors import CorruptFile
from barbicel.keratin import Log
from barbicel.pipeline.source.options import BadOption
from barbicel.pipeline.source.places import NoSuchTopic
from tests.pipeline.source.stored import append, batch, make_topic, read, records


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for number, (name, partitions) in enumerate((("orders", 3), ("orders.eu", 1), ("other", 2)), start=1):
        for partition, directory in enumerate(make_topic(tmp_path, name, partitions, number)):
            with Log.open(str(directory)) as log:
                append(log, batch(records(partition + 1)))
    return tmp_path


def rows(data: Path, **options: str) -> list[tuple[str, int, int]]:
    return [(row["topic"], row["partition"], row["offset"]) for row in read(data, **options)]


ORDERS = [("orders", 0, 0), ("orders", 1, 0), ("orders", 1, 1), *(("orders", 2, n) for n in range(3))]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"subscribe": "orders"}, ORDERS),
        ({"topic": "orders"}, ORDERS),
        ({"subscribe": "orders.eu, orders"}, [*ORDERS, ("orders.eu", 0, 0)]),
        ({"subscribePattern": "orders.*"}, [*ORDERS, ("orders.eu", 0, 0)]),
        ({"subscribePattern": "order"}, []),
        ({"assign": '{"orders": [1], "other": [0]}'}, [("orders", 1, 0), ("orders", 1, 1), ("other", 0, 0)]),
    ],
)
def test_topics_of_a_data_directory(
    data: Path, options: dict[str, str], expected: list[tuple[str, int, int]]
) -> None:
    assert rows(data, **options) == expected


def test_parts_of_a_data_directory_know_what_they_are(data: Path) -> None:
    directory = next((data / "topics").glob("orders-*"))
    assert rows(directory) == ORDERS
    assert rows(directory / "2") == ORDERS[3:]
    assert [row["topic"] for row in read(f"file://{directory}/2")] == ["orders"] * 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, BadOption, "no topic is chosen.*there are orders, orders.eu, other"),
        ({"subscribe": "orders", "partition": "1"}, BadOption, "assign="),
        ({"subscribe": "absent"}, NoSuchTopic, "no topic 'absent'.*there are orders"),
        ({"assign": '{"orders": [3]}'}, NoSuchTopic, "no partition 3 of topic 'orders'"),
        ({"subscribe": "orders", "subscribePattern": "o"}, BadOption, "chosen in two ways"),
        ({"subscribe": "orders", "topic": "orders"}, BadOption, "the same thing twice"),
        (
            {"subscribe": "orders", "startingOffsets": '{"orders": {"0": 0}}'},
            BadOption,
            "name all partitions",
        ),
        ({"subscribe": "orders", "endingOffsets": "earliest"}, BadOption, "cannot be the earliest"),
        ({"subscribe": "orders", "startingOffset": "earliest"}, BadOption, "'startingOffset' is not known"),
        ({"subscribe": "orders", "failOnDataLoss": "maybe"}, BadOption, "one of true, false"),
        ({"subscribe": "orders", "startingOffsets": "{"}, BadOption, "startingOffsets cannot be '{'"),
        ({"subscribe": "orders", "maxTriggerDelay": "15"}, BadOption, "a number and a unit"),
        (
            {"subscribe": "orders", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            BadOption,
            "more",
        ),
    ],
)
def test_what_is_refused_says_what_to_do(
    data: Path, options: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read(data, **options)


def test_options_of_a_kafka_connection_are_passed_over(data: Path) -> None:
    assert rows(data, subscribe="orders", **{"kafka.bootstrap.servers": "localhost:9092"}) == ORDERS


def test_a_deleted_topic_is_gone_and_one_in_the_making_not_there_yet(data: Path) -> None:
    make_topic(data, "gone", 1, 9, TopicState.DELETED)
    (data / "topics" / "new-AAAAAAAAAAAAAAAAAAAAAA").mkdir()
    make_topic(data, "young", 2, 10)
    assert rows(data, subscribePattern="young|new|gone") == []


def test_a_damaged_topic_file(data: Path) -> None:
    path = next((data / "topics").glob("orders-*")) / "topic.json"
    path.write_bytes(path.read_bytes().replace(b'"partitions": 3', b'"partitions": 2'))
    with pytest.raises(CorruptFile, match="topic.json.*crc32c"):
        read(data, subscribe="orders")
