"""The batches of a `.kfs` body one after another, out of a file or an object of which only ranges are read.

The invariant: at most one chunk and one batch are in memory, and no declared length is believed before it was
compared with the bytes that the body has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from barbicel.codecs.kafka.record_batch import BATCH_HEADER_BYTES
from barbicel.codecs.kfs_batches import BatchFacts, declared_bytes, decode_batch_facts
from barbicel.errors import CorruptFile

__all__ = ["CHUNK_BYTES", "PlacedBatch", "ReadRange", "SoundBatch", "sound_batches", "split_batches"]

CHUNK_BYTES = 1 << 20

# (position, length) → exactly these bytes.
ReadRange: TypeAlias = Callable[[int, int], bytes]


class PlacedBatch(NamedTuple):
    """The bytes of a batch, of which only the length was looked at."""

    position: int
    data: memoryview


class SoundBatch(NamedTuple):
    """A batch whose CRC is right and which lies behind the one before it."""

    data: memoryview
    facts: BatchFacts


def sound_batches(
    read: ReadRange, start: int, end: int, *, from_offset: int = 0, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[SoundBatch]:
    """The batches from the one at `start` up to `end`. CorruptFile with the position of one that is not."""
    for position, data in split_batches(read, start, end, chunk_bytes=chunk_bytes):
        try:
            facts = decode_batch_facts(data)
        except CorruptFile as problem:
            raise CorruptFile(problem.message, position=position) from None
        if facts.base_offset < from_offset:
            message = f"offset {facts.base_offset} where {from_offset} or more is expected"
            raise CorruptFile(message, position=position)
        from_offset = facts.end_offset
        yield SoundBatch(data, facts)


def split_batches(
    read: ReadRange, start: int, end: int, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[PlacedBatch]:
    """The batches from the one at `start` up to `end`, where one must end. CorruptFile where none begins."""
    rest = memoryview(b"")
    position = start
    while position < end:
        wanted = _wanted_bytes(rest, position, end)
        begin = position + len(rest)
        fresh = read(begin, min(max(wanted - len(rest), chunk_bytes), end - begin))
        view = memoryview(b"".join((rest, fresh)) if rest else fresh)
        at = 0
        while (size := _whole_bytes(view, at, position, end)) is not None:
            yield PlacedBatch(position, view[at : at + size])
            at += size
            position += size
        rest = view[at:]


def _wanted_bytes(rest: memoryview, position: int, end: int) -> int:
    size = declared_bytes(rest, 0)
    return BATCH_HEADER_BYTES if size is None else _checked(size, position, end)


def _whole_bytes(view: memoryview, at: int, position: int, end: int) -> int | None:
    """The size of the batch that begins at `at`, None if the view ends in it."""
    size = declared_bytes(view, at)
    if size is None or at + _checked(size, position, end) > len(view):
        if len(view) - at == end - position and position != end:
            raise CorruptFile(f"{end - position} bytes are too few for a record batch", position=position)
        return None
    return size


def _checked(size: int, position: int, end: int) -> int:
    if not BATCH_HEADER_BYTES <= size <= end - position:
        message = f"a record batch of {size} bytes where {end - position} are left"
        raise CorruptFile(message, position=position)
    return size
