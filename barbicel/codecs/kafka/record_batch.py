"""Kafka's RecordBatch v2: its header, its CRC, and what a broker writes into it.

Nothing here looks at the records or copies them: a batch is stored and fetched as the client compressed it.
`baseOffset` and `partitionLeaderEpoch` lie before the CRC's reach, so stamping them leaves the CRC alone.

     0 baseOffset i64 | 8 batchLength i32 | 12 partitionLeaderEpoch i32 | 16 magic i8 | 17 crc u32
    21 attributes i16 | 23 lastOffsetDelta i32 | 27 baseTimestamp i64 | 35 maxTimestamp i64
    43 producerId i64 | 51 producerEpoch i16 | 53 baseSequence i32 | 57 recordsCount i32 | 61 records

batchLength counts what follows it; the CRC-32C is of everything from attributes on.
attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 baseTimestamp is a delete horizon.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.errors import BarbicelError

__all__ = [
    "BATCH_HEADER_BYTES",
    "NO_TIMESTAMP",
    "BadBatch",
    "Batch",
    "BatchHeader",
    "TimestampType",
    "check_crc",
    "decode_batch",
    "decode_header",
    "encode_batch",
    "end_offset_of",
    "stamp",
    "stamp_append_time",
    "stamp_max_timestamp",
    "walk_batches",
]

MutableBytes: TypeAlias = bytearray | memoryview

MAGIC = 2
HEADER = struct.Struct(
    ">"
    "q"  # baseOffset
    "i"  # batchLength
    "i"  # partitionLeaderEpoch
    "b"  # magic
    "I"  # crc
    "h"  # attributes
    "i"  # lastOffsetDelta
    "q"  # baseTimestamp
    "q"  # maxTimestamp
    "q"  # producerId
    "h"  # producerEpoch
    "i"  # baseSequence
    "i"  # recordsCount
)
BATCH_HEADER_BYTES = HEADER.size
BASE_OFFSET = struct.Struct(">q")
OFFSETS = struct.Struct(">q15xi")  # baseOffset, and behind the CRC and the attributes lastOffsetDelta
LENGTH_AT, LENGTH = 8, struct.Struct(">i")
UNCOUNTED_BYTES = 12  # batchLength itself and what stands before it
LEADER_EPOCH_AT, LEADER_EPOCH = 12, struct.Struct(">i")
MAGIC_AT = 16
CRC_AT, CRC = 17, struct.Struct(">I")
ATTRIBUTES_AT, ATTRIBUTES = 21, struct.Struct(">h")
MAX_TIMESTAMP_AT, MAX_TIMESTAMP = 35, struct.Struct(">q")

CODEC_BITS = 0b111
LOG_APPEND_TIME_BIT = 1 << 3
TRANSACTIONAL_BIT = 1 << 4
CONTROL_BIT = 1 << 5
DELETE_HORIZON_BIT = 1 << 6

NO_TIMESTAMP = -1
SEQUENCE_BITS = 2**31 - 1
CORRUPT = ErrorCode.CORRUPT_MESSAGE


class BadBatch(BarbicelError):
    """A batch that is refused, and the error code that says so to a Kafka client."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class TimestampType(IntEnum):
    """Bit 3 of the attributes: whose clock the records' timestamps are from."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header, field by field as in the specification."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """The bytes of the whole batch."""
        return self.batch_length + UNCOUNTED_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def end_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences go on at 0 after 2^31 - 1. -1 without a producer."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_BITS

    @property
    def codec(self) -> int:
        """A compression.Codec if the batch was checked, any of 0 to 7 otherwise."""
        return self.attributes & CODEC_BITS

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(self.attributes >> 3 & 1)

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def understates_max_timestamp(self) -> bool:
        """Kafka calculates maxTimestamp anew, so a client may leave it unset. See stamp_max_timestamp."""
        return self.max_timestamp < self.base_timestamp


class Batch(NamedTuple):
    """A whole batch: its header, and all of its bytes as a view of the buffer that they came in."""

    header: BatchHeader
    data: memoryview


def decode_header(view: memoryview, start: int = 0) -> BatchHeader:
    """The header at `start`, unchecked. BadBatch if there are too few bytes for one."""
    if len(view) - start < BATCH_HEADER_BYTES:
        raise BadBatch(CORRUPT, "there are too few bytes for the header of a record batch")
    return BatchHeader._make(HEADER.unpack_from(view, start))


def end_offset_of(stored: memoryview) -> int:
    """The first offset after a batch that is known to be whole."""
    base_offset, last_offset_delta = OFFSETS.unpack_from(stored)
    return int(base_offset + last_offset_delta + 1)


def decode_batch(data: memoryview) -> Batch:
    """Exactly one whole batch, with the right CRC; what it says is not judged. BadBatch if it is not that."""
    header = decode_header(data)
    if header.magic != MAGIC:
        raise BadBatch(CORRUPT, f"magic {header.magic} is not a record batch's")
    if header.size != len(data):
        raise BadBatch(CORRUPT, f"the batch says that it has {header.size} bytes, but has {len(data)}")
    batch = Batch(header, data)
    check_crc(batch)
    return batch


def check_crc(batch: Batch) -> None:
    """BadBatch if the batch's bytes are not those that its CRC was calculated over."""
    if crc32c(batch.data[ATTRIBUTES_AT:]) != batch.header.crc:
        raise BadBatch(CORRUPT, "the record batch's crc32c does not match")


def walk_batches(stretch: memoryview) -> Iterator[Batch]:
    """The batches of a stored stretch, by their headers alone: no CRC, no record is looked at.

    A batch that the stretch's end cuts is left out, as fetches may end in one. BadBatch where none can start.
    """
    start, size = 0, len(stretch)
    while size - start >= BATCH_HEADER_BYTES:
        header = BatchHeader._make(HEADER.unpack_from(stretch, start))
        end = start + header.size
        if header.magic != MAGIC or end - start < BATCH_HEADER_BYTES:
            raise BadBatch(CORRUPT, f"no record batch starts at byte {start}")
        if end > size:
            return
        yield Batch(header, stretch[start:end])
        start = end


def stamp(batch: MutableBytes, base_offset: int, leader_epoch: int) -> None:
    """Give the batch its place in the log, in place. The CRC does not cover either field."""
    BASE_OFFSET.pack_into(batch, 0, base_offset)
    LEADER_EPOCH.pack_into(batch, LEADER_EPOCH_AT, leader_epoch)


def stamp_append_time(batch: MutableBytes, now_ms: int) -> None:
    """Make it a LogAppendTime batch of now, in place: every record then has this timestamp."""
    (attributes,) = ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)
    ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME_BIT)
    stamp_max_timestamp(batch, now_ms)


def stamp_max_timestamp(batch: MutableBytes, max_timestamp_ms: int) -> None:
    """Set maxTimestamp and calculate the CRC anew, in place."""
    MAX_TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_AT, max_timestamp_ms)
    CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))


def encode_batch(header: BatchHeader, records: bytes) -> bytearray:
    """The batch with its length and its CRC calculated; what the header says of them does not matter.

    It can be changed in place, for whoever appends it stamps it.
    """
    length = BATCH_HEADER_BYTES - UNCOUNTED_BYTES + len(records)
    batch = bytearray(HEADER.pack(*header._replace(batch_length=length)))
    batch += records
    CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return batch
