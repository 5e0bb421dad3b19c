"""Committed offsets and the admin's view of groups, with unmodified clients, also over kill -9."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, OffsetAndMetadata
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import KafkaAdminClient

from tests.gateway.kafka.group_members import ConfluentMember, poll_until
from tests.support.gateway import Gateway, running_gateway

TIMEOUT_S = 20.0
LONG_POLL_MS = 2_000
PLACE = PythonTopicPartition("kept", 0)
MESSAGES = [f"message {number}".encode() for number in range(20)]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    directory: Path = tmp_path_factory.mktemp("offsets")
    with running_gateway(directory, num_partitions="1") as running:
        yield running
    assert "Traceback" not in running.log.read_text()


@pytest.fixture(scope="module")
def topic(gateway: Gateway) -> str:
    producer = Producer({"bootstrap.servers": gateway.bootstrap})
    for value in MESSAGES:
        producer.produce("kept", value)
    assert producer.flush(TIMEOUT_S) == 0
    return "kept"


def python_consumer(gateway: Gateway, group: str, **settings: Any) -> Any:
    return closing(
        KafkaConsumer(
            bootstrap_servers=gateway.bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **settings,
        )
    )


# --- committing -------------------------------------------------------------------------------------


def test_each_client_reads_what_another_has_committed(gateway: Gateway, topic: str) -> None:
    with python_consumer(gateway, "passed-on") as consumer:
        consumer.assign([PLACE])
        consumer.commit({PLACE: OffsetAndMetadata(3, "by kafka-python", 0)})
        assert consumer.committed(PLACE) == 3

    confluent = Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": "passed-on"})
    try:
        found = confluent.committed([TopicPartition(topic, 0)], timeout=TIMEOUT_S)[0]
        assert (found.offset, found.metadata) == (3, "by kafka-python")
        confluent.commit(offsets=[TopicPartition(topic, 0, 4, metadata="by librdkafka")], asynchronous=False)
    finally:
        confluent.close()

    async def go_on() -> tuple[int, bytes]:
        place = AioTopicPartition(topic, 0)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=gateway.bootstrap, group_id="passed-on", enable_auto_commit=False
        )
        consumer.assign([place])
        await consumer.start()
        try:
            before = await consumer.committed(place)
            record = await consumer.getone()
            await consumer.commit({place: (5, "by aiokafka")})
            return before, record.value
        finally:
            await consumer.stop()

    assert asyncio.run(go_on()) == (4, MESSAGES[4])
    with python_consumer(gateway, "passed-on") as consumer:
        consumer.assign([PLACE])
        kept = consumer.committed(PLACE, metadata=True)
        assert (kept.offset, kept.metadata) == (5, "by aiokafka")


def test_a_consumer_goes_on_where_it_was_after_kill_9_of_the_gateway(gateway: Gateway, topic: str) -> None:
    with python_consumer(gateway, "resumes") as consumer:
        consumer.subscribe([topic])
        seen: list[bytes] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(seen) < 7 and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=LONG_POLL_MS, max_records=7 - len(seen)).values():
                seen += [record.value for record in records]
        assert seen == MESSAGES[:7]
        consumer.commit({PLACE: OffsetAndMetadata(7, "é", -1)})
    gateway.kill()
    gateway.start()
    member = ConfluentMember(gateway.bootstrap, "resumes", topic)
    try:
        poll_until(lambda: len(member.values) >= len(MESSAGES) - 7, member)
        assert member.values == MESSAGES[7:]
    finally:
        member.close()


def test_members_survive_a_restart_of_the_gateway(gateway: Gateway, topic: str) -> None:
    member = ConfluentMember(gateway.bootstrap, "patient", topic)
    try:
        poll_until(lambda: len(member.values) == len(MESSAGES), member)
        member.consumer.commit(asynchronous=False)
        gateway.kill()
        gateway.start()
        producer = Producer({"bootstrap.servers": gateway.bootstrap})
        producer.produce(topic, b"after it")
        assert producer.flush(TIMEOUT_S) == 0
        poll_until(lambda: member.values[len(MESSAGES) :] == [b"after it"], member)
    finally:
        member.close()


def test_a_transactional_producer_is_refused_at_once(gateway: Gateway) -> None:
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "transactional.id": "x"})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(TIMEOUT_S)
    assert refused.value.args[0].name() == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert not refused.value.args[0].retriable()


# --- the admin's view -------------------------------------------------------------------------------


def test_kafka_python_administers_groups(gateway: Gateway, topic: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=gateway.bootstrap)) as admin:
        member = ConfluentMember(gateway.bootstrap, "watched", topic)
        try:
            poll_until(lambda: bool(member.assigned()), member)
            assert states(admin)["watched"] == "Stable"
            described = admin.describe_groups(["watched"])["watched"]
            assert described["group_state"] == "Stable"
            assert described["protocol_type"] == "consumer"
            assert len(described["members"]) == 1
            member.consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
        finally:
            member.close()
        assert states(admin)["watched"] == "Empty"
        kept = admin.list_group_offsets({"watched": None})["watched"]
        assert {tuple(place): position.offset for place, position in kept.items()} == {(topic, 0): 2}
        admin.alter_group_offsets("watched", {PLACE: OffsetAndMetadata(1, "", -1)})
        assert admin.list_group_offsets({"watched": [PLACE]})["watched"][PLACE].offset == 1
        admin.delete_group_offsets("watched", [PLACE])
        assert "watched" not in states(admin)


def states(admin: Any) -> dict[str, str]:
    return {group["group_id"]: group["group_state"] for group in admin.list_groups()}


def test_librdkafka_administers_groups(gateway: Gateway, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    place = TopicPartition(topic, 0, 9)
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions("managed", [place])])["managed"].result(
        TIMEOUT_S
    )
    listed = admin.list_consumer_groups().result(TIMEOUT_S)
    assert not listed.errors
    assert "managed" in {group.group_id for group in listed.valid}
    described = admin.describe_consumer_groups(["managed"])["managed"].result(TIMEOUT_S)
    assert (described.state.name, described.members) == ("EMPTY", [])
    asked = [ConsumerGroupTopicPartitions("managed")]
    kept = admin.list_consumer_group_offsets(asked)["managed"].result(TIMEOUT_S)
    assert [(found.topic, found.partition, found.offset) for found in kept.topic_partitions] == [
        (topic, 0, 9)
    ]
    assert admin.delete_consumer_groups(["managed"])["managed"].result(TIMEOUT_S) is None
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups(["managed"])["managed"].result(TIMEOUT_S)
    assert refused.value.args[0].name() == "GROUP_ID_NOT_FOUND"
