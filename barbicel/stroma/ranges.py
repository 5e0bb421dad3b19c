"""A set of offsets kept as ranges: what is dense costs nothing, what is scattered costs 16 bytes a range.

Invariant: ascending, never empty, never touching. The ranges lie in blocks of bounded length, so that a
change moves a few kilobytes at most, however many ranges there are.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

__all__ = ["Range", "RangeSet"]

BLOCK_RANGES = 512
END_OF_OFFSETS = 1 << 64


class Range(NamedTuple):
    start: int
    end: int  # exclusive


class _Block:
    """Up to twice BLOCK_RANGES ranges as two columns."""

    __slots__ = ("ends", "starts")

    def __init__(self, starts: array[int], ends: array[int]) -> None:
        self.starts = starts
        self.ends = ends


class RangeSet:
    """Offsets from 0 to 2^64-1."""

    __slots__ = ("_blocks", "_count", "_firsts", "covered")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._blocks: list[_Block] = []
        # The first start of each block, for finding the block.
        self._firsts: list[int] = []
        self._count = 0
        # How many offsets are in the set.
        self.covered = 0
        for start, end in ranges:
            self.add(start, end)

    @classmethod
    def of_sorted(cls, ranges: Sequence[tuple[int, int]]) -> RangeSet:
        """A set of ranges that keep the invariant already, without looking at them one by one."""
        fresh = cls()
        for first in range(0, len(ranges), BLOCK_RANGES):
            starts, ends = zip(*ranges[first : first + BLOCK_RANGES], strict=True)
            fresh._blocks.append(_Block(array("Q", starts), array("Q", ends)))
            fresh._firsts.append(starts[0])
            fresh.covered += sum(ends) - sum(starts)
        fresh._count = len(ranges)
        return fresh

    def __len__(self) -> int:
        """How many ranges there are."""
        return self._count

    def __iter__(self) -> Iterator[Range]:
        for block in self._blocks:
            yield from map(Range, block.starts, block.ends)

    def __contains__(self, offset: int) -> bool:
        found = self.range_at(offset)
        return found is not None

    @property
    def first(self) -> Range | None:
        return Range(self._blocks[0].starts[0], self._blocks[0].ends[0]) if self._blocks else None

    @property
    def last(self) -> Range | None:
        return Range(self._blocks[-1].starts[-1], self._blocks[-1].ends[-1]) if self._blocks else None

    def range_at(self, offset: int) -> Range | None:
        """The range that holds the offset."""
        place = self._floor(offset)
        if place is None:
            return None
        block, at = self._blocks[place[0]], place[1]
        return Range(block.starts[at], block.ends[at]) if offset < block.ends[at] else None

    def copy(self) -> RangeSet:
        fresh = RangeSet()
        fresh._blocks = [_Block(block.starts[:], block.ends[:]) for block in self._blocks]
        fresh._firsts = self._firsts[:]
        fresh._count, fresh.covered = self._count, self.covered
        return fresh

    def gaps(self, start: int, end: int) -> Iterator[Range]:
        """The stretches between `start` and `end` that are not in the set, ascending.

        The set may change in between. What changes ahead may be told as it was.
        """
        for held in self._from(start):
            if held.start >= end:
                break
            if held.start > start:
                yield Range(start, held.start)
            start = max(start, held.end)
        if start < end:
            yield Range(start, end)

    def add(self, start: int, end: int) -> None:
        """Put in start..end, merging with what it overlaps or touches."""
        if start >= end:
            return
        if not 0 <= start < end < END_OF_OFFSETS:
            raise ValueError(f"offsets are 0 to {END_OF_OFFSETS - 2}, not {start} to {end - 1}")
        place = self._floor(start)
        if place is not None:
            block, at = self._blocks[place[0]], place[1]
            if block.ends[at] >= end:
                return
            if block.ends[at] >= start:
                if end < self._start_behind(*place):
                    self.covered += end - block.ends[at]
                    block.ends[at] = end
                    return
                start = block.starts[at]
        # Everything that begins inside, or right behind, is swallowed.
        end = max(end, self._remove_starting_in(start, end))
        self._insert(start, end)

    def remove(self, start: int, end: int) -> None:
        """Take out start..end, splitting what reaches beyond."""
        if start >= end:
            return
        held = self.range_at(start)
        if held is not None and held.start < start:
            self._set_end(held.start, start)
            if held.end > end:
                self._insert(end, held.end)
                return
        last_end = self._remove_starting_in(start, end - 1)
        if last_end > end:
            self._insert(end, last_end)

    def clear(self) -> None:
        self._blocks.clear()
        self._firsts.clear()
        self._count = self.covered = 0

    # --- blocks -------------------------------------------------------------------------------------

    def _floor(self, offset: int) -> tuple[int, int] | None:
        """(block, index) of the last range that starts at or below the offset."""
        number = bisect_right(self._firsts, offset) - 1
        if number < 0:
            return None
        return number, bisect_right(self._blocks[number].starts, offset) - 1

    def _from(self, offset: int) -> Iterator[Range]:
        """The ranges from the one that holds the offset on.

        A block is copied, and the next one looked for from where it ends: whoever walks may change the set.
        """
        place = self._floor(offset)
        number, at = (0, 0) if place is None else place
        while number < len(self._blocks):
            block = self._blocks[number]
            starts, ends = block.starts[at:], block.ends[at:]
            if not starts:
                return  # another thread is changing the set: what it sees is its own risk, but it ends
            yield from map(Range, starts, ends)
            number, at = self._place_behind(starts[-1])

    def _place_behind(self, start: int) -> tuple[int, int]:
        """(block, index) of the first range that starts behind this one."""
        place = self._floor(start)
        if place is None:
            return 0, 0
        number, at = place
        return (number, at + 1) if at + 1 < len(self._blocks[number].starts) else (number + 1, 0)

    def _start_behind(self, number: int, at: int) -> int:
        """Where the range behind this one starts."""
        block = self._blocks[number]
        if at + 1 < len(block.starts):
            return block.starts[at + 1]
        return self._firsts[number + 1] if number + 1 < len(self._firsts) else END_OF_OFFSETS

    def _set_end(self, start: int, end: int) -> None:
        place = self._floor(start)
        assert place is not None
        ends = self._blocks[place[0]].ends
        self.covered += end - ends[place[1]]
        ends[place[1]] = end

    def _insert(self, start: int, end: int) -> None:
        """Put in a range that touches no other."""
        self._count += 1
        self.covered += end - start
        if not self._blocks:
            self._blocks.append(_Block(array("Q", [start]), array("Q", [end])))
            self._firsts.append(start)
            return
        number = max(0, bisect_right(self._firsts, start) - 1)
        block = self._blocks[number]
        at = bisect_right(block.starts, start)
        block.starts.insert(at, start)
        block.ends.insert(at, end)
        self._firsts[number] = block.starts[0]
        if len(block.starts) > 2 * BLOCK_RANGES:
            self._split(number)

    def _split(self, number: int) -> None:
        block = self._blocks[number]
        half = len(block.starts) // 2
        behind = _Block(block.starts[half:], block.ends[half:])
        del block.starts[half:], block.ends[half:]
        self._blocks.insert(number + 1, behind)
        self._firsts.insert(number + 1, behind.starts[0])

    def _remove_starting_in(self, start: int, last: int) -> int:
        """Drop the ranges that start at `start` up to and including `last`; returns the last one's end."""
        number = max(0, bisect_right(self._firsts, start) - 1)
        last_end = 0
        while number < len(self._blocks):
            block = self._blocks[number]
            low = bisect_right(block.starts, start - 1) if start else 0
            high = bisect_right(block.starts, last)
            if high > low:
                last_end = block.ends[high - 1]
                self.covered -= sum(block.ends[low:high]) - sum(block.starts[low:high])
                del block.starts[low:high], block.ends[low:high]
                self._count -= high - low
            if not block.starts:
                del self._blocks[number], self._firsts[number]
                continue
            self._firsts[number] = block.starts[0]
            if high < len(block.starts) + (high - low):
                break
            number += 1
        return last_end
