"""A part of a tail: whole batches, one behind the other, in one buffer.

A batch of a few bytes on its own costs several times its size in objects, so small ones share a buffer. That
has its length from the start: what was handed out of it stays as it is while more is added behind.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

__all__ = ["TailBlock"]

# What a block costs besides its buffer, and each batch in it.
OWN_BYTES = 720
OWN_BATCH_BYTES = 20
# A batch is a part of the request that it came in. The whole request stays in memory for as long as the
# batch does, so one that is less than half of it is copied.
WHOLE_IN_PARTS = 2
BUFFERS = bytes, bytearray


class TailBlock:
    """`base_position` is where it begins, in bytes since the tail was empty."""

    __slots__ = ("_data", "_end_offsets", "_end_positions", "base_position", "cost_bytes")

    def __init__(
        self,
        data: memoryview,
        buffer_bytes: int,
        base_position: int,
        end_offsets: array[int] | list[int],
        end_positions: array[int] | list[int],
    ) -> None:
        self._data = data
        self.base_position = base_position
        # What it takes in memory.
        self.cost_bytes = OWN_BYTES + buffer_bytes + OWN_BATCH_BYTES * len(end_offsets)
        # Of each batch, the latter within this block.
        self._end_offsets = end_offsets
        self._end_positions = end_positions

    @classmethod
    def empty(cls, capacity: int, base_position: int) -> TailBlock:
        return cls(memoryview(bytearray(capacity)), capacity, base_position, array("q"), array("q"))

    @classmethod
    def of_one(cls, end_offset: int, batch: memoryview, base_position: int) -> TailBlock:
        """A batch as it is: it may be large, and is not copied."""
        data, buffer_bytes = _alone(batch)
        return cls(data, buffer_bytes, base_position, [end_offset], [len(batch)])

    def add(self, end_offset: int, batch: memoryview) -> None:
        """There must be room for it."""
        start = self.size_bytes
        self._data[start : start + len(batch)] = batch
        self._end_offsets.append(end_offset)
        self._end_positions.append(start + len(batch))
        self.cost_bytes += OWN_BATCH_BYTES

    def __len__(self) -> int:
        return len(self._end_offsets)

    @property
    def size_bytes(self) -> int:
        return self._end_positions[-1] if self._end_positions else 0

    @property
    def room_bytes(self) -> int:
        return len(self._data) - self.size_bytes

    @property
    def end_offset(self) -> int:
        return self._end_offsets[-1]

    def number_of(self, offset: int) -> int:
        """The first batch that ends behind the offset."""
        return bisect_right(self._end_offsets, offset)

    def position_of(self, number: int) -> int:
        return self._end_positions[number - 1] if number else 0

    def fitting(self, first: int, max_bytes: int) -> int:
        """The end of the batches from the first on that fit together; the first itself if none does."""
        return bisect_right(self._end_positions, self.position_of(first) + max_bytes, first)

    def view(self, first: int, end: int) -> memoryview:
        """These batches, in one piece."""
        return self._data[self.position_of(first) : self.position_of(end)]


def _alone(batch: memoryview) -> tuple[memoryview, int]:
    """The batch, and how large the buffer is that it keeps in memory."""
    whole = batch.obj
    if isinstance(whole, BUFFERS):
        if len(whole) > WHOLE_IN_PARTS * len(batch):
            return memoryview(bytes(batch)), len(batch)
        return batch, len(whole)
    return batch, len(batch)
