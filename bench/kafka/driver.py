"""A confluent-kafka client in a process of its own: one job as JSON in, what it took as JSON out.

Not in the process that measures, so that the clients' work is not counted with anybody else's. Connections
are up before a clock is started.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Producer, TopicPartition

__all__ = ["CONSUMER", "PRODUCER", "READY", "Job", "Took"]

# librdkafka's defaults, but for acks and idempotence, which are Java's and Kafka's.
PRODUCER: Mapping[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "batch.num.messages": 10_000,
    # A call for every message that was delivered would cost the client more than sending it.
    "delivery.report.only.error": True,
}
CONSUMER: Mapping[str, Any] = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "fetch.max.bytes": 50 << 20,
    "max.partition.fetch.bytes": 1 << 20,
    "fetch.wait.max.ms": 500,
    # A second otherwise, whenever it has more than it can take: the figures would count those seconds.
    "fetch.queue.backoff.ms": 5,
}
# Said by a consumer that waits for what comes next.
READY = "ready"
DEADLINE_S = 60.0
FULL_QUEUE_WAIT_S = 0.001
TAKEN_AT_ONCE = 10_000
POLL_EVERY = 10_000


@dataclass(frozen=True, slots=True)
class Job:
    do: str
    bootstrap: str
    topic: str
    messages: int
    size_bytes: int
    partitions: int = 1


@dataclass(frozen=True, slots=True)
class Took:
    """Either a time for all messages, or one for each."""

    seconds: float
    each_ms: list[float]


class _Deliveries:
    """A producer that fails if a single message is not delivered."""

    def __init__(self, job: Job, **settings: Any) -> None:
        self._producer = Producer({"bootstrap.servers": job.bootstrap, **PRODUCER, **settings})
        self._topic = job.topic
        self._failures: list[KafkaError | None] = []
        self.send(b"the connection is up")
        self.await_all()

    def send(self, payload: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, payload, on_delivery=self._failed)
                return
            except BufferError:
                self._producer.poll(FULL_QUEUE_WAIT_S)

    def _failed(self, error: KafkaError | None, _message: object) -> None:
        self._failures.append(error)

    def await_all(self) -> None:
        left = self._producer.flush(DEADLINE_S)
        if left or self._failures:
            raise RuntimeError(f"{left} messages are not delivered; {self._failures[:3]}")

    def poll(self) -> None:
        self._producer.poll(0)


def produce(job: Job) -> Took:
    """As fast as the client can, until the last one is acknowledged."""
    payload = os.urandom(job.size_bytes)
    deliveries = _Deliveries(job)
    started = time.perf_counter()
    for number in range(job.messages):
        deliveries.send(payload)
        if number % POLL_EVERY == 0:
            deliveries.poll()
    deliveries.await_all()
    return Took(time.perf_counter() - started, [])


def produce_singly(job: Job) -> Took:
    """One message after the other, each in a batch of its own and acknowledged before the next is sent."""
    payload = os.urandom(job.size_bytes)
    deliveries = _Deliveries(job, **{"linger.ms": 0})
    started = time.perf_counter()
    each_ms = []
    for _ in range(job.messages):
        sent = time.perf_counter()
        deliveries.send(payload)
        deliveries.await_all()
        each_ms.append((time.perf_counter() - sent) * 1000)
    return Took(time.perf_counter() - started, each_ms)


def consume(job: Job) -> Took:
    """The topic from its beginning."""
    return _take(_consumer(job, OFFSET_BEGINNING), job)


def consume_new(job: Job) -> Took:
    """What somebody produces once this has said that it waits at the topic's end."""
    consumer = _consumer(job, OFFSET_END)
    # By now the end has been looked up, and a fetch waits there.
    if consumer.poll(2 * CONSUMER["fetch.wait.max.ms"] / 1000) is not None:
        raise RuntimeError("a message came too early")
    print(READY, flush=True)
    return _take(consumer, job)


def _consumer(job: Job, offset: int) -> Consumer:
    consumer = Consumer({"bootstrap.servers": job.bootstrap, **CONSUMER})
    consumer.list_topics(job.topic, timeout=DEADLINE_S)
    consumer.assign([TopicPartition(job.topic, number, offset) for number in range(job.partitions)])
    return consumer


def _take(consumer: Consumer, job: Job) -> Took:
    """The clock runs from the first message, which a connection and a look-up may have preceded."""
    _checked([consumer.poll(DEADLINE_S)])
    started = time.perf_counter()
    deadline = started + DEADLINE_S
    left = job.messages
    while left:
        left -= _checked(consumer.consume(min(left, TAKEN_AT_ONCE), timeout=1))
        if time.perf_counter() > deadline:
            raise RuntimeError(f"{left} messages have not come")
    seconds = time.perf_counter() - started
    consumer.close()
    return Took(seconds, [])


def _checked(messages: list[Any]) -> int:
    for message in messages:
        if message is None or message.error() is not None:
            raise RuntimeError(f"no message, but {message and message.error()}")
    return len(messages)


JOBS: Mapping[str, Callable[[Job], Took]] = {
    "produce": produce,
    "produce_singly": produce_singly,
    "consume": consume,
    "consume_new": consume_new,
}

if __name__ == "__main__":
    given = Job(**json.loads(sys.argv[1]))
    print(json.dumps(asdict(JOBS[given.do](given))))
