"""The record batches in the body of a `.kfs`: what a segment has to know of each, and nothing of its records.

The invariant: what comes out of `decode_batch_facts` is a whole batch whose CRC is right. That CRC covers
neither the base offset nor the leader epoch; whoever reads compares those with the batches around it.
Everything that Kafka allows is let through: any codec, control and transactional batches, batches without
records, gaps in the offsets.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from barbicel.codecs.kafka.record_batch import ATTRIBUTES_AT, BATCH_HEADER_BYTES, MAGIC, UNCOUNTED_BYTES
from barbicel.errors import CorruptFile

__all__ = ["BatchFacts", "Run", "declared_bytes", "decode_batch_facts", "decode_run"]

FACTS = struct.Struct(
    ">"
    "q"  # baseOffset
    "i"  # batchLength
    "i"  # partitionLeaderEpoch
    "b"  # magic
    "I"  # crc
    "h"  # attributes
    "i"  # lastOffsetDelta
    "8x"  # baseTimestamp
    "q"  # maxTimestamp
    "14x"  # producerId, producerEpoch, baseSequence
    "i"  # recordsCount
)
LENGTH_AT, LENGTH = 8, struct.Struct(">i")
MAX_OFFSET = 2**63 - 1


# As fast as a plain tuple: a segment may have millions of batches.
_new = tuple.__new__


class BatchFacts(NamedTuple):
    base_offset: int
    # The first offset after the batch.
    end_offset: int
    size: int
    leader_epoch: int
    attributes: int
    max_timestamp_ms: int
    message_count: int


def declared_bytes(view: memoryview, start: int) -> int | None:
    """How long the batch at `start` says that it is, unchecked. None if that is not in the view."""
    if len(view) - start < LENGTH_AT + LENGTH.size:
        return None
    length: int = LENGTH.unpack_from(view, start + LENGTH_AT)[0]
    return length + UNCOUNTED_BYTES


def decode_batch_facts(view: memoryview, start: int = 0) -> BatchFacts:
    """Of the whole batch at `start`. CorruptFile with the position in the view if there is none."""
    left = len(view) - start
    if left < BATCH_HEADER_BYTES:
        raise CorruptFile(f"{left} bytes are too few for a record batch", position=start)
    base, length, epoch, magic, crc, attributes, delta, max_timestamp, count = FACTS.unpack_from(view, start)
    size = length + UNCOUNTED_BYTES
    if magic != MAGIC or not BATCH_HEADER_BYTES <= size <= left:
        message = f"no record batch: magic {magic}, {size} bytes where {left} are left"
        raise CorruptFile(message, position=start)
    if crc32c(view[start + ATTRIBUTES_AT : start + size]) != crc:
        raise CorruptFile("the record batch's crc32c does not match", position=start)
    end = base + delta + 1
    if base < 0 or delta < 0 or count < 0 or end > MAX_OFFSET:
        message = f"a record batch of {count} records, offset {base} and {delta} more"
        raise CorruptFile(message, position=start)
    return _new(BatchFacts, (base, end, size, epoch, attributes, max_timestamp, count))


class Run(NamedTuple):
    """Batches without a gap between them, of one leader epoch: where each ends, and its end offset."""

    stops: list[int]
    end_offsets: list[int]
    leader_epoch: int


def decode_run(view: memoryview, start: int, base_offset: int, max_batches: int) -> Run:
    """As many batches from `start` on as follow one another plainly; the first has the base offset.

    It stops before anything else: what that is, `decode_batch_facts` has to tell. So it can be quick.
    """
    stops: list[int] = []
    end_offsets: list[int] = []
    run_epoch, size = None, len(view)
    for _ in range(min(max_batches, (size - start) // BATCH_HEADER_BYTES)):
        if size - start < BATCH_HEADER_BYTES:
            break
        base, length, epoch, magic, crc, _, delta, _, count = FACTS.unpack_from(view, start)
        stop = start + length + UNCOUNTED_BYTES
        if run_epoch is None:
            run_epoch = epoch
        if (
            base != base_offset
            or epoch != run_epoch
            or magic != MAGIC
            or delta < 0
            or count < 0
            or not start + BATCH_HEADER_BYTES <= stop <= size
            or crc32c(view[start + ATTRIBUTES_AT : stop]) != crc
        ):
            break
        base_offset += delta + 1
        start = stop
        stops.append(stop)
        end_offsets.append(base_offset)
    return Run(stops, end_offsets, run_epoch or 0)
