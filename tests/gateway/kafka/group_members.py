"""A consumer of each client library as a member of a group, all with the same few methods."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from confluent_kafka import Consumer
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.range import (
    RangePartitionAssignor as PythonRangePartitionAssignor,
)

__all__ = [
    "MEMBERS",
    "AioMember",
    "ConfluentMember",
    "Member",
    "PythonMember",
    "poll_until",
]

SESSION_MS = 6_000
HEARTBEAT_MS = 100
POLL_S = 0.05
LONG_POLL_MS = 2_000
DEADLINE_S = 40.0


class Member(Protocol):
    """Polls are short: members of one group take turns in one thread."""

    values: list[bytes]

    def poll(self) -> None: ...

    def assigned(self) -> set[int]: ...

    def close(self) -> None: ...


def poll_until(is_reached: Callable[[], bool], *members: Member) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_reached():
        assert time.monotonic() < deadline, [member.assigned() for member in members]
        for member in members:
            member.poll()


class _Assignment(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """What kafka-python was last given."""

    def __init__(self) -> None:
        self.partitions: set[int] = set()

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.partitions = set()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.partitions = {place.partition for place in assigned}


class PythonMember:
    """In a thread of its own: kafka-python may forget a join that is answered between two short polls."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.values: list[bytes] = []
        self._assignment = _Assignment()
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=[PythonRangePartitionAssignor],
        )
        self._consumer.subscribe([topic], listener=self._assignment)
        self._closing = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._consume, daemon=True)
        self._thread.start()

    def _consume(self) -> None:
        try:
            while not self._closing.is_set():
                for records in self._consumer.poll(timeout_ms=LONG_POLL_MS).values():
                    self.values += [record.value for record in records]
            self._consumer.close()
        except Exception as failure:
            self._failure = failure

    def poll(self) -> None:
        self._thread.join(POLL_S)
        if self._failure is not None:
            raise self._failure

    def assigned(self) -> set[int]:
        return self._assignment.partitions

    def close(self) -> None:
        self._closing.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure


class ConfluentMember:
    def __init__(self, bootstrap: str, group: str, topic: str, **settings: str | int) -> None:
        self.values: list[bytes] = []
        self.rebalances = 0
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "partition.assignment.strategy": "range",
                **settings,
            }
        )
        self.consumer.subscribe([topic], on_assign=self._count, on_revoke=self._count)

    def _count(self, *_: object) -> None:
        self.rebalances += 1

    def poll(self) -> None:
        message = self.consumer.poll(POLL_S)
        while message is not None:
            error = message.error()
            assert error is None or error.retriable(), error
            if error is None:
                value = message.value()
                assert isinstance(value, bytes)
                self.values.append(value)
            message = self.consumer.poll(0)

    def assigned(self) -> set[int]:
        return {place.partition for place in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


class AioMember:
    """It goes on while any member on the loop is polled, also with joining, which `start` waits for."""

    loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.values: list[bytes] = []
        self._run(self._begin(bootstrap, group, topic))

    async def _begin(self, bootstrap: str, group: str, topic: str) -> None:
        self.consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        self._started = asyncio.ensure_future(self.consumer.start())

    def _run(self, coroutine: Any) -> Any:
        if AioMember.loop is None:
            AioMember.loop = asyncio.new_event_loop()
        return AioMember.loop.run_until_complete(coroutine)

    def poll(self) -> None:
        if not self._started.done():
            self._run(asyncio.wait([self._started], timeout=POLL_S))
            return
        self._started.result()
        for records in self._run(self.consumer.getmany(timeout_ms=int(POLL_S * 1000))).values():
            self.values += [record.value for record in records]

    def assigned(self) -> set[int]:
        return {place.partition for place in self.consumer.assignment()}

    def close(self) -> None:
        self._started.cancel()
        self._run(asyncio.wait([self._started]))
        self._run(self.consumer.stop())


MEMBERS: Mapping[str, Callable[[str, str, str], Member]] = {
    "kafka-python": PythonMember,
    "confluent-kafka": ConfluentMember,
    "aiokafka": AioMember,
}
