"""confluent-kafka, which is librdkafka, behind the form of client.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions, Message, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it does not say what it exports
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.clients.client import (
    HEARTBEAT_MS,
    SESSION_TIMEOUT_MS,
    NewRecord,
    ProducerOptions,
    StoredRecord,
)

__all__ = ["ConfluentClient"]

ANSWER_S = 30
POLL_S = 0.1
POLL_RECORDS = 500
NO_OFFSET = -1
# Gateways are killed here on purpose: lost connections are not worth a line.
QUIET = 2


class _Producer:
    def __init__(self, producer: confluent_kafka.Producer) -> None:
        self._producer = producer
        self._answers: list[int | None] = []

    def send(self, topic: str, partition: int, record: NewRecord) -> None:
        place = len(self._answers)
        self._answers.append(None)

        def answered(error: Any, message: Message) -> None:
            assert error is None, error
            offset = message.offset()
            # Without an answer (acks=0) there is none.
            self._answers[place] = NO_OFFSET if offset is None else offset

        self._producer.produce(
            topic,
            value=record.value,
            key=record.key,
            partition=partition,
            headers=list(record.headers),
            on_delivery=answered,
            # 0 is its word for now.
            timestamp=record.timestamp_ms or 0,
        )

    def flush(self) -> list[int]:
        assert self._producer.flush(ANSWER_S) == 0, "not all was answered"
        answered = [offset for offset in self._answers if offset is not None]
        assert len(answered) == len(self._answers)
        return answered


class _Consumer:
    def __init__(self, consumer: confluent_kafka.Consumer) -> None:
        self._consumer = consumer

    def assign(self, topic: str, partition: int, offset: int) -> None:
        self._consumer.assign([TopicPartition(topic, partition, offset)])

    def subscribe(self, topic: str) -> None:
        self._consumer.subscribe([topic])

    def poll(self) -> list[StoredRecord]:
        messages = self._consumer.consume(POLL_RECORDS, POLL_S)
        # What it tells about connections that broke is no record; it goes on by itself.
        return [_stored(message) for message in messages if message.error() is None]

    def assignment(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        asked = [TopicPartition(topic, partition, timestamp_ms)]
        (found,) = self._consumer.offsets_for_times(asked, timeout=ANSWER_S)
        assert found.error is None, found.error
        # It says "the end" where the broker says that there is no such record.
        return None if found.offset == confluent_kafka.OFFSET_END else found.offset

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        for place in self._consumer.commit(offsets=_places(topic, offsets), asynchronous=False) or ():
            assert place.error is None, place.error


class _Admin:
    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def brokers(self) -> list[tuple[str, int]]:
        return [(node.host, node.port) for node in self._admin.describe_cluster().result(ANSWER_S).nodes]

    def create_topic(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        _all(self._admin.create_topics([NewTopic(topic, partitions, 1, config=dict(settings))]))

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=ANSWER_S).topics)

    def partitions_of(self, topic: str) -> int:
        described = self._admin.describe_topics(confluent_kafka.TopicCollection([topic]))
        return len(described[topic].result(ANSWER_S).partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        _all(self._admin.create_partitions([NewPartitions(topic, total)]))

    def settings_of(self, topic: str) -> dict[str, str | None]:
        (entries,) = _all(self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        return {name: entry.value for name, entry in entries.items()}

    def change_setting(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        _all(self._admin.incremental_alter_configs([resource]))

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        (deleted,) = _all(self._admin.delete_records([TopicPartition(topic, partition, before_offset)]))
        return int(deleted.low_watermark)

    def delete_topic(self, topic: str) -> None:
        _all(self._admin.delete_topics([topic]))

    def groups(self) -> set[str]:
        listed = self._admin.list_consumer_groups().result(ANSWER_S)
        assert not listed.errors, listed.errors
        return {group.group_id for group in listed.valid}

    def state_of(self, group: str) -> str:
        (described,) = _all(self._admin.describe_consumer_groups([group]))
        return str(described.state.name).capitalize()

    def offsets_of(self, group: str, topic: str) -> dict[int, int]:
        (found,) = _all(self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return {place.partition: place.offset for place in found.topic_partitions if place.topic == topic}

    def set_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = ConsumerGroupTopicPartitions(group, _places(topic, offsets))
        _all(self._admin.alter_consumer_group_offsets([wanted]))

    def delete_group(self, group: str) -> None:
        _all(self._admin.delete_consumer_groups([group]))


class ConfluentClient:
    name = "confluent-kafka"
    version: str = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
    lacks: frozenset[str] = frozenset()

    def can_send(self, record: NewRecord) -> bool:
        return True

    @contextmanager
    def producer(self, bootstrap: str, options: ProducerOptions = ProducerOptions()) -> Iterator[_Producer]:  # noqa: B008 - it is frozen
        settings = {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "compression.type": options.codec,
            "acks": options.acks,
            "enable.idempotence": options.idempotent,
        }
        producer = confluent_kafka.Producer(settings)
        yield _Producer(producer)
        producer.flush(ANSWER_S)

    @contextmanager
    def consumer(self, bootstrap: str, group: str | None = None) -> Iterator[_Consumer]:
        settings = {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            # It wants a name even where there is no group.
            "group.id": group or "no-group",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": int(POLL_S * 1000),
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "reconnect.backoff.max.ms": 500,
        }
        with closing(confluent_kafka.Consumer(settings)) as consumer:
            yield _Consumer(consumer)

    @contextmanager
    def admin(self, bootstrap: str) -> Iterator[_Admin]:
        yield _Admin(AdminClient({"bootstrap.servers": bootstrap, "log_level": QUIET}))


def _stored(message: Message) -> StoredRecord:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    headers: Any = message.headers() or ()
    return StoredRecord(
        partition, offset, message.timestamp()[1], message.key(), message.value(), tuple(headers)
    )


def _places(topic: str, offsets: Mapping[int, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]


def _all(futures: Mapping[Any, Any]) -> list[Any]:
    """What the futures give; each raises what its broker refused."""
    return [future.result(ANSWER_S) for future in futures.values()]
