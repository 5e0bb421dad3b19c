"""What is looked at all the time, so that whoever asks is answered at once: lag, disk, memory, traffic.

The lag of the reactor is how much later than asked for a timer is called: as long as that waits everybody.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure

from barbicel.disk import Disk, Space
from barbicel.errors import BarbicelError
from barbicel.gateway.admin.history import History, Totals
from barbicel.gateway.admin.turns import in_turns
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.stroma import GroupFileSizes

__all__ = ["Looked", "Pulse", "Stored"]

_log = logging.getLogger(__name__)

BEAT_SECONDS = 0.5
# Every so many beats the disk and the traffic are looked at.
BEATS_A_SAMPLE = 4
# The highest lag of the last 30 seconds is told.
LAGS = 60
MEMORY_FILE = "/proc/self/statm"
PAGE_BYTES = 4096


class Looked(NamedTuple):
    """What has to be asked in a thread. None is what the system does not say."""

    space: Space | None = None
    memory_bytes: int | None = None
    # Groups that could not be written, and since when something waits to be synced.
    failed_groups: tuple[str, ...] = ()
    sync_lag_ms: int = 0
    group_files: GroupFileSizes = GroupFileSizes()


class Stored(NamedTuple):
    """Of all topics."""

    messages: int = 0
    size_bytes: int = 0
    tail_bytes: int = 0
    unsynced_offsets: int = 0
    unsynced_bytes: int = 0


class Pulse:
    """`start` and `stop` it in the reactor's thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._seconds = broker.reactor.seconds
        self._loop = LoopingCall(self._beat)
        self._loop.clock = broker.reactor  # type: ignore[assignment]  # of an interface that is no type
        self._due_s = 0.0
        self._beats = 0
        self._is_sampling = False
        self._lags: deque[float] = deque(maxlen=LAGS)
        self.history = History()
        self.looked = Looked()
        self.stored = Stored()
        # Called in the reactor's thread after each look.
        self.after_look: Callable[[], None] = lambda: None

    @property
    def max_lag_s(self) -> float:
        return max(self._lags, default=0.0)

    def start(self) -> None:
        self._due_s = self._seconds()
        self._loop.start(BEAT_SECONDS, now=True)

    def stop(self) -> None:
        if self._loop.running:
            self._loop.stop()

    def _beat(self) -> None:
        now_s = self._seconds()
        self._lags.append(max(0.0, now_s - self._due_s))
        self._due_s = now_s + BEAT_SECONDS
        if self._beats % BEATS_A_SAMPLE == 0 and not self._is_sampling:
            self._is_sampling = True
            Deferred.fromCoroutine(self._sample()).addBoth(self._sampled)
        self._beats += 1

    async def _sample(self) -> None:
        broker = self._broker
        rows = await in_turns(broker.reactor, map(_look_at_topic, list(broker.topics)))
        self.history.note(broker.clock(), {name: totals for name, totals, _ in rows})
        self.stored = Stored(*map(sum, zip(*(stored for _, _, stored in rows), strict=True)))
        self.looked = await broker.read_cold(lambda: _look(broker))
        self.after_look()

    def _sampled(self, outcome: object) -> None:
        self._is_sampling = False
        if isinstance(outcome, Failure):
            _log.error("what the server does could not be looked at", exc_info=outcome.value)


def _look_at_topic(topic: OpenTopic) -> tuple[str, Totals, Stored]:
    """What is offline has no end and no bytes."""
    online = [partition for partition in topic.partitions if not partition.is_offline]
    totals = Totals(
        sum([partition.end_offset for partition in online]),
        sum([partition.appended_bytes for partition in online]),
        sum([partition.fetched_bytes for partition in online]),
    )
    stored = Stored(
        totals.messages_in - sum([partition.start_offset for partition in online]),
        sum([partition.log.size_bytes for partition in online]),
        sum([partition.tail.held_bytes for partition in online]),
        sum([partition.log.unsynced_offsets for partition in online]),
        sum([partition.log.unsynced_bytes for partition in online]),
    )
    return topic.name, totals, stored


def _look(broker: Broker) -> Looked:
    """In a thread: all of it waits, for the disk or for whoever writes groups."""
    store = broker.offsets.store
    failed = tuple(f"{key.group} in {key.topic}-{key.partition}" for key in store.failures)
    return Looked(
        _space(broker.disk, broker.data_directory),
        _memory_bytes(broker.disk),
        failed,
        store.sync_lag_ms,
        store.file_sizes(),
    )


def _space(disk: Disk, path: str) -> Space | None:
    try:
        return disk.space(path)
    except BarbicelError as error:
        _log.warning("how much room the disk has is not known: %s", error)
        return None


def _memory_bytes(disk: Disk) -> int | None:
    """What the process has in memory, where the system says so."""
    try:
        file = disk.open(MEMORY_FILE, "read")
    except BarbicelError:
        return None
    try:
        return int(file.pread(256, 0).split()[1]) * PAGE_BYTES
    finally:
        file.close()
