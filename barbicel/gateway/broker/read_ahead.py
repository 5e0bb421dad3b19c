"""Reading ahead for whoever reads a log from the disk, one stretch after the other.

A client that has an answer thinks about it before it asks for what follows. Meanwhile that is read, so that
the next fetch finds it in memory and has to wait for no thread. It begins with the second fetch that goes on
where one has ended. A read is for two fetches, where there is room, and the next one begins when the first
of them was answered: a thread costs more than reading does. What two fetches leave of it goes into the third,
with what was read behind it: an answer with one batch takes a client as long as one with many. There is never
more of it than the budget; what nobody comes for gives way to the next. Reactor thread only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from barbicel.codecs.kafka.record_batch import end_offset_of
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.broker.stored import RECORD_FRAME_BYTES, fitting
from barbicel.gateway.twisted_types import Reactor

__all__ = ["ReadAhead"]

Pieces: TypeAlias = list[memoryview]
Place: TypeAlias = tuple[Partition, int]
Read: TypeAlias = Callable[[Callable[[], Pieces]], Deferred[Pieces]]

BUDGET_BYTES = 8 << 20
# It costs more than it gains for whoever asks for less at a time, and whoever asks for more is not slowed
# down by the time between two fetches.
STRETCH_BYTES_MIN = 64 << 10
STRETCH_BYTES_MAX = 2 << 20
# For one more fetch than the next, if nothing has to give way for it.
RUN_BYTES_MAX = 2 << 20
# At a time: others read the disk too.
READS_MAX = 2
# Fetches of which it is known where they have ended.
ENDS_MAX = 256


@dataclass(slots=True)
class _Ahead:
    """What is read, or was. `pieces` is None until it is there."""

    # Of the buffer that it is read into: as long as one piece of it is held, all of it is.
    held_bytes: int
    pieces: Pieces | None = None
    # Of the pieces together.
    size_bytes: int = 0
    waiting: list[Deferred[None]] = field(default_factory=list)


class ReadAhead:
    def __init__(self, reactor: Reactor, read: Read, budget_bytes: int = BUDGET_BYTES) -> None:
        """`read` calls a function that waits for the disk, in a thread."""
        self._reactor = reactor
        self._read = read
        self._budget_bytes = budget_bytes
        self._held_bytes = self._reads = 0
        self._ahead: OrderedDict[Place, _Ahead] = OrderedDict()
        self._ends: OrderedDict[Place, None] = OrderedDict()

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def take(self, partition: Partition, offset: int, max_bytes: int, *, at_least_one: bool) -> Pieces:
        """Whole batches from the offset on, as many as may be had of what was read."""
        taken = self._take_one((partition, offset), max_bytes, at_least_one)
        found = taken
        while found:
            max_bytes -= _size(found)
            found = self._take_one((partition, end_offset_of(found[-1])), max_bytes, at_least_one=False)
            if found:
                taken = taken + found
        return taken

    def _take_one(self, place: Place, max_bytes: int, at_least_one: bool) -> Pieces:
        """Of what was read together."""
        ahead = self._ahead.get(place)
        if ahead is None or ahead.pieces is None:
            return []
        if ahead.size_bytes <= max_bytes:
            return self._drop(place).pieces or []
        if len(ahead.pieces[0]) > max_bytes and not at_least_one:
            return []
        count, room_bytes = fitting(ahead.pieces, max_bytes, at_least_one=at_least_one)
        taken, left = ahead.pieces[:count], ahead.pieces[count:]
        self._drop(place)
        rest = place[0], end_offset_of(taken[-1])
        # Another reader may be there already.
        if left and rest not in self._ahead:
            left_bytes = ahead.size_bytes - (max_bytes - room_bytes)
            self._hold(rest, _Ahead(ahead.held_bytes, left, left_bytes))
        return taken

    def is_coming(self, partition: Partition, offset: int) -> bool:
        """It is being read just now."""
        ahead = self._ahead.get((partition, offset))
        return ahead is not None and ahead.pieces is None

    def coming(self, partition: Partition, offset: int) -> Deferred[None]:
        """Of what is coming: fires when it is there, or cannot be had."""
        waiting: Deferred[None] = Deferred()
        self._ahead[partition, offset].waiting.append(waiting)
        return waiting

    def follow(self, partition: Partition, offset: int, pieces: Pieces, max_bytes: int) -> None:
        """A fetch from this offset on is answered with these, from the disk; its limit was so much."""
        if not pieces:
            return
        end_offset = end_offset_of(pieces[-1])
        goes_on = (partition, offset) in self._ends
        self._ends.pop((partition, offset), None)
        self._ends[partition, end_offset] = None
        if len(self._ends) > ENDS_MAX:
            self._ends.popitem(last=False)
        if goes_on and STRETCH_BYTES_MIN <= max_bytes <= STRETCH_BYTES_MAX:
            # The answer goes first.
            self._reactor.callLater(0, partial(self._begin, partition, end_offset, max_bytes))

    def _begin(self, partition: Partition, offset: int, max_bytes: int) -> None:
        """Read from there on, or behind what was read already, unless much of that is for the fetch after the
        next."""
        place = partition, offset
        ahead = self._ahead.get(place)
        if ahead is not None and ahead.pieces is not None and 2 * ahead.size_bytes <= 3 * max_bytes:
            place = partition, end_offset_of(ahead.pieces[-1])
        run_bytes = self._run_bytes(max_bytes)
        held_bytes = run_bytes + RECORD_FRAME_BYTES
        if place in self._ahead or not _is_on_disk(*place) or not self._has_room(held_bytes):
            return
        self._hold(place, _Ahead(held_bytes))
        self._reads += 1
        read = partial(partition.stored.read, place[1], partition.end_offset, run_bytes, at_least_one=False)
        self._read(read).addCallbacks(self._came, self._failed, callbackArgs=(place,), errbackArgs=(place,))

    def _run_bytes(self, max_bytes: int) -> int:
        run_bytes = max(max_bytes, min(2 * max_bytes, RUN_BYTES_MAX))
        has_room = self._held_bytes + run_bytes + RECORD_FRAME_BYTES <= self._budget_bytes
        return run_bytes if has_room else max_bytes

    def _has_room(self, size: int) -> bool:
        """After what was read first and nobody came for has gone."""
        if self._reads >= READS_MAX:
            return False
        while self._ahead and self._held_bytes + size > self._budget_bytes:
            oldest = next(iter(self._ahead))
            if self._ahead[oldest].pieces is None:
                return False
            self._drop(oldest)
        return self._held_bytes + size <= self._budget_bytes

    def _came(self, pieces: Pieces, place: Place) -> None:
        self._reads -= 1
        ahead = self._ahead[place]
        ahead.pieces, ahead.size_bytes = pieces, _size(pieces)
        if not pieces:  # a batch that is larger, or a repair has given up all that was there
            self._drop(place)
        _tell(ahead.waiting)

    def _failed(self, _: Failure, place: Place) -> None:
        """Whoever comes for it reads it for themselves, and is told what is wrong."""
        self._reads -= 1
        _tell(self._drop(place).waiting)

    def _hold(self, place: Place, ahead: _Ahead) -> None:
        self._ahead[place] = ahead
        self._held_bytes += ahead.held_bytes

    def _drop(self, place: Place) -> _Ahead:
        ahead = self._ahead.pop(place)
        self._held_bytes -= ahead.held_bytes
        return ahead


def _is_on_disk(partition: Partition, offset: int) -> bool:
    """And neither in memory, nor in the store, which reads ahead for itself."""
    return (
        partition.start_offset <= offset < partition.end_offset
        and not partition.is_in_tail(offset)
        and not partition.stored.is_remote(offset)
    )


def _size(pieces: Pieces) -> int:
    return sum(map(len, pieces))


def _tell(waiting: list[Deferred[None]]) -> None:
    for one in waiting:
        one.callback(None)
