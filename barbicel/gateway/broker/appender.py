"""The way of appends to the writers' threads and back into the reactor's, one hand-over a group.

Partitions are spread over writers (shards), each of which commits in groups. A writer's queue is bounded:
what finds it full waits here, in order, and its client is not read from meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias
from zlib import crc32

from barbicel.errors import BarbicelError, QueueFull
from barbicel.gateway.twisted_types import Reactor
from barbicel.keratin import Ack, Appended, Log, NewRecord, Writer, WriterSettings
from barbicel.keratin.writer import Answer, answer_here

__all__ = ["Appender"]

Done: TypeAlias = Callable[[Appended | Exception], None]


class _Waiting(NamedTuple):
    log: Log
    record: NewRecord
    done: Done


class _Shard:
    def __init__(self, appender: Appender, settings: WriterSettings) -> None:
        self.writer = Writer(settings, deliver=appender.deliver)
        self.waiting: deque[_Waiting] = deque()


class Appender:
    """Reactor thread only, but for `deliver`."""

    def __init__(
        self,
        reactor: Reactor,
        ack: Ack,
        settings: WriterSettings,
        shards: int,
        after_turn: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._ack = ack
        self._after_turn = after_turn
        self._shards = [_Shard(self, settings) for _ in range(shards)]

    def append(self, log: Log, record: NewRecord, done: Done) -> None:
        """Never waits. `done` is called in the reactor's thread, after this returns or before."""
        shard = self._shards[crc32(log.path.encode()) % len(self._shards)]
        if not shard.waiting and self._submit(shard, log, record, done):
            return
        try:
            # Refused now or never: a later batch of the same producer counts on this one.
            log.check((record,))
        except BarbicelError as error:
            done(error)
        else:
            shard.waiting.append(_Waiting(log, record, done))

    def _submit(self, shard: _Shard, log: Log, record: NewRecord, done: Done) -> bool:
        try:
            shard.writer.submit(log, (record,), done, self._ack, wait=False)
        except QueueFull:
            return False
        except BarbicelError as error:
            done(error)
        return True

    def deliver(self, answers: Sequence[Answer]) -> None:
        """In a writer's thread: all answers of a group go over together."""
        self._reactor.callFromThread(self._answer, answers)

    def _answer(self, answers: Sequence[Answer]) -> None:
        answer_here(answers)
        for shard in self._shards:
            while shard.waiting and self._submit(shard, *shard.waiting[0]):
                shard.waiting.popleft()
        self._after_turn()

    def close(self) -> None:
        """Commit what the writers have. Waits for the disk; the answers come when the reactor runs.

        What never got to a writer was never answered, and is forgotten.
        """
        for shard in self._shards:
            shard.waiting.clear()
            shard.writer.close()
