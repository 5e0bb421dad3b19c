"""The newest batches of each partition, in memory: a consumer that keeps up never waits for the disk.

Bounded for one partition and for all together; what does not fit is read from the log. Reactor thread only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict

__all__ = ["Tail", "TailBudget"]

# The list of batches is cut anew when so many at its front were dropped.
COMPACT_AFTER = 1024
# A batch is a part of the request that it came in. The whole request stays in memory for as long as the
# batch does, so one that is less than half of it is copied.
WHOLE_IN_PARTS = 2


class TailBudget:
    """What all tails may hold together; the one that was not appended to for longest gives way first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # Only those that hold something.
        self._tails: OrderedDict[Tail, None] = OrderedDict()
        self.used_bytes = 0

    def note(self, tail: Tail, grown_bytes: int) -> None:
        """The tail was appended to, and holds so much more than before, or less."""
        self.used_bytes += grown_bytes
        self._tails[tail] = None
        self._tails.move_to_end(tail)
        if not tail.held_bytes:
            del self._tails[tail]
        while self.used_bytes > self._max_bytes:
            oldest = next(iter(self._tails))
            self.used_bytes -= oldest.drop_oldest()
            if not oldest.held_bytes:
                del self._tails[oldest]

    def forget(self, tail: Tail) -> None:
        if tail in self._tails:
            del self._tails[tail]
            self.used_bytes -= tail.held_bytes


class Tail:
    """Batches without a gap up to `end_offset`. An offset inside of a batch leads to the whole batch."""

    def __init__(self, budget: TailBudget, max_bytes: int, end_offset: int) -> None:
        self._budget = budget
        self._max_bytes = max_bytes
        self._ends: list[int] = []
        self._batches: list[memoryview] = []
        self._first = 0
        self.held_bytes = 0
        self.start_offset = self.end_offset = end_offset

    def append(self, base_offset: int, end_offset: int, batch: memoryview) -> None:
        if base_offset != self.end_offset:  # something is missing between what is here and what comes
            self.clear(base_offset)
        before = self.held_bytes
        if len(batch) > self._max_bytes:
            self.clear(end_offset)
            return
        self._ends.append(end_offset)
        self._batches.append(_alone(batch))
        self.end_offset = end_offset
        self.held_bytes += len(batch)
        while self.held_bytes > self._max_bytes:
            self.drop_oldest()
        self._budget.note(self, self.held_bytes - before)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview] | None:
        """The batches from the one that has the offset on, as many as fit; None if it is not here."""
        if not self.start_offset <= offset <= self.end_offset:
            return None
        number = bisect_right(self._ends, offset, self._first)
        found: list[memoryview] = []
        left = max_bytes
        while number < len(self._batches):
            batch = self._batches[number]
            left -= len(batch)
            if left < 0 and (found or not at_least_one):
                break
            found.append(batch)
            number += 1
        return found

    def drop_oldest(self) -> int:
        """How many bytes that gave back."""
        size = len(self._batches[self._first])
        self.start_offset = self._ends[self._first]
        self._batches[self._first] = memoryview(b"")
        self._first += 1
        self.held_bytes -= size
        if self._first >= COMPACT_AFTER or self._first == len(self._ends):
            del self._ends[: self._first], self._batches[: self._first]
            self._first = 0
        return size

    def clear(self, offset: int) -> None:
        """Hold nothing, and go on at the offset."""
        self._budget.forget(self)
        self._ends, self._batches, self._first, self.held_bytes = [], [], 0, 0
        self.start_offset = self.end_offset = offset


def _alone(batch: memoryview) -> memoryview:
    whole = batch.obj
    if isinstance(whole, bytes | bytearray) and len(whole) > WHOLE_IN_PARTS * len(batch):
        return memoryview(bytes(batch))
    return batch
