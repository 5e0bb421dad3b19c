"""Stepping through the records of one file in bounded memory.

Every read starts at a record's first byte, so that no bytes are ever carried from one read to the next:
the position that a walk ends at is a position in the file, never in a buffer.
"""

from __future__ import annotations

from collections.abc import Iterator

from barbicel.codecs.keratin_record import (
    CRC_BYTES,
    CRC_PROBLEM,
    RECORD_OVERHEAD_BYTES,
    Record,
    decode_records,
    peek_record,
    record_crc,
)
from barbicel.disk import File

__all__ = ["LIMITED_CHUNK_BYTES", "Walk", "is_record", "is_sound", "is_zero", "last_nonzero"]

FIRST_CHUNK_BYTES = 128 << 10
CHUNK_BYTES = 1 << 20
# Two of the fetches that most clients make, with what stands around their records.
LIMITED_CHUNK_BYTES = 9 << 18
# A record of this size is checked before memory is taken for it.
LARGE_RECORD_BYTES = 8 << 20
ZEROS = bytes(CHUNK_BYTES)
BUFFERS = 2


class ReadBuffers:
    """Buffers that are used again once nobody holds a view of them any more.

    Whoever iterates over a walk still holds the last record of a chunk while the next chunk is read, so
    there are two buffers in turn. Whoever holds on to both keeps what is read, and gets bytes of its own:
    a bytearray costs a pass over it for its zeros.
    """

    def __init__(self) -> None:
        self._storage: list[bytearray] = []

    def read(self, file: File, size: int, position: int) -> memoryview:
        """Up to `size` bytes, fewer only at the end of the file."""
        for storage in self._storage:
            if len(storage) >= size and not _is_viewed(storage):
                view = memoryview(storage)[:size]
                return view[: file.pread_into(view, position)]
        if len(self._storage) == BUFFERS and all(map(_is_viewed, self._storage)):
            return memoryview(file.pread(size, position))
        view = memoryview(bytearray(size))
        assert isinstance(view.obj, bytearray)
        self._storage = [*self._storage[1 - BUFFERS :], view.obj]
        return view[: file.pread_into(view, position)]


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
    With `max_bytes` it may end before a record that would go beyond them, and `is_spent` then.
    """

    __slots__ = (
        "_buffers",
        "_end",
        "_file",
        "_max_bytes",
        "is_spent",
        "next_offset",
        "position",
        "problem",
    )

    def __init__(
        self, file: File, position: int, end: int, next_offset: int, max_bytes: int | None = None
    ) -> None:
        self._file = file
        self._end = end
        self._max_bytes = max_bytes
        self.is_spent = False
        self._buffers = ReadBuffers()
        self.position = position
        self.next_offset = next_offset
        self.problem: str | None = None

    def __iter__(self) -> Iterator[Record]:
        want = FIRST_CHUNK_BYTES
        enough: int | None = None
        if self._max_bytes is not None:
            # All of it in one read, if it is not too much: whoever says how much is wanted wants it all.
            want = min(max(self._max_bytes, RECORD_OVERHEAD_BYTES), LIMITED_CHUNK_BYTES)
            enough = self.position + self._max_bytes
        first_position = self.position
        while self.position < self._end:
            chunk_start = self.position
            wanted = min(want, self._end - chunk_start)
            if enough is None:
                view = self._buffers.read(self._file, wanted, chunk_start)
            else:  # whoever wants so much keeps it
                view = memoryview(self._file.pread(wanted, chunk_start))
            if len(view) < wanted:  # the file is shorter than it should be: its end decides
                self._end = chunk_start + len(view)
            decoded = decode_records(view, chunk_start, self.next_offset)
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
            if enough is not None and self.position > first_position and self.position + needed > enough:
                self.is_spent = True
                return
            if needed > LARGE_RECORD_BYTES and not is_sound(self._file, self.position, needed):
                self.problem = CRC_PROBLEM
                return
            want = max(CHUNK_BYTES, needed)


def is_record(file: File, position: int, end: int, offset: int) -> bool:
    """Whether a sound record of that offset lies there."""
    head = peek_record(memoryview(file.pread(RECORD_OVERHEAD_BYTES, position)), 0)
    if head is None or head.offset != offset or position + head.size > end:
        return False
    return is_sound(file, position, head.size)


def is_sound(file: File, position: int, size: int) -> bool:
    """Whether the record's CRC holds. Reads in chunks: a damaged length must not cost memory."""
    crc_position = position + size - CRC_BYTES
    said = file.pread(CRC_BYTES, crc_position)
    return len(said) == CRC_BYTES and record_crc(_chunks(file, position, crc_position)) == said


def _chunks(file: File, position: int, end: int) -> Iterator[bytes]:
    while position < end and (chunk := file.pread(min(CHUNK_BYTES, end - position), position)):
        yield chunk
        position += len(chunk)


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
