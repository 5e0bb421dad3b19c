"""Stepping through the records of one file in bounded memory, and finding a way past damage.

Every read starts at a record's first byte, so that no bytes are ever carried from one read to the next:
the position that a walk ends at is a position in the file, never in a buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barbicel.codecs.keratin_record import (
    RECORD_OVERHEAD_BYTES,
    Record,
    decode_records,
    find_record,
    peek_record,
)
from barbicel.disk import File

__all__ = ["Resumption", "Walk", "find_resumption", "is_record", "is_zero", "last_nonzero"]

FIRST_CHUNK_BYTES = 128 << 10
CHUNK_BYTES = 1 << 20
ZEROS = bytes(CHUNK_BYTES)


class ReadBuffers:
    """Buffers that are used again once nobody holds a view of them any more.

    Whoever iterates over a walk still holds the last record of a chunk while the next chunk is read, so
    there are two buffers in turn; one that is still in use is left to its holder.
    """

    def __init__(self) -> None:
        self._storage: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        for storage in self._storage:
            if len(storage) >= size and not _is_viewed(storage):
                return memoryview(storage)[:size]
        fresh = bytearray(size)
        self._storage = [*self._storage[-1:], fresh]
        return memoryview(fresh)


def _is_viewed(storage: bytearray) -> bool:
    try:
        storage.append(0)  # a bytearray refuses to change its size while a view of it exists
    except BufferError:
        return True
    storage.pop()
    return False


class Walk:
    """The records from `position` up to `end`, the first of which must have `next_offset`.

    While it runs and after it has ended, `position` is the first byte behind the last record and
    `next_offset` what belongs there; `problem` says why there is no record, None if `end` was reached.
    """

    __slots__ = ("_buffers", "_end", "_file", "next_offset", "position", "problem")

    def __init__(self, file: File, position: int, end: int, next_offset: int) -> None:
        self._file = file
        self._end = end
        self._buffers = ReadBuffers()
        self.position = position
        self.next_offset = next_offset
        self.problem: str | None = None

    def __iter__(self) -> Iterator[Record]:
        want = FIRST_CHUNK_BYTES
        while self.position < self._end:
            chunk_start = self.position
            view = self._buffers.take(min(want, self._end - chunk_start))
            filled = self._file.pread_into(view, chunk_start)
            if filled < len(view):  # the file is shorter than it should be: its end decides
                self._end = chunk_start + filled
            decoded = decode_records(view[:filled], chunk_start, self.next_offset)
            records, needed, problem = decoded.records, decoded.needed, decoded.problem
            del view, decoded
            for record in records:
                self.position = record.position + record.size
                self.next_offset = record.offset + record.span
                yield record
            del records
            if self.position > chunk_start:
                del record
            if problem is not None:
                self.problem = problem
                return
            if needed > self._end - self.position > 0:
                self.problem = f"the record needs {needed} bytes and {self._end - self.position} are left"
                return
            want = max(CHUNK_BYTES, needed)


class Resumption(NamedTuple):
    """A sound record behind damage."""

    position: int
    offset: int


def find_resumption(
    file: File, position: int, end: int, from_offset: int, below_offset: int
) -> Resumption | None:
    """The first sound record behind the damage at `position` that has one of these offsets."""
    following = peek_record(memoryview(file.pread(RECORD_OVERHEAD_BYTES, position)), 0)
    if following is not None:
        # The usual damage is inside a payload. Trusting the length first also means that a record which
        # a client stored as payload is not taken for one of the log's.
        found = _sound_record(file, position + following.size, end, from_offset, below_offset)
        if found is not None:
            return found
    window_start = position + 1
    while window_start < end:
        window = file.pread(min(CHUNK_BYTES, end - window_start), window_start)
        at = find_record(window, 0)
        while at >= 0:
            found = _sound_record(file, window_start + at, end, from_offset, below_offset)
            if found is not None:
                return found
            at = find_record(window, at + 1)
        if len(window) < CHUNK_BYTES:
            return None
        window_start += CHUNK_BYTES - 3  # a start may lie across the border
    return None


def _sound_record(
    file: File, position: int, end: int, from_offset: int, below_offset: int
) -> Resumption | None:
    if position >= end:
        return None
    head = peek_record(memoryview(file.pread(RECORD_OVERHEAD_BYTES, position)), 0)
    if head is None or not from_offset <= head.offset < below_offset:
        return None
    return Resumption(position, head.offset) if is_record(file, position, end, head.offset) else None


def is_record(file: File, position: int, end: int, offset: int) -> bool:
    """Whether a sound record of that offset lies there."""
    head = peek_record(memoryview(file.pread(RECORD_OVERHEAD_BYTES, position)), 0)
    if head is None or position + head.size > end:
        return False
    return bool(decode_records(memoryview(file.pread(head.size, position)), position, offset).records)


def is_zero(file: File, position: int, end: int) -> bool:
    """Whether only zeros lie between the two."""
    while position < end:
        chunk = file.pread(min(CHUNK_BYTES, end - position), position)
        if chunk != ZEROS[: len(chunk)]:
            return False
        if not chunk:
            return True
        position += len(chunk)
    return True


def last_nonzero(file: File, position: int, end: int) -> int:
    """The position behind the last byte that is not zero, at least `position`."""
    while end > position:
        start = max(position, end - CHUNK_BYTES)
        kept = file.pread(end - start, start).rstrip(b"\0")
        if kept:
            return start + len(kept)
        end = start
    return position
