"""Batches that cannot be stored as they come: their records have to be looked at, or compressed anew.

Kafka calculates a batch's highest timestamp itself, so some clients leave it out. And a topic's
`compression.type` may name another codec than the producer's. Either means to decompress what a client sent,
which takes a thousand times as long as to receive it: in a thread, unless it is next to nothing.
"""

from __future__ import annotations

from barbicel.codecs.kafka.compression import Codec, compress
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.record_batch import (
    CODEC_BITS,
    NO_TIMESTAMP,
    BadBatch,
    Batch,
    decode_header,
    encode_batch,
    stamp_max_timestamp,
)
from barbicel.codecs.kafka.records import decompressed_records, max_timestamp_offset
from barbicel.gateway.broker.topic_settings import TopicValues

__all__ = ["MAX_OPENED_BYTES", "has_to_be_opened", "is_quickly_opened", "open_batch"]

# What a batch may hold that the gateway looks into.
MAX_OPENED_BYTES = 16 << 20
# To look through so many takes 0.2 s. Of a batch that is refused for its size Java's producer makes smaller
# ones.
MAX_TIMED_RECORDS = 200_000
# Their timestamps are found in some 30 microseconds.
QUICK_RECORDS = 50


def has_to_be_opened(batch: Batch, values: TopicValues) -> bool:
    return _lacks_timestamp(batch, values) or _has_other_codec(batch, values)


def is_quickly_opened(batch: Batch, values: TopicValues) -> bool:
    """Whether the reactor's thread may do it. Not if there is something to decompress or to compress."""
    return (
        batch.header.codec == Codec.NONE
        and batch.header.records_count <= QUICK_RECORDS
        and not _has_other_codec(batch, values)
    )


def open_batch(batch: Batch, values: TopicValues) -> Batch:
    """The batch as it is to be stored. Raises BadBatch if what is inside cannot be, or is too large."""
    if _has_other_codec(batch, values):
        batch = _compressed_anew(batch, values)
    if _lacks_timestamp(batch, values):
        if batch.header.records_count > MAX_TIMED_RECORDS:
            message = f"without its highest timestamp a batch may have {MAX_TIMED_RECORDS} records"
            raise BadBatch(ErrorCode.MESSAGE_TOO_LARGE, message)
        found = max_timestamp_offset(batch.data, max_bytes=MAX_OPENED_BYTES)
        stamp_max_timestamp(batch.data, NO_TIMESTAMP if found is None else found.timestamp_ms)
        batch = Batch(decode_header(batch.data), batch.data)
    return batch


def _lacks_timestamp(batch: Batch, values: TopicValues) -> bool:
    return batch.header.understates_max_timestamp and not values.is_append_time


def _has_other_codec(batch: Batch, values: TopicValues) -> bool:
    return values.codec is not None and batch.header.codec != values.codec


def _compressed_anew(batch: Batch, values: TopicValues) -> Batch:
    assert values.codec is not None
    inside = decompressed_records(batch.data, max_bytes=MAX_OPENED_BYTES)
    attributes = batch.header.attributes & ~CODEC_BITS | values.codec
    fresh = memoryview(
        encode_batch(batch.header._replace(attributes=attributes), compress(values.codec, inside))
    )
    if len(fresh) > values.max_message_bytes:
        name, limit = values.codec.name.lower(), values.max_message_bytes
        message = f"compressed with {name} the batch has {len(fresh)} bytes, {limit} are allowed"
        raise BadBatch(ErrorCode.MESSAGE_TOO_LARGE, message)
    return Batch(decode_header(fresh), fresh)
