"""Where the blocks of a segment in the store begin: chosen from its index, and learnt on the way.

The invariant: a block begins where a batch does, and always at the same places, so that two readers of one
segment share their blocks. Where the index leaves a hole that is larger than a block, reading notes where the
next block begins.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from typing import NamedTuple

from barbicel.codecs.kfs_index import KfsIndex
from barbicel.tier.cold_block import Block, Place

__all__ = ["SegmentMap", "TieredSegment"]

# What a map takes besides its numbers, about.
MAP_OVERHEAD_BYTES = 512
BLOCK_OVERHEAD_BYTES = 128


class TieredSegment(NamedTuple):
    """A segment in the store. Its offsets are those that it is responsible for: some may be in no batch."""

    key: str
    index_key: str
    base_offset: int
    end_offset: int
    object_bytes: int
    etag: str


class SegmentMap:
    """For any number of threads. `is_settled`: the whole segment was checked; `is_sound`: and is sound."""

    def __init__(
        self,
        index: KfsIndex,
        *,
        end_offset: int,
        body_end: int,
        block_bytes: int,
        is_settled: bool = False,
        is_sound: bool = False,
    ) -> None:
        self.index = index
        self.is_settled = is_settled
        self.is_sound = is_sound
        self._lock = threading.Lock()
        # Of the batches that end where a block begins.
        self._epochs: dict[int, int] = {}
        chosen = _choose(index.positions, body_end, block_bytes)
        self._offsets = array("q", [*(index.offsets[number] for number in chosen), end_offset])
        self._positions = array("q", [*(index.positions[number] for number in chosen), body_end])

    @property
    def size(self) -> int:
        return 16 * len(self.index) + BLOCK_OVERHEAD_BYTES * len(self._offsets) + MAP_OVERHEAD_BYTES

    def locate(self, offset: int) -> Place:
        """The block that has the offset, if any has."""
        with self._lock:
            number = min(max(bisect_right(self._offsets, offset) - 1, 0), len(self._offsets) - 2)
            return Place(
                self._positions[number],
                self._positions[number + 1],
                self._offsets[number],
                self._offsets[number + 1],
                self._epochs.get(self._positions[number]),
            )

    def note(self, place: Place, block: Block) -> None:
        """Learn from a block where the next one begins, and what comes before that."""
        with self._lock:
            if block.last_epoch is not None:
                self._epochs[block.next_position] = block.last_epoch
            if block.next_position >= place.limit:
                return
            number = bisect_right(self._positions, block.next_position)
            if self._positions[number - 1] != block.next_position:
                self._positions.insert(number, block.next_position)
                self._offsets.insert(number, block.end_offset)


def _choose(positions: array[int], body_end: int, block_bytes: int) -> list[int]:
    """The numbers of the entries at which blocks begin: as few as the size of a block allows."""
    chosen = [0]
    while body_end - positions[chosen[-1]] > block_bytes:
        last = chosen[-1]
        number = max(bisect_right(positions, positions[last] + block_bytes) - 1, last + 1)
        if number == len(positions):
            break
        chosen.append(number)
    return chosen
