"""What happens to queues by themselves: old items expire, old queues go, storage is given back.

A round looks at every open queue, again and again; what waits for the disk is done in threads.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import LoopingCall

from barbicel.errors import BarbicelError, LogClosed
from barbicel.gateway.broker.stored import Stored
from barbicel.gateway.kestrel.line_reader import LineReader
from barbicel.gateway.kestrel.opening import PARTITION
from barbicel.gateway.kestrel.queue import Queue
from barbicel.gateway.kestrel.queues import Queues
from barbicel.kestrel_compat.names import MAIN_GROUP

__all__ = ["Upkeep"]

_log = logging.getLogger(__name__)

ROUND_SECONDS = 1.0
# What was read ahead for a queue that nobody asks goes after this time.
IDLE_MS = 60_000


class Upkeep:
    """`start` and `stop` it in the reactor's thread."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._trimming = LoopingCall(self._trim_all)
        self._expiring = LoopingCall(self._expire_all)

    def start(self) -> None:
        rounds = [(self._trimming, ROUND_SECONDS)]
        frequency_ms = self._queues.settings.kestrel_expiration_timer_frequency_ms
        if frequency_ms:
            rounds.append((self._expiring, frequency_ms / 1000))
        for loop, seconds in rounds:
            loop.clock = self._queues.reactor  # type: ignore[assignment]  # of an interface that is no type
            loop.start(seconds, now=False)

    def stop(self) -> None:
        for loop in (self._trimming, self._expiring):
            if loop.running:
                loop.stop()

    # --- expiring -----------------------------------------------------------------------------------

    def _expire_all(self) -> None:
        now_ms = self._queues.broker.clock()
        for queue in self._queues.open_queues():
            for reader in list(queue.readers.values()):
                reader.sweep()
                if self._is_too_old(reader, now_ms):
                    self._queues.counters.queue_expires += 1
                    self._queues.delete(reader.name, lambda error: _tell(error))

    def _is_too_old(self, reader: LineReader, now_ms: int) -> bool:
        max_age_ms = reader.settings.max_queue_age_ms
        return (
            max_age_ms is not None
            and now_ms - reader.begun_ms > max_age_ms
            # Not by its count, which may not be known yet; and not while something is put, open or moved.
            and reader.line.frontier >= reader.partition.end_offset
            and not reader.queue.has_puts_under_way
            and not reader.waiters
            # The queue of a topic that Kafka made stays when it is deleted, and would be deleted every time.
            and (reader.queue.is_queue_topic or reader.key.group != MAIN_GROUP)
        )

    # --- giving back ----------------------------------------------------------------------------------

    @inlineCallbacks
    def _trim_all(self) -> Generator[Deferred[Any], Any, None]:
        now_ms = self._queues.broker.clock()
        for queue in self._queues.open_queues():
            for reader in queue.readers.values():
                reader.take_back(now_ms)
                reader.rest(now_ms, IDLE_MS)
            stored = queue.partition.stored
            has_segments = stored.log.segments or stored.tiered is not None
            if queue.is_queue_topic and has_segments and not queue.is_dropped:
                try:
                    yield self._trim(queue)
                except BarbicelError as error:
                    _log.warning("storage of %s could not be given back: %s", queue.master, error)

    @inlineCallbacks
    def _trim(self, queue: Queue) -> Generator[Deferred[Any], Any, None]:
        """Drop the segments that every group is past, Kafka's consumer groups among them."""
        lowest = yield self._queues.groups.lowest_frontier((queue.topic, PARTITION))
        log = queue.partition.log
        if lowest is None and self._queues.settings_of(queue.master).fanout_only:
            lowest = log.end_offset
        if lowest is None:  # nobody has begun to read
            return
        passed = [segment.last_offset + 1 for segment in log.segments if segment.last_offset < lowest]
        # Without one on the disk, those in the object store, where all is below the log's start.
        boundary = passed[-1] if passed else min(lowest, log.start_offset)
        if boundary > queue.partition.start_offset:
            yield self._queues.broker.read_cold(partial(_drop, queue.partition.stored, boundary))


def _drop(stored: Stored, offset: int) -> None:
    try:
        stored.drop_before(offset)
    except LogClosed:
        return  # its topic was deleted meanwhile


def _tell(error: Exception | None) -> None:
    if error is not None:
        _log.warning("an old queue could not be deleted: %s", error)
