"""aiokafka behind the form of client.py: its event loop runs whenever a call waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import aiokafka
from aiokafka.admin import (
    AIOKafkaAdminClient,
    NewPartitions,
    NewTopic,
    RecordsToDelete,
)
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code
from aiokafka.structs import TopicPartition

from tests.clients.client import (
    HEARTBEAT_MS,
    SESSION_TIMEOUT_MS,
    NewRecord,
    ProducerOptions,
    StoredRecord,
)
from tests.clients.features import DELETE_GROUPS, SET_OFFSETS

__all__ = ["AiokafkaClient"]

T = TypeVar("T")
ANSWER_S = 30
POLL_MS = 100
NO_OFFSET = -1
ACKS = {"0": 0, "1": 1, "all": "all"}


class _Loop:
    """One event loop for all that a test has open, so that two members of a group both make progress."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._users = 0

    @contextmanager
    def running(self) -> Iterator[_Loop]:
        if self._users == 0:
            self._runner = asyncio.Runner()
        self._users += 1
        try:
            yield self
        finally:
            self._users -= 1
            if self._users == 0 and self._runner is not None:
                self._runner.close()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        assert self._runner is not None
        return self._runner.run(call)


class _Producer:
    def __init__(self, loop: _Loop, producer: Any) -> None:
        self._loop = loop
        self._producer = producer
        self._answers: list[Any] = []

    def send(self, topic: str, partition: int, record: NewRecord) -> None:
        call = self._producer.send(
            topic,
            partition=partition,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            timestamp_ms=record.timestamp_ms,
        )
        self._answers.append(self._loop.run(call))

    def flush(self) -> list[int]:
        answers = self._loop.run(self._answered())
        # Without an answer (acks=0) there is none.
        return [NO_OFFSET if answer is None else answer.offset for answer in answers]

    async def _answered(self) -> list[Any]:
        return await asyncio.wait_for(asyncio.gather(*self._answers), ANSWER_S)


class _Consumer:
    def __init__(self, loop: _Loop, consumer: Any) -> None:
        self._loop = loop
        self._consumer = consumer

    def assign(self, topic: str, partition: int, offset: int) -> None:
        place = TopicPartition(topic, partition)

        async def assign() -> None:
            self._consumer.assign([place])
            self._consumer.seek(place, offset)

        self._loop.run(assign())

    def subscribe(self, topic: str) -> None:
        async def subscribe() -> None:
            self._consumer.subscribe([topic])

        self._loop.run(subscribe())

    def poll(self) -> list[StoredRecord]:
        batches = self._loop.run(self._consumer.getmany(timeout_ms=POLL_MS)).values()
        return [_stored(record) for batch in batches for record in batch]

    def assignment(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        place = TopicPartition(topic, partition)
        found = self._loop.run(self._consumer.offsets_for_times({place: timestamp_ms}))[place]
        return None if found is None else int(found.offset)

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        self._loop.run(self._consumer.commit(wanted))


class _Admin:
    def __init__(self, loop: _Loop, admin: Any) -> None:
        self._loop = loop
        self._admin = admin

    def brokers(self) -> list[tuple[str, int]]:
        described = self._loop.run(self._admin.describe_cluster())
        return [(broker["host"], broker["port"]) for broker in described["brokers"]]

    def create_topic(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        wanted = NewTopic(topic, partitions, 1, topic_configs=dict(settings))
        answer = self._loop.run(self._admin.create_topics([wanted]))
        _raise_for(row[1] for row in answer.topic_errors)

    def topics(self) -> set[str]:
        return set(self._loop.run(self._admin.list_topics()))

    def partitions_of(self, topic: str) -> int:
        (described,) = self._loop.run(self._admin.describe_topics([topic]))
        return len(described["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        self._loop.run(self._admin.create_partitions({topic: NewPartitions(total)}))

    def settings_of(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._loop.run(self._admin.describe_configs([resource]))
        _raise_for(row[0] for row in answer.resources)
        return {entry[0]: entry[1] for row in answer.resources for entry in row[4]}

    def change_setting(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})
        (answer,) = self._loop.run(self._admin.alter_configs([resource]))
        _raise_for(row[0] for row in answer.resources)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        place = TopicPartition(topic, partition)
        deleted = self._loop.run(self._admin.delete_records({place: RecordsToDelete(before_offset)}))
        return int(deleted[place])

    def delete_topic(self, topic: str) -> None:
        answer = self._loop.run(self._admin.delete_topics([topic]))
        _raise_for(row[1] for row in answer.topic_error_codes)

    def groups(self) -> set[str]:
        return {group[0] for group in self._loop.run(self._admin.list_consumer_groups())}

    def state_of(self, group: str) -> str:
        (answer,) = self._loop.run(self._admin.describe_consumer_groups([group]))
        (described,) = answer.groups
        return str(described[2])

    def offsets_of(self, group: str, topic: str) -> dict[int, int]:
        found = self._loop.run(self._admin.list_consumer_group_offsets(group))
        return {place.partition: entry.offset for place, entry in found.items() if place.topic == topic}

    def set_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        raise NotImplementedError(SET_OFFSETS)

    def delete_group(self, group: str) -> None:
        raise NotImplementedError(DELETE_GROUPS)


class AiokafkaClient:
    name = "aiokafka"
    version: str = aiokafka.__version__
    lacks: frozenset[str] = frozenset({SET_OFFSETS, DELETE_GROUPS})

    def __init__(self) -> None:
        self._loop = _Loop()

    def can_send(self, record: NewRecord) -> bool:
        return (record.key, record.value) != (None, None)

    @contextmanager
    def producer(self, bootstrap: str, options: ProducerOptions = ProducerOptions()) -> Iterator[_Producer]:  # noqa: B008 - it is frozen
        settings = {
            "compression_type": None if options.codec == "none" else options.codec,
            "acks": ACKS[options.acks],
            "enable_idempotence": options.idempotent,
        }
        with self._started(aiokafka.AIOKafkaProducer, bootstrap_servers=bootstrap, **settings) as producer:
            yield _Producer(self._loop, producer)

    @contextmanager
    def consumer(self, bootstrap: str, group: str | None = None) -> Iterator[_Consumer]:
        settings = {
            "group_id": group,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": POLL_MS,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
        }
        with self._started(aiokafka.AIOKafkaConsumer, bootstrap_servers=bootstrap, **settings) as consumer:
            yield _Consumer(self._loop, consumer)

    @contextmanager
    def admin(self, bootstrap: str) -> Iterator[_Admin]:
        with self._started(AIOKafkaAdminClient, bootstrap_servers=bootstrap) as admin:
            yield _Admin(self._loop, admin)

    @contextmanager
    def _started(self, kind: Any, **settings: Any) -> Iterator[Any]:
        async def start() -> Any:
            # Its objects want to be made while the loop runs.
            made = kind(**settings)
            await made.start()
            return made

        with self._loop.running() as loop:
            made = loop.run(start())
            try:
                yield made
            finally:
                loop.run(made.close() if kind is AIOKafkaAdminClient else made.stop())


def _stored(record: Any) -> StoredRecord:
    return StoredRecord(
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple(record.headers),
    )


def _raise_for(codes: Iterator[int]) -> None:
    for code in codes:
        if code:
            raise for_code(code)
