"""The way of appends to the writers' threads and back into the reactor's, one hand-over a group.

Partitions are spread over writers (shards), each of which commits in groups. A writer's queue is bounded:
what finds it full waits here, in order, and its client is not read from meanwhile.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from barbicel.errors import BarbicelError, QueueFull
from barbicel.gateway.event_loop import call_before_sleep
from barbicel.gateway.twisted_types import Reactor
from barbicel.keratin import Ack, Appended, Log, NewRecord, Writer, WriterSettings
from barbicel.keratin.writer import Answer, answer_here

__all__ = ["Appender"]

_log = logging.getLogger(__name__)

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
        # Those that have something to write since the reactor has slept; else they are woken at once.
        self._unwoken: set[_Shard] = set()
        # Groups that the writers have committed, to be answered here.
        self._delivered: deque[Sequence[Answer]] = deque()
        self._is_called_before_sleep = call_before_sleep(reactor, self._end_turn)
        # While a group of several appends is answered: who is called when all of them are.
        self._then: dict[Callable[[], None], None] | None = None

    def append(self, log: Log, record: NewRecord, done: Done) -> None:
        """Never waits. `done` is called in the reactor's thread, after this returns or before."""
        shard = self._shards[log.path_crc % len(self._shards)]
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
            shard.writer.submit(
                log, (record,), done, self._ack, wait=False, wake=not self._is_called_before_sleep
            )
            self._unwoken.add(shard)
        except QueueFull:
            return False
        except BarbicelError as error:
            done(error)
        return True

    def _end_turn(self) -> None:
        # Those that are here by now; whoever delivers another one wakes the loop.
        for _ in range(len(self._delivered)):
            try:
                self._answer(self._delivered.popleft())
            except BaseException:  # a fault of ours; the next group is answered all the same
                _log.exception("a group of appends could not be answered")
        if self._unwoken:
            for shard in self._unwoken:
                shard.writer.wake()
            self._unwoken.clear()

    def deliver(self, answers: Sequence[Answer]) -> None:
        """In a writer's thread: all answers of a group go over together. What other threads hand over may be
        heard before them, though it came later."""
        self._delivered.append(answers)
        if self._is_called_before_sleep:
            self._reactor.wakeUp()
        else:
            self._reactor.callFromThread(self._end_turn)

    def when_answered(self, call: Callable[[], None]) -> bool:
        """Whether it is called, once, when all appends are answered that are being answered now. If there is
        no other than this one, it is not."""
        if self._then is None:
            return False
        self._then[call] = None
        return True

    def _answer(self, answers: Sequence[Answer]) -> None:
        if len(answers) == 1:
            answer_here(answers)
        else:
            then: dict[Callable[[], None], None] = {}
            self._then = then
            answer_here(answers)
            self._then = None
            for call in then:
                _call(call)
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


def _call(call: Callable[[], None]) -> None:
    """One that raises keeps nobody from being called."""
    try:
        call()
    except BaseException:
        _log.exception("what follows a group of appends has failed")
