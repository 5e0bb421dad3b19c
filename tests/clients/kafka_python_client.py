"""kafka-python behind the form of client.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import kafka
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.clients.client import (
    HEARTBEAT_MS,
    SESSION_TIMEOUT_MS,
    NewRecord,
    ProducerOptions,
    StoredRecord,
)

__all__ = ["KafkaPythonClient"]

ANSWER_S = 30
POLL_MS = 100
# 3.0.12 forgets its assignment if a poll runs out of time between asking for it and getting it.
MEMBER_POLL_MS = 1_000
ACKS = {"0": 0, "1": 1, "all": "all"}


class _Producer:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._answers: list[Any] = []

    def send(self, topic: str, partition: int, record: NewRecord) -> None:
        answer = self._producer.send(
            topic,
            partition=partition,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            timestamp_ms=record.timestamp_ms,
        )
        self._answers.append(answer)

    def flush(self) -> list[int]:
        self._producer.flush(timeout=ANSWER_S)
        return [answer.get(timeout=ANSWER_S).offset for answer in self._answers]


class _Consumer:
    def __init__(self, consumer: Any, poll_ms: int) -> None:
        self._consumer = consumer
        self._poll_ms = poll_ms

    def assign(self, topic: str, partition: int, offset: int) -> None:
        place = TopicPartition(topic, partition)
        self._consumer.assign([place])
        self._consumer.seek(place, offset)

    def subscribe(self, topic: str) -> None:
        self._consumer.subscribe([topic])

    def poll(self) -> list[StoredRecord]:
        batches = self._consumer.poll(timeout_ms=self._poll_ms).values()
        return [_stored(record) for batch in batches for record in batch]

    def assignment(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        place = TopicPartition(topic, partition)
        found = self._consumer.offsets_for_times({place: timestamp_ms})[place]
        return None if found is None else int(found.offset)

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        self._consumer.commit(_places(topic, offsets))


class _Admin:
    def __init__(self, admin: Any) -> None:
        self._admin = admin

    def brokers(self) -> list[tuple[str, int]]:
        return [(broker["host"], broker["port"]) for broker in self._admin.describe_cluster()["brokers"]]

    def create_topic(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(settings)}
        self._admin.create_topics({topic: wanted})

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partitions_of(self, topic: str) -> int:
        return len(self._admin.describe_topics([topic])[0]["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: total})

    def settings_of(self, topic: str) -> dict[str, str | None]:
        found = self._admin.describe_configs([_of_topic(topic, None)], config_filter="all")
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    def change_setting(self, topic: str, name: str, value: str) -> None:
        result = self._admin.alter_configs([_of_topic(topic, {name: value})])["topic"][topic]
        assert result == "OK", result

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        place = TopicPartition(topic, partition)
        return int(self._admin.delete_records({place: before_offset})[place]["low_watermark"])

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def groups(self) -> set[str]:
        return {group["group_id"] for group in self._admin.list_groups()}

    def state_of(self, group: str) -> str:
        return str(self._admin.describe_groups([group])[group]["group_state"])

    def offsets_of(self, group: str, topic: str) -> dict[int, int]:
        found = self._admin.list_group_offsets({group: None})[group]
        return {place.partition: entry.offset for place, entry in found.items() if place.topic == topic}

    def set_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        results = self._admin.alter_group_offsets(group, _places(topic, offsets))
        assert set(results.values()) == {NoError}, results

    def delete_group(self, group: str) -> None:
        self._admin.delete_groups([group])


class KafkaPythonClient:
    name = "kafka-python"
    version: str = kafka.__version__
    lacks: frozenset[str] = frozenset()

    def can_send(self, record: NewRecord) -> bool:
        has_null_header = any(value is None for _, value in record.headers)
        return (record.key, record.value) != (None, None) and not has_null_header

    @contextmanager
    def producer(self, bootstrap: str, options: ProducerOptions = ProducerOptions()) -> Iterator[_Producer]:  # noqa: B008 - it is frozen
        settings = {
            "compression_type": None if options.codec == "none" else options.codec,
            "acks": ACKS[options.acks],
            "enable_idempotence": options.idempotent,
        }
        with closing(kafka.KafkaProducer(bootstrap_servers=bootstrap, **settings)) as producer:
            yield _Producer(producer)

    @contextmanager
    def consumer(self, bootstrap: str, group: str | None = None) -> Iterator[_Consumer]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=POLL_MS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        with closing(consumer):
            yield _Consumer(consumer, POLL_MS if group is None else MEMBER_POLL_MS)

    @contextmanager
    def admin(self, bootstrap: str) -> Iterator[_Admin]:
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            yield _Admin(admin)


def _stored(record: Any) -> StoredRecord:
    headers = tuple((name, value) for name, value in record.headers)
    return StoredRecord(record.partition, record.offset, record.timestamp, record.key, record.value, headers)


def _places(topic: str, offsets: Mapping[int, int]) -> dict[Any, Any]:
    return {
        TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
        for partition, offset in offsets.items()
    }


def _of_topic(topic: str, settings: dict[str, str] | None) -> Any:
    return ConfigResource(ConfigResourceType.TOPIC, topic, configs=settings)
