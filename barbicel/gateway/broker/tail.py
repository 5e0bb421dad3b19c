"""The newest batches of each partition, in memory: a consumer that keeps up never waits for the disk.

Bounded for one partition and for all together, in bytes of memory; what does not fit is read from the log.
Reactor thread only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from operator import attrgetter

from barbicel.gateway.broker.tail_block import TailBlock

__all__ = ["Tail", "TailBudget"]

# The list of blocks is cut anew when so many at its front were dropped.
COMPACT_AFTER = 1024
# Batches up to this size share a buffer, which has up to so many bytes.
SMALL_BYTES = 4 << 10
BLOCK_BYTES = 32 << 10
# Blocks are dropped whole. A tail is to hold something all the same, however little it may.
MIN_BLOCKS = 8


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
        self._blocks: list[TailBlock] = []
        self._first = 0
        # Where the next batch will be, in bytes since this was empty.
        self._end_position = 0
        # What it takes in memory, which is more than the batches have.
        self.held_bytes = 0
        self.start_offset = self.end_offset = end_offset

    def append(self, base_offset: int, end_offset: int, batch: memoryview) -> None:
        if base_offset != self.end_offset:  # something is missing between what is here and what comes
            self.clear(base_offset)
        before = self.held_bytes
        if len(batch) > self._max_bytes:
            self.clear(end_offset)
            return
        self._put(end_offset, batch)
        self.end_offset = end_offset
        self._end_position += len(batch)
        while self.held_bytes > self._max_bytes:
            self.drop_oldest()
        self._budget.note(self, self.held_bytes - before)

    def _put(self, end_offset: int, batch: memoryview) -> None:
        if len(batch) > SMALL_BYTES:
            block, cost_bytes = TailBlock.of_one(end_offset, batch, self._end_position), 0
        else:
            block = self._block_for(len(batch))
            cost_bytes = block.cost_bytes if len(block) else 0
            block.add(end_offset, batch)
        if not cost_bytes:
            self._blocks.append(block)
        self.held_bytes += block.cost_bytes - cost_bytes

    def _block_for(self, size: int) -> TailBlock:
        """The last one, or one that is not in the list yet."""
        if self._blocks and self._blocks[-1].room_bytes >= size:
            return self._blocks[-1]
        # No larger than what is here already: most partitions of many hold little.
        wanted = min(BLOCK_BYTES, self.held_bytes, self._max_bytes // MIN_BLOCKS)
        return TailBlock.empty(max(size, wanted), self._end_position)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview] | None:
        """The batches from the one that has the offset on, as many as fit; None if it is not here.

        Those that lie one behind the other are one piece.
        """
        if not self._has(offset):
            return None
        return [block.view(*span) for block, *span in self._spans(offset, max_bytes, at_least_one)]

    def read_batches(self, offset: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview] | None:
        """The same, each batch for itself."""
        if not self._has(offset):
            return None
        return [
            block.view(number, number + 1)
            for block, first, end in self._spans(offset, max_bytes, at_least_one)
            for number in range(first, end)
        ]

    def available_bytes(self, offset: int, max_bytes: int) -> int:
        """What is here from the offset on, up to a limit; or the first batch, if that is larger.

        It takes no longer the more there is: fetches that wait ask at each append.
        """
        place = self._place(offset)
        if place == len(self._blocks):
            return 0
        block = self._blocks[place]
        first = block.number_of(offset)
        start = block.position_of(first)
        first_bytes = block.position_of(first + 1) - start
        return min(self._end_position - block.base_position - start, max(max_bytes, first_bytes))

    def _has(self, offset: int) -> bool:
        return self.start_offset <= offset <= self.end_offset

    def _place(self, offset: int) -> int:
        return bisect_right(self._blocks, offset, self._first, key=_end_offset)

    def _spans(self, offset: int, max_bytes: int, at_least_one: bool) -> Iterator[tuple[TailBlock, int, int]]:
        """Of each block the first batch and the end."""
        left_bytes = max_bytes
        for place in range(self._place(offset), len(self._blocks)):
            block = self._blocks[place]
            first = block.number_of(offset)
            end = max(block.fitting(first, left_bytes), first + at_least_one)
            if end == first:
                return
            yield block, first, end
            if end < len(block):
                return
            left_bytes -= block.size_bytes - block.position_of(first)
            at_least_one = False

    def drop_oldest(self) -> int:
        """How many bytes that gave back."""
        block = self._blocks[self._first]
        self._blocks[self._first] = _DROPPED
        self.start_offset = block.end_offset
        self._first += 1
        self.held_bytes -= block.cost_bytes
        if self._first >= COMPACT_AFTER or self._first == len(self._blocks):
            del self._blocks[: self._first]
            self._first = 0
        return block.cost_bytes

    def clear(self, offset: int) -> None:
        """Hold nothing, and go on at the offset."""
        self._budget.forget(self)
        self._blocks, self._first, self._end_position, self.held_bytes = [], 0, 0, 0
        self.start_offset = self.end_offset = offset


_DROPPED = TailBlock.empty(0, 0)
_end_offset = attrgetter("end_offset")
