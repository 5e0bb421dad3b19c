"""Producers under test: each writes its streams with a real client and notes what it was told.

They never give up: the gateway comes back. So a send that fails all the same is the gateway's doing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from threading import Semaphore
from typing import Any, Protocol, TypeAlias

from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaProducer

from tests.chaos.client_thread import Target
from tests.chaos.history import Failure, History, Value
from tests.chaos.values import encode_value

__all__ = [
    "FLUSH_DEADLINE_S",
    "MakeWriter",
    "Notes",
    "Writer",
    "confluent",
    "confluent_acks_1",
    "kafka_python",
]

FLUSH_DEADLINE_S = 180.0
POLL_S = 0.05
# Values without an answer; more of them would only make the end of a run long.
MAX_QUEUED = 500
# What the not idempotent producer sends now and then: larger than the gateway takes.
TOO_LARGE_BYTES = 150_000
TOO_LARGE_EVERY = 97


class Writer(Protocol):
    """Sends values in order. `send` may wait; `finish` waits for all answers."""

    def send(self, value: Value) -> None: ...

    def finish(self) -> None: ...


class Notes:
    """What the client calls back, from whatever thread."""

    def __init__(self, history: History) -> None:
        self._history = history

    def sending(self, value: Value) -> None:
        self._history.sent[value.stream] = value.sequence + 1

    def acked(self, value: Value, offset: int | None) -> None:
        self._history.acked[value.stream][value.sequence] = None if offset is None or offset < 0 else offset

    def failed(self, value: Value, reason: str, *, is_certain: bool) -> None:
        self._history.failed[value.stream][value.sequence] = Failure(reason, is_certain)


class ConfluentWriter:
    """librdkafka."""

    def __init__(
        self, target: Target, notes: Notes, settings: dict[str, Any], too_large_every: int = 0
    ) -> None:
        self._topic, self._notes, self._too_large_every = target.topic, notes, too_large_every
        self._producer = Producer(
            {
                "bootstrap.servers": target.bootstrap,
                "logger": SILENT,
                "message.timeout.ms": 0,
                "linger.ms": 2,
                "batch.size": 32_768,
                "message.max.bytes": 1_000_000,
                "queue.buffering.max.messages": MAX_QUEUED,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                **settings,
            }
        )

    def send(self, value: Value) -> None:
        too_large = self._too_large_every and value.sequence % self._too_large_every == 1
        data = encode_value(value, TOO_LARGE_BYTES if too_large else None)
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    data,
                    partition=value.stream.partition,
                    on_delivery=partial(self._delivered, value),
                )
                break
            except BufferError:
                self._producer.poll(POLL_S)
        self._producer.poll(0)

    def _delivered(self, value: Value, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._notes.acked(value, message.offset())
        else:
            is_certain = bool(error.code() == KafkaError.MSG_SIZE_TOO_LARGE)
            self._notes.failed(value, str(error), is_certain=is_certain)

    def finish(self) -> None:
        self._producer.flush(FLUSH_DEADLINE_S)


class KafkaPythonWriter:
    """kafka-python. Its callbacks come in a thread of its own."""

    def __init__(self, target: Target, notes: Notes) -> None:
        self._topic, self._notes = target.topic, notes
        # This client has no limit of its own.
        self._room = Semaphore(MAX_QUEUED)
        self._producer = KafkaProducer(
            bootstrap_servers=target.bootstrap,
            enable_idempotence=True,
            acks="all",
            delivery_timeout_ms=3_600_000,
            max_block_ms=60_000,
            request_timeout_ms=10_000,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=200,
            linger_ms=2,
        )

    def send(self, value: Value) -> None:
        self._room.acquire()
        future = self._producer.send(self._topic, encode_value(value), partition=value.stream.partition)
        future.add_callback(partial(self._stored, value))
        future.add_errback(partial(self._failed, value))

    def _stored(self, value: Value, stored: Any) -> None:
        self._notes.acked(value, stored.offset)
        self._room.release()

    def _failed(self, value: Value, error: Exception) -> None:
        self._notes.failed(value, repr(error), is_certain=False)
        self._room.release()

    def finish(self) -> None:
        try:
            self._producer.flush(FLUSH_DEADLINE_S)
        finally:
            self._producer.close(timeout=5)


SILENT = logging.getLogger("tests.chaos.librdkafka")
SILENT.propagate = False
SILENT.addHandler(logging.NullHandler())
# That the gateway is gone now and then is what this is about.
for noisy in ("kafka", "aiokafka"):
    logging.getLogger(noisy).addHandler(logging.NullHandler())

MakeWriter: TypeAlias = Callable[[Target, Notes], Writer]


def confluent(target: Target, notes: Notes) -> Writer:
    return ConfluentWriter(target, notes, {"enable.idempotence": True, "acks": "all"})


def confluent_acks_1(target: Target, notes: Notes) -> Writer:
    """One request at a time: with more of them a retry would rightly change the order."""
    settings = {"acks": 1, "retries": 1_000_000, "max.in.flight": 1, "retry.backoff.ms": 20}
    return ConfluentWriter(target, notes, settings, TOO_LARGE_EVERY)


def kafka_python(target: Target, notes: Notes) -> Writer:
    return KafkaPythonWriter(target, notes)
