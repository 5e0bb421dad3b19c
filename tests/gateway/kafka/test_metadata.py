"""Metadata: null and empty lists, creation by asking, topic ids, and which address clients are told."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.config.listeners import Listener
from barbicel.gateway.kafka.metadata import MAX_CREATED
from tests.gateway.kafka.in_memory import Gateway, in_memory_gateway
from tests.gateway.kafka.requests import metadata, only

VERSIONS = range(14)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_answered(gateway: Gateway, version: int) -> None:
    topic = gateway.create("known", partitions=3)
    answer = gateway.connect().ask(metadata("known"), version)
    broker, row = only(answer.brokers), only(answer.topics)
    assert (broker.node_id, broker.host, broker.port) == (0, "127.0.0.1", 9092)
    assert (row.error_code, row.name, len(row.partitions)) == (0, "known", 3)
    assert [part.leader_id for part in row.partitions] == [0, 0, 0]
    if version >= 10:
        assert row.topic_id == topic.topic.id


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_or_none(gateway: Gateway, version: int) -> None:
    for name in ("b", "a"):
        gateway.create(name)
    client = gateway.connect()
    names = [row.name for row in client.ask(metadata(everything=version > 0), version).topics]
    assert names == ["a", "b"]
    if version > 0:
        assert client.ask(metadata(), version).topics == []


def test_asking_creates_a_topic(gateway: Gateway) -> None:
    client = gateway.connect()
    row = only(client.ask(metadata("new"), 4).topics)
    assert (row.error_code, len(row.partitions)) == (0, 1)
    assert len(gateway.broker.topics) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_named_twice_is_answered_once_and_in_the_order_of_the_names(
    gateway: Gateway, version: int
) -> None:
    gateway.create("a")
    asked = metadata("new", "a", "new", "a", "a")
    assert [row.name for row in gateway.connect().ask(asked, version).topics] == ["new", "a"]


def test_an_id_that_is_named_twice_is_answered_once(gateway: Gateway) -> None:
    identity = gateway.create("a").topic.id
    kind = messages.MetadataRequest.MetadataRequestTopic
    asked = metadata()
    asked.topics = [kind(name=None, topic_id=identity), kind(name="", topic_id=identity)]
    assert only(gateway.connect().ask(asked, 12).topics).name == "a"


@pytest.mark.parametrize(("version", "name"), [(10, ""), (11, ""), (12, None), (13, None)])
def test_neither_a_name_nor_an_id_is_answered_so_that_it_can_be_read(
    gateway: Gateway, version: int, name: str | None
) -> None:
    asked = metadata()
    asked.topics = [messages.MetadataRequest.MetadataRequestTopic(name=None, topic_id=None)]
    client = gateway.connect()
    client.send(asked, version)
    # What follows the length, the correlation id and the tags. kafka-python would read a null anywhere.
    row = only(messages.decode_response(3, version, memoryview(client.transport.sent)[9:]).topics)
    assert (row.name, row.error_code) == (name, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize(("version", "exists"), [(3, True), (4, False)])
def test_a_client_may_ask_not_to_create_it(gateway: Gateway, version: int, exists: bool) -> None:
    row = only(gateway.connect().ask(metadata("new", allow_auto_topic_creation=False), version).topics)
    assert row.error_code == (0 if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert len(gateway.broker.topics) == exists


def test_the_server_may_be_told_not_to_create(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", auto_create_topics_enable=False) as gateway:
        row = only(gateway.connect().ask(metadata("new"), 4).topics)
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["", "..", "a b", "x" * 250, "../../etc"])
def test_a_name_that_cannot_be_is_refused(gateway: Gateway, name: str) -> None:
    row = only(gateway.connect().ask(metadata(name), 4).topics)
    assert (row.error_code, row.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, name)


def test_by_id(gateway: Gateway) -> None:
    topic = gateway.create()
    kind = messages.MetadataRequest.MetadataRequestTopic
    rows = [kind(name=None, topic_id=topic.topic.id), kind(name=None, topic_id=UUID(int=3))]
    known, unknown = gateway.connect().ask(messages.MetadataRequest(topics=rows), 12).topics
    assert (known.error_code, known.name) == (0, "t")
    assert (unknown.error_code, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, UUID(int=3))


@pytest.mark.parametrize("name", ["", "another"])
def test_the_id_decides_where_there_is_a_name_too(gateway: Gateway, name: str) -> None:
    """Java's admin client sends an empty name with each id."""
    topic = gateway.create()
    asked = messages.MetadataRequest.MetadataRequestTopic(name=name, topic_id=topic.topic.id)
    answer = gateway.connect().ask(
        messages.MetadataRequest(topics=[asked], allow_auto_topic_creation=False), 12
    )
    assert [(row.error_code, row.name) for row in answer.topics] == [(0, topic.name)]


def test_whoever_asks_is_told_what_it_may_do(gateway: Gateway) -> None:
    topic = gateway.create()
    asked = [messages.MetadataRequest.MetadataRequestTopic(name=topic.name, topic_id=None)]
    for is_asked in (True, False):
        request = messages.MetadataRequest(
            topics=asked,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=is_asked,
            include_topic_authorized_operations=is_asked,
        )
        answer = gateway.connect().ask(request, 10)
        assert bool(answer.authorized_operations) is is_asked
        assert bool(answer.topics[0].authorized_operations) is is_asked


def test_one_request_creates_only_so_many(gateway: Gateway) -> None:
    client = gateway.connect()
    names = [f"t{number}" for number in range(MAX_CREATED + 5)]
    codes = [row.error_code for row in client.ask(metadata(*names), 9).topics]
    assert codes == [0] * MAX_CREATED + [ErrorCode.LEADER_NOT_AVAILABLE] * 5
    assert {row.error_code for row in client.ask(metadata(*names), 9).topics} == {0}


def test_the_advertised_address_comes_first(tmp_path: Path) -> None:
    listeners = (Listener("PLAINTEXT", "broker.example", 19092),)
    with in_memory_gateway(tmp_path / "data", advertised_listeners=listeners) as gateway:
        broker = only(gateway.connect().ask(metadata(), 9).brokers)
        assert (broker.host, broker.port) == ("broker.example", 19092)
