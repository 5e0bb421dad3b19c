"""Partitions that a full disk kept from being recovered at the start: they are opened for writing later.

Until then they are read. It is tried before each round of retention and before records are deleted, which is
how room is made; and for those who produce, every few seconds at most. The block that is kept for deletions
is given up for it: what a recovery writes replaces something, so there is a block to keep again.

For the reactor's thread. The logs are recovered in the thread that opens and closes all others, one at a time
and changes of topics in between, so none is closed meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from twisted.internet.defer import Deferred

from barbicel.clock import Clock
from barbicel.errors import BarbicelError, LogClosed, LogStopped
from barbicel.gateway.broker.catalogue import Catalogue
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.broker.worker import Worker
from barbicel.gateway.log_pace import LogPace
from barbicel.keratin.passing import is_full

__all__ = ["Reopening"]

_log = logging.getLogger(__name__)


class Opener(Protocol):
    def reopen(self, partition: Partition, /) -> None:
        """Waits for the disk. Raises BarbicelError; then the partition is as it was."""


class Reopening:
    def __init__(self, opener: Opener, catalogue: Catalogue, worker: Worker, clock: Clock) -> None:
        self._opener = opener
        self._catalogue = catalogue
        self._worker = worker
        self.waiting: list[Partition] = []
        self._pace = LogPace(clock)
        # Who waits for the round that is under way.
        self._round: list[Deferred[None]] | None = None

    def add(self, partitions: Sequence[Partition]) -> None:
        """At the start: those of them that wait for room."""
        for partition in partitions:
            if not partition.is_offline and partition.log.is_read_only:
                partition.ask_for_room = self._asked
                self.waiting.append(partition)

    def _asked(self) -> None:
        if self._round is None and self._pace.is_due():
            self.try_all()

    def try_all(self) -> Deferred[None]:
        """Fires when each that waits is open, or was tried. Never fails."""
        done: Deferred[None] = Deferred()
        if self._round is not None:
            self._round.append(done)
        elif not self.waiting:
            done.callback(None)
        else:
            self._round = [done]
            Deferred.fromCoroutine(self._try_each())
        return done

    async def _try_each(self) -> None:
        for partition in list(self.waiting):
            try:
                is_settled = await self._worker.run(partial(self._try, partition))
            except Exception as error:
                _log.error("a log was not opened for writing", exc_info=error)
                continue
            if is_settled:
                partition.ask_for_room = None
                self.waiting.remove(partition)
        ended, self._round = self._round or [], None
        for done in ended:
            done.callback(None)

    def _try(self, partition: Partition) -> bool:
        """Whether it need not be tried again. In the worker's thread."""
        try:
            self._reopen(partition)
        except LogClosed:  # its topic was deleted
            return True
        except BarbicelError as error:
            if not is_full(error):
                _log.error("%s-%d takes no writes: %s", partition.topic.name, partition.number, error)
            return isinstance(error, LogStopped)  # then only a restart looks at it anew
        return True

    def _reopen(self, partition: Partition) -> None:
        try:
            self._opener.reopen(partition)
        except BarbicelError as error:
            if not is_full(error):
                raise
            with self._catalogue.spare_given_up():
                self._opener.reopen(partition)
