"""Stretches of a queue's log: from the partition's tail at once, or from the disk, for a thread."""

from __future__ import annotations

from contextlib import nullcontext
from threading import Lock

from barbicel.codecs.kafka.record_batch import decode_header
from barbicel.errors import OffsetOutOfRange
from barbicel.gateway.broker.partition import Partition
from barbicel.kestrel_compat.items import MAX_OPENED_BYTES, Stretch, decode_stretch

__all__ = ["FILL_BYTES", "decode_from", "is_cheap", "read_stretch"]

# What is read ahead at a time in the reactor's thread.
FILL_BYTES = 64 << 10


# One thread opens compressed batches at a time. Each may take 64 MiB three times over meanwhile, and holds
# the interpreter's lock whenever that is copied: several at once would leave the reactor little of it.
_OPENING = Lock()


def is_cheap(batch: memoryview) -> bool:
    return len(batch) <= 4 * FILL_BYTES and _is_plain(batch)


def _is_plain(batch: memoryview) -> bool:
    return decode_header(batch).codec == 0


def decode_from(batches: list[memoryview], cursor: int, partition: Partition, enough_bytes: int) -> Stretch:
    """From the cursor on. What was deleted of the first batch is not given, though it is still there."""
    start = max(cursor, partition.start_offset)
    return decode_stretch(batches, start, MAX_OPENED_BYTES, enough_bytes)._replace(start_offset=cursor)


def read_stretch(partition: Partition, cursor: int, end_offset: int, max_bytes: int) -> Stretch:
    """What the log has from the cursor on, in any thread. Raises BarbicelError.

    `max_bytes` is of what is stored and of what is inside, but for one batch: a few kilobytes hold gigabytes.
    The stretch ends where that is reached, and the next one begins there. What retention has taken, or a
    repair has given up, holds no items.
    """
    while True:
        start = max(cursor, partition.start_offset)
        if start >= end_offset:
            return Stretch(cursor, end_offset, [], {}, [])
        try:
            batches = partition.stored.read(start, end_offset, max_bytes, at_least_one=True)
        except OffsetOutOfRange:
            if partition.start_offset > start:
                continue  # retention came in between
            raise
        with nullcontext() if all(map(_is_plain, batches)) else _OPENING:
            stretch = decode_from(batches, cursor, partition, max_bytes)
        return stretch if batches else stretch._replace(end_offset=end_offset)
