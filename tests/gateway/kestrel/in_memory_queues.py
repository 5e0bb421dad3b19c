"""The queues without sockets: a real broker on a directory, and a reactor that is turned by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from barbicel.codecs.kafka.produced_batch import check_batch
from barbicel.config.queue_tables import QueueTables
from barbicel.config.settings import Config
from barbicel.disk import Disk, RealDisk
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.broker.partition import Produced
from barbicel.gateway.kestrel.queue import Queue
from barbicel.gateway.kestrel.queues import Queues, Waiting
from barbicel.gateway.kestrel.session import Session
from barbicel.gateway.kestrel.upkeep import Upkeep
from tests.gateway.kafka.in_memory import NOW_MS, HandReactor, untyped

__all__ = ["Asked", "InMemoryQueues", "in_memory_queues"]


class Asked:
    """A request for an item, and its answer if there is one."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.waiting: Waiting | None = None

    @property
    def data(self) -> bytes | None:
        assert len(self.answers) == 1, self.answers
        answer = self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return None if answer is None else bytes(answer.data)


class InMemoryQueues:
    """Every method waits for the answer, but for `ask`."""

    def __init__(self, data: Path, disk: Disk, now_ms: int, settings: Mapping[str, Any]) -> None:
        self.reactor = untyped(HandReactor())
        self.now_ms = now_ms
        self.config = Config(
            **{"data_directory": str(data), "durability": "write", "writer_shards": 1, **settings}
        )
        self.broker = Broker.open(disk, self.config, self.reactor, lambda: self.now_ms, lambda: self.now_ms)
        self.broker.start()
        self.queues = Queues(self.broker, self.config)
        self.upkeep = Upkeep(self.queues)
        self.session = Session()

    def rules(self, default: Mapping[str, Any] | None = None, **queues: Mapping[str, Any]) -> None:
        """The settings of queues, by their fields; 'plus' in a name stands for '+'."""
        named = {name.replace("plus", "+"): rules for name, rules in queues.items()}
        tables = QueueTables(default=default or {}, queues=named)
        self.queues.reload(replace(self.config, kestrel_queues=tables))

    def open_all(self) -> None:
        """As the server does after a start."""
        self.queues.open_all()
        self.quiesce()

    def quiesce(self) -> None:
        """Until nothing is under way any more, items that move to other queues included."""
        queues = self.queues
        self.reactor.until(
            lambda: (
                not queues._opening._steps
                and not queues.turns._touched
                and not queues.turns._is_writing
                and not self._has_calls_at_once
                and not any(self._is_busy(queue) for queue in queues.open_queues())
            )
        )

    @property
    def _has_calls_at_once(self) -> bool:
        now = self.reactor.seconds()
        return any(call.getTime() <= now for call in self.reactor.getDelayedCalls())

    def _is_busy(self, queue: Queue) -> bool:
        return (
            queue.is_counting
            or queue.has_puts_under_way
            or any(reader._is_filling for reader in queue.readers.values())
        )

    # --- what clients do ----------------------------------------------------------------------------

    def put(self, name: str, data: bytes, flags: int = 0, expiry_ms: int | None = None) -> bool:
        answers: list[bool | Exception] = []
        self.queues.put(name, data, flags, expiry_ms, answers.append)
        return bool(self._only(answers))

    def ask(
        self,
        name: str,
        *,
        is_open: bool = False,
        timeout_ms: int | None = None,
        session: Session | None = None,
        is_peek: bool = False,
    ) -> Asked:
        asked = Asked()
        if is_peek:
            asked.waiting = self.queues.peek(name, timeout_ms, asked.answers.append)
        else:
            asked.waiting = self.queues.take(
                session or self.session,
                name,
                is_open=is_open,
                timeout_ms=timeout_ms,
                done=asked.answers.append,
            )
        return asked

    def get(self, name: str, *, is_open: bool = False, session: Session | None = None) -> bytes | None:
        asked = self.ask(name, is_open=is_open, session=session)
        self.reactor.until(lambda: asked.answers)
        return asked.data

    def await_item(self, name: str) -> bytes | None:
        """Something that is on its way."""
        asked = self.ask(name, timeout_ms=1000, session=Session())
        self.reactor.until(lambda: asked.answers)
        return asked.data

    def get_all(self, name: str) -> list[bytes]:
        found = []
        while (data := self.get(name)) is not None:
            found.append(data)
        return found

    def peek(self, name: str) -> bytes | None:
        asked = self.ask(name, is_peek=True)
        self.reactor.until(lambda: asked.answers)
        return asked.data

    def close(self, name: str, count: int = 1, session: Session | None = None) -> int:
        closed = self.queues.close_oldest(session or self.session, name, count)
        self.settle()
        return closed

    def abort(self, name: str, session: Session | None = None) -> bool:
        aborted = self.queues.abort_oldest(session or self.session, name)
        self.settle()
        return aborted

    def disconnect(self, session: Session | None = None) -> None:
        self.queues.end(session or self.session)
        self.settle()

    def flush(self, name: str) -> None:
        self._wait_for(lambda done: self.queues.flush(name, done))

    def delete(self, name: str) -> None:
        self._wait_for(lambda done: self.queues.delete(name, done))

    def flush_expired(self, name: str) -> int:
        answers: list[Any] = []
        self.queues.flush_expired(name, answers.append)
        return int(self._only(answers))

    def settle(self) -> None:
        self._wait_for(self.queues.settled)

    def produce(self, topic: str, data: bytes) -> None:
        """As Kafka's Produce does."""
        partition = self.broker.topics.partition(topic, 0)
        assert partition is not None
        answers: list[Produced] = []
        checked = check_batch(memoryview(bytearray(data)), 1 << 20)
        partition.produce(checked, self.broker.append, answers.append)
        self.reactor.until(lambda: answers)
        assert answers[0].error_code == 0

    def _wait_for(self, act: Any) -> None:
        answers: list[Exception | None] = []
        act(answers.append)
        self._only(answers)

    def _only(self, answers: list[Any]) -> Any:
        self.reactor.until(lambda: answers)
        assert len(answers) == 1
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]

    def stats(self, name: str) -> Any:
        """After everything that was appended is counted."""
        queue = self.queues.by_master(name.partition("+")[0])
        assert queue is not None
        self.reactor.until(lambda: not queue.is_counting)
        return self.queues.queue_stats(name)

    def advance(self, ms: int) -> None:
        """Time passes for everybody."""
        self.now_ms += ms
        self.reactor.advance(ms / 1000)


@contextmanager
def in_memory_queues(
    directory: Path, disk: Disk | None = None, now_ms: int = NOW_MS, **settings: Any
) -> Iterator[InMemoryQueues]:
    queues = InMemoryQueues(directory, disk or RealDisk(), now_ms, settings)
    try:
        yield queues
    finally:
        queues.broker.close()
