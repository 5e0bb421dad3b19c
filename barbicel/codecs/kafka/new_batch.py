"""New RecordBatch v2 batches: of records, and of the marker that ends a transaction.

Offsets are consecutive from the base offset, and the base timestamp is the first record's; records.py shows
the bytes of a record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from barbicel.codecs.kafka.compression import Codec, compress
from barbicel.codecs.kafka.record_batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    encode_batch,
)
from barbicel.codecs.kafka.records import Headers

__all__ = ["ControlType", "NewRecord", "build_appendable", "build_batch", "build_control_batch"]

ONE_BYTE = [bytes([number]) for number in range(128)]
ONE_BYTE_OF_MORE = [bytes([number | 128]) for number in range(128)]
NULL = ONE_BYTE[1]  # the length -1, zig-zagged
NO_HEADERS = ONE_BYTE[0]

CONTROL_VERSION = 0
CONTROL_KEY = struct.Struct(
    ">"
    "h"  # Version
    "h"  # Type
)
END_TRANSACTION_MARKER = struct.Struct(
    ">"
    "h"  # Version
    "i"  # CoordinatorEpoch
)


class NewRecord(NamedTuple):
    """A record that has no offset yet."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ControlType(IntEnum):
    """What a control record does to its producer's transaction."""

    ABORT = 0
    COMMIT = 1


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    is_transactional: bool = False,
    leader_epoch: int = -1,
) -> bytes:
    """One batch of all the records, at consecutive offsets. With LogAppendTime all have their latest time.

    ValueError without records or for a number that the format has no room for.
    """
    attributes = (
        codec
        | (LOG_APPEND_TIME_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_BIT if is_transactional else 0)
    )
    return bytes(
        _build(records, attributes, base_offset, leader_epoch, (producer_id, producer_epoch, base_sequence))
    )


def build_appendable(
    records: Sequence[NewRecord], producer: tuple[int, int, int] = (-1, -1, -1)
) -> bytearray:
    """One plain batch of all the records, to be stamped in place. `producer` is the id, the epoch and the
    first sequence of whoever has numbered them.

    Raises as `build_batch` does.
    """
    return _build(records, Codec.NONE, 0, -1, producer)


def build_control_batch(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The marker that ends a producer's transaction: one record, at one offset, that clients never see."""
    marker = NewRecord(
        timestamp_ms,
        CONTROL_KEY.pack(CONTROL_VERSION, control_type),
        END_TRANSACTION_MARKER.pack(CONTROL_VERSION, coordinator_epoch),
    )
    attributes = TRANSACTIONAL_BIT | CONTROL_BIT
    return bytes(_build([marker], attributes, base_offset, leader_epoch, (producer_id, producer_epoch, -1)))


def _build(
    records: Sequence[NewRecord],
    attributes: int,
    base_offset: int,
    leader_epoch: int,
    producer: tuple[int, int, int],
) -> bytearray:
    if not records:
        raise ValueError("a record batch needs a record")
    base_timestamp = records[0].timestamp_ms
    data = b"".join(_encode_records(records, base_timestamp))
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp_ms for record in records),
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        records_count=len(records),
    )
    try:
        return encode_batch(header, compress(Codec(header.codec), data))
    except struct.error as problem:
        raise ValueError(f"a record batch cannot hold this: {problem}") from None


def _encode_records(records: Iterable[NewRecord], base_timestamp: int) -> Iterator[bytes]:
    varint = _encode_varint
    for delta, (timestamp, key, value, headers) in enumerate(records):
        head = b"\0" + varint(timestamp - base_timestamp) + varint(delta)
        head += NULL if key is None else varint(len(key)) + key
        head += NULL if value is None else varint(len(value))
        tail = b"".join(_encode_headers(headers)) if headers else NO_HEADERS
        value = value or b""
        yield varint(len(head) + len(value) + len(tail))
        yield head
        yield value
        yield tail


def _encode_headers(headers: Headers) -> Iterator[bytes]:
    varint = _encode_varint
    yield varint(len(headers))
    for key, value in headers:
        yield varint(len(key))
        yield key
        if value is None:
            yield NULL
        else:
            yield varint(len(value))
            yield value


def _encode_varint(number: int) -> bytes:
    number = number << 1 if number >= 0 else ~(number << 1)
    if number < 128:
        return ONE_BYTE[number]
    if number < 16384:
        return ONE_BYTE_OF_MORE[number & 127] + ONE_BYTE[number >> 7]
    if number >> 64:
        raise ValueError("a difference of timestamps has more than 64 bits")
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
