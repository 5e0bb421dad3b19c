"""What a batch must be like that a client produces. Nothing here opens it: no record is looked at or copied.

What is refused, in which order and with which error, is what Kafka 4 answers (in ProduceRequest, UnifiedLog
and LogValidator), as far as one can tell from outside. Stricter than Kafka are: an unknown codec (an unknown
server error there), LogAppendTime or a delete horizon from a client, negative timestamps other than -1, a
producer without an epoch, a transaction without a producer. How far from now a timestamp may be is not judged
here, for that takes a clock.
"""

from __future__ import annotations

from barbicel.codecs.kafka.compression import CODECS, Codec
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.record_batch import (
    BATCH_HEADER_BYTES,
    CODEC_BITS,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    LENGTH,
    LENGTH_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    UNCOUNTED_BYTES,
    BadBatch,
    Batch,
    BatchHeader,
    check_crc,
)
from barbicel.codecs.kafka.wire import new_tuple

__all__ = ["check_batch"]

INVALID, CORRUPT = ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE
COUNTED_HEADER_BYTES = BATCH_HEADER_BYTES - UNCOUNTED_BYTES
MIN_V0_MESSAGE_BYTES = 14
# A record's length, attributes, two deltas, two lengths and the number of its headers, a byte each.
MIN_RECORD_BYTES = 7


def check_batch(records: memoryview, max_batch_bytes: int, *, allow_zstd: bool = True) -> Batch:
    """The one batch in the records that a client produced for a partition; BadBatch if it must be refused.

    Bytes after it that do not make up another batch are left out, as Kafka does. zstd is allowed from
    version 7 of Produce on.
    """
    size = _whole_batch_bytes(records, 0)
    if size == 0:
        raise BadBatch(INVALID, "a produced partition must have one whole record batch")
    if records[MAGIC_AT] != MAGIC:
        raise BadBatch(INVALID, f"magic {records[MAGIC_AT]}: only version 2 is accepted")
    if size < BATCH_HEADER_BYTES:
        raise BadBatch(CORRUPT, f"{size} bytes are too few for a record batch")
    header = new_tuple(BatchHeader, HEADER.unpack_from(records))
    if header.attributes & CODEC_BITS == Codec.ZSTD and not allow_zstd:
        raise BadBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7 of Produce or newer")
    if len(records) != size and _whole_batch_bytes(records, size):
        raise BadBatch(INVALID, "a produced partition must have one batch, not more")
    if header.base_offset != 0:
        raise BadBatch(INVALID, f"base offset {header.base_offset}: a client must send 0")
    if size > max_batch_bytes:
        message = f"the batch has {size} bytes, and {max_batch_bytes} are allowed"
        raise BadBatch(ErrorCode.MESSAGE_TOO_LARGE, message)
    batch = new_tuple(Batch, (header, records[:size]))
    check_crc(batch)
    if (reason := _reason_to_refuse(header)) is not None:
        raise BadBatch(*reason)
    return batch


def _whole_batch_bytes(view: memoryview, start: int) -> int:
    """How many bytes the batch at `start` has; 0 if it is not all there. Any of the three magics will do."""
    left = len(view) - start
    if left < UNCOUNTED_BYTES:
        return 0
    length: int = LENGTH.unpack_from(view, start + LENGTH_AT)[0]
    if length < MIN_V0_MESSAGE_BYTES:
        raise BadBatch(CORRUPT, f"a record batch cannot have the length {length}")
    if left <= MAGIC_AT:
        return 0
    if view[start + MAGIC_AT] > MAGIC:
        raise BadBatch(CORRUPT, f"magic {view[start + MAGIC_AT]} is unknown")
    return length + UNCOUNTED_BYTES if length + UNCOUNTED_BYTES <= left else 0


def _count_cannot_fit(header: BatchHeader) -> bool:
    """A count moves the log's end: without this, 70 bytes could use up two thousand million offsets."""
    records_bytes = header.batch_length - COUNTED_HEADER_BYTES
    max_bytes = records_bytes * CODECS[header.attributes & CODEC_BITS].max_ratio
    return header.records_count * MIN_RECORD_BYTES > max_bytes


def _reason_to_refuse(header: BatchHeader) -> tuple[ErrorCode, str] | None:
    """What is wrong with a header, asked in this order once the CRC is right. One function, and fields rather
    than properties: this is done for every batch."""
    attributes, has_producer = header.attributes, header.producer_id >= 0
    if attributes & CODEC_BITS not in CODECS:
        return INVALID, "the batch's codec is unknown"
    if header.records_count < 1:
        return INVALID, "the batch has no records"
    if header.last_offset_delta != header.records_count - 1:
        return INVALID, "last offset delta and count disagree"
    if _count_cannot_fit(header):
        return INVALID, "the batch cannot hold as many records as it says"
    if attributes & CONTROL_BIT:
        return INVALID, "a client must not write control records"
    if attributes & DELETE_HORIZON_BIT:
        return INVALID, "a client must not set a delete horizon"
    if has_producer and header.base_sequence < 0:
        return INVALID, "a producer id without a sequence"
    if has_producer and header.producer_epoch < 0:
        return INVALID, "a producer id without an epoch"
    if attributes & TRANSACTIONAL_BIT and not has_producer:
        return INVALID, "a transaction without a producer id"
    if attributes & LOG_APPEND_TIME_BIT:
        return ErrorCode.INVALID_TIMESTAMP, "a client must not set LogAppendTime"
    if header.base_timestamp < NO_TIMESTAMP or header.max_timestamp < NO_TIMESTAMP:
        return ErrorCode.INVALID_TIMESTAMP, "a timestamp is negative"
    return None
