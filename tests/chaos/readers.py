"""Consumers under test, by assignment: each reads every partition from offset 0 with a real client.

None of them may choose a new position by itself: an offset that is out of range ends a reader with an error,
because it says that the log has lost what the reader was given before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Event
from typing import Any, TypeAlias

import aiokafka
import kafka
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.chaos.client_thread import ClientThread, Target
from tests.chaos.history import History, Polls, Seen
from tests.chaos.values import decode_value
from tests.chaos.writers import SILENT

__all__ = ["CONFLUENT", "KAFKA_PYTHON", "READERS", "ReaderThread", "Record", "note", "read_log", "records_of"]

POLL_S = 0.1
MAX_POLL = 500
READ_DEADLINE_POLLS = 600
# The gateway is gone for a while: librdkafka tells, and goes on by itself.
EXPECTED_ERRORS = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
    }
)

CONFLUENT: dict[str, Any] = {
    "logger": SILENT,
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "fetch.error.backoff.ms": 20,
    "check.crcs": True,
}
KAFKA_PYTHON: dict[str, Any] = {
    "enable_auto_commit": False,
    "auto_offset_reset": "none",
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 200,
    "request_timeout_ms": 10_000,
}

# (partition, offset, bytes)
Record: TypeAlias = tuple[int, int, bytes | None]
Read: TypeAlias = Callable[[Target, Event, Polls], None]


def note(polls: Polls, records: Iterable[Record]) -> None:
    for partition, offset, data in records:
        polls[partition].append(Seen(offset, decode_value(data)))


class ReaderThread(ClientThread):
    """What it was given is in the history from the first poll on."""

    def __init__(self, name: str, read: Read, target: Target, history: History) -> None:
        super().__init__(name, target, history)
        self._read = read
        self._polls = history.readers[name]

    @property
    def has_worked(self) -> bool:
        return bool(self._polls)

    def reached(self, ends: dict[int, int]) -> bool:
        """Whether it was given the last record of every partition."""
        return all(
            not end or (self._polls[partition] and self._polls[partition][-1].offset >= end - 1)
            for partition, end in ends.items()
        )

    def work(self) -> None:
        self._read(self.target, self.stopping, self._polls)


# --- confluent-kafka ------------------------------------------------------------------------------------


def records_of(messages: list[Message]) -> Iterable[Record]:
    """Raises for an error that is not about the connection."""
    for message in messages:
        error = message.error()
        if error is None:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            yield partition, offset, message.value()
        elif error.code() not in EXPECTED_ERRORS:
            raise RuntimeError(f"{error} in {message.partition()} at {message.offset()}")


def _confluent(target: Target, stopping: Event, polls: Polls) -> None:
    consumer = Consumer({**CONFLUENT, "bootstrap.servers": target.bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition(target.topic, partition, 0) for partition in range(target.partitions)])
    while not stopping.is_set():
        note(polls, records_of(consumer.consume(MAX_POLL, POLL_S)))
    consumer.close()


def read_log(target: Target) -> tuple[Polls, dict[int, int]]:
    """The whole log and its ends, by a consumer that is new."""
    consumer = Consumer({**CONFLUENT, "bootstrap.servers": target.bootstrap, "group.id": "unused"})
    places = [TopicPartition(target.topic, partition, 0) for partition in range(target.partitions)]
    ends = {
        place.partition: consumer.get_watermark_offsets(place, timeout=30, cached=False)[1]
        for place in places
    }
    polls: Polls = {partition: [] for partition in ends}
    consumer.assign(places)
    for _ in range(READ_DEADLINE_POLLS):
        note(polls, records_of(consumer.consume(MAX_POLL, POLL_S)))
        if sum(map(len, polls.values())) >= sum(ends.values()):
            break
    consumer.close()
    return polls, ends


# --- kafka-python ---------------------------------------------------------------------------------------


def _kafka_python(target: Target, stopping: Event, polls: Polls) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=target.bootstrap, **KAFKA_PYTHON)
    places = [kafka.TopicPartition(target.topic, partition) for partition in range(target.partitions)]
    consumer.assign(places)
    for place in places:
        consumer.seek(place, 0)
    while not stopping.is_set():
        for place, records in consumer.poll(timeout_ms=int(POLL_S * 1000)).items():
            note(polls, ((place.partition, record.offset, record.value) for record in records))
    consumer.close()


# --- aiokafka -------------------------------------------------------------------------------------------


def _aiokafka(target: Target, stopping: Event, polls: Polls) -> None:
    asyncio.run(_aiokafka_loop(target, stopping, polls))


async def _aiokafka_loop(target: Target, stopping: Event, polls: Polls) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=target.bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="none",
        retry_backoff_ms=50,
        request_timeout_ms=10_000,
    )
    places = [aiokafka.TopicPartition(target.topic, partition) for partition in range(target.partitions)]
    consumer.assign(places)
    await consumer.start()
    try:
        for place in places:
            consumer.seek(place, 0)
        while not stopping.is_set():
            for place, records in (await consumer.getmany(timeout_ms=int(POLL_S * 1000))).items():
                note(polls, ((place.partition, record.offset, record.value) for record in records))
    finally:
        with suppress(Exception):
            await consumer.stop()


READERS: dict[str, Read] = {
    "confluent": _confluent,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
}
