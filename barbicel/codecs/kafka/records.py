"""The records inside a RecordBatch v2: read, and looked through by time. new_batch.py writes them.

A record is its length and then attributes i8, timestampDelta, offsetDelta, key, value, headers. Each number
but the attributes is a zig-zag varint, a negative length is null, and deltas count from the batch's base.

Nothing in a batch is believed: what it holds decompressed is bounded, every length must end exactly where the
record does, offsets must rise and stay in the batch's range, and nothing may follow the last record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from barbicel.codecs.kafka.compression import CODECS, BadCompression, DecompressedTooLarge
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.record_batch import (
    BATCH_HEADER_BYTES,
    BadBatch,
    BatchHeader,
    TimestampType,
    decode_batch,
)

__all__ = [
    "Headers",
    "KafkaRecord",
    "TimedOffset",
    "decode_records",
    "decompressed_records",
    "each_record",
    "find_timestamp",
    "max_timestamp_offset",
    "open_batch",
]

# A header's key is UTF-8 by convention only, so it is kept as the bytes that it is.
Headers: TypeAlias = tuple[tuple[bytes, bytes | None], ...]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
VARINT_LAST_SHIFT = 28
VARLONG_LAST_SHIFT = 63
# More than the bytes of any record.
UNBOUNDED_HEADERS = 1 << 31


class KafkaRecord(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class TimedOffset(NamedTuple):
    offset: int
    timestamp_ms: int


def decode_records(
    batch: memoryview, *, max_bytes: int, max_headers: int = UNBOUNDED_HEADERS
) -> Iterator[KafkaRecord]:
    """The records of one whole batch, one at a time.

    The call itself checks and decompresses the batch; a bad record raises BadBatch when its turn comes.
    MESSAGE_TOO_LARGE means more than max_bytes inside, or a record with more than max_headers; anything else
    that the batch is damaged or lies. An iterator, for a record may take 7 bytes there and some 200 as an
    object. So may a header, of two bytes, and a record has all of its headers at once.
    """
    header, data = open_batch(batch, max_bytes)
    return each_record(header, data, max_headers)


def decompressed_records(batch: memoryview, *, max_bytes: int) -> bytes:
    """What a batch has compressed, as it is: no record is looked at. Raises BadBatch."""
    return open_batch(batch, max_bytes)[1]


def open_batch(batch: memoryview, max_bytes: int) -> tuple[BatchHeader, bytes]:
    """The first half of decode_records, for who has to know how much there is inside."""
    header = decode_batch(batch).header
    row = CODECS.get(header.codec)
    if row is None:
        raise BadBatch(ErrorCode.INVALID_RECORD, f"compression codec {header.codec} is unknown")
    try:
        return header, row.decompress(batch[BATCH_HEADER_BYTES:], max_bytes)
    except DecompressedTooLarge as problem:
        raise BadBatch(ErrorCode.MESSAGE_TOO_LARGE, problem.message) from None
    except BadCompression as problem:
        raise BadBatch(ErrorCode.CORRUPT_MESSAGE, problem.message) from None


def each_record(  # noqa: C901 - each call that it does not make is a third of a microsecond a record
    header: BatchHeader, data: bytes, max_headers: int
) -> Iterator[KafkaRecord]:
    """The second half.

    Bounds are checked once, at a record's end: until then a lie moves the position on, never back.
    Varints of one byte, and where records of 100 bytes have them of two, cost no call. New records skip the
    tuple's constructor, which is Python.
    """
    size, base_offset, base_timestamp = len(data), header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    last_delta, previous_delta, position = header.last_offset_delta, -1, 0
    longer, new = _longer_varint, tuple.__new__
    try:
        for _ in range(header.records_count):
            number = data[position]
            position += 1
            if number > 127:
                number += (data[position] << 7) - 128
                position += 1
                if number > 16383:
                    number, position = longer(data, position, number - 16384, 14)
            is_negative = number & 1
            end = position + (number >> 1)
            number = data[position + 1]
            position += 2
            if number > 127:
                number += (data[position] << 7) - 128
                position += 1
                if number > 16383:
                    number, position = longer(data, position, number - 16384, 14, VARLONG_LAST_SHIFT)
            timestamp = base_timestamp + ((number >> 1) ^ -(number & 1))
            number = data[position]
            position += 1
            if number > 127:
                number += (data[position] << 7) - 128
                position += 1
                if number > 16383:
                    number, position = longer(data, position, number - 16384, 14)
            delta = (number >> 1) ^ -(number & 1)
            number = data[position]
            position += 1
            if number > 127:
                number, position = longer(data, position, number - 128, 7)
            key = None if number & 1 else data[position : (position := position + (number >> 1))]
            number = data[position]
            position += 1
            if number > 127:
                number += (data[position] << 7) - 128
                position += 1
                if number > 16383:
                    number, position = longer(data, position, number - 16384, 14)
            value = None if number & 1 else data[position : (position := position + (number >> 1))]
            headers: Headers = ()
            if data[position]:
                headers, position = _decode_headers(data, position, max_headers)
            else:
                position += 1
            if (
                position != end
                or end > size
                or is_negative
                or not previous_delta < delta <= last_delta
                or not I64_MIN <= timestamp <= I64_MAX
            ):
                raise _bad_record(base_offset + previous_delta)
            previous_delta = delta
            if append_time is not None:
                timestamp = append_time
            yield new(KafkaRecord, (base_offset + delta, timestamp, key, value, headers))
    except IndexError:
        raise _bad_record(base_offset + previous_delta) from None
    if position != size:
        raise BadBatch(ErrorCode.INVALID_RECORD, f"{size - position} bytes follow the batch's last record")


def _bad_record(offset_before: int) -> BadBatch:
    return BadBatch(ErrorCode.INVALID_RECORD, f"the record after offset {offset_before} is damaged")


def _longer_varint(
    data: bytes, position: int, number: int, shift: int, last_shift: int = VARINT_LAST_SHIFT
) -> tuple[int, int]:
    """Go on with a varint of which `shift` bits are read: it, still zig-zag, and the position after it."""
    while shift <= last_shift:
        byte = data[position]
        position += 1
        if byte < 128:
            return number | byte << shift, position
        number |= (byte & 127) << shift
        shift += 7
    raise BadBatch(ErrorCode.INVALID_RECORD, f"a varint has more than {last_shift // 7 + 1} bytes")


def _decode_varint(data: bytes, position: int, last_shift: int = VARINT_LAST_SHIFT) -> tuple[int, int]:
    number = data[position]
    position += 1
    if number > 127:
        number, position = _longer_varint(data, position, number - 128, 7, last_shift)
    return (number >> 1) ^ -(number & 1), position


def _decode_headers(data: bytes, position: int, max_headers: int) -> tuple[Headers, int]:
    count, position = _decode_varint(data, position)
    if not 0 <= count <= (len(data) - position) // 2:  # a header has two bytes at least
        raise BadBatch(ErrorCode.INVALID_RECORD, "a record has an impossible number of headers")
    if count > max_headers:
        raise BadBatch(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a record has {count} headers, more than {max_headers} are not read here",
        )
    headers: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        length, position = _decode_varint(data, position)
        if length < 0:
            raise BadBatch(ErrorCode.INVALID_RECORD, "a record's header has no key")
        key = data[position : (position := position + length)]
        length, position = _decode_varint(data, position)
        value = None if length < 0 else data[position : (position := position + length)]
        headers.append((key, value))
    return tuple(headers), position


def find_timestamp(
    batch: memoryview, timestamp_ms: int, *, max_bytes: int, from_offset: int = 0
) -> TimedOffset | None:
    """The first record from from_offset on whose timestamp is timestamp_ms or later."""
    for found in _each_time(batch, max_bytes):
        if found.timestamp_ms >= timestamp_ms and found.offset >= from_offset:
            return found
    return None


def max_timestamp_offset(batch: memoryview, *, max_bytes: int) -> TimedOffset | None:
    """The first of the records with the greatest timestamp, as they have it, not the batch's header.

    None if no record has a timestamp.
    """
    latest = max(_each_time(batch, max_bytes), key=lambda found: found.timestamp_ms, default=None)
    return None if latest is None or latest.timestamp_ms < 0 else latest


def _each_time(batch: memoryview, max_bytes: int) -> Iterator[TimedOffset]:
    """Each record's offset and timestamp. Keys, values and headers are stepped over."""
    header, data = open_batch(batch, max_bytes)
    previous_delta, position = -1, 0
    for _ in range(header.records_count):
        try:
            length, position = _decode_varint(data, position)
            timestamp_delta, after_timestamp = _decode_varint(data, position + 1, VARLONG_LAST_SHIFT)
            delta, after_delta = _decode_varint(data, after_timestamp)
        except IndexError:
            raise _bad_record(header.base_offset + previous_delta) from None
        position += length
        timestamp = header.base_timestamp + timestamp_delta
        if (
            not after_delta < position <= len(data)
            or not previous_delta < delta <= header.last_offset_delta
            or not I64_MIN <= timestamp <= I64_MAX
        ):
            raise _bad_record(header.base_offset + previous_delta)
        previous_delta = delta
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            timestamp = header.max_timestamp
        yield TimedOffset(header.base_offset + delta, timestamp)
