"""Keratin's records as bytes: framing, spans, losses. Big-endian, CRC-32C over all but the magic.

Owns the byte layout and nothing else; docs/formats/keratin.md draws it. Decoding never raises: it says what
it found, how many bytes it lacks, or why there is no record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from crc32c import crc32c

from barbicel.disk import Bytes

__all__ = [
    "CRC_BYTES",
    "CRC_PROBLEM",
    "MAX_SPAN",
    "RECORD_OVERHEAD_BYTES",
    "SPAN_BYTES",
    "Decoded",
    "Payloads",
    "Record",
    "RecordHead",
    "Stepped",
    "decode_payloads",
    "decode_records",
    "encode_lost",
    "encode_record",
    "find_record",
    "peek_record",
    "record_crc",
    "step_to_offset",
]

VERSION = 1
CRC = struct.Struct(">I")
CRC_BYTES = CRC.size
CRC_PROBLEM = "the record's crc32c does not match"

RECORD_MAGIC = 0x4B52  # "KR"
RECORD_START = struct.pack(">HH", RECORD_MAGIC, VERSION)
RECORD_HEAD = struct.Struct(
    ">"
    "H"  # magic
    "H"  # version
    "H"  # flags
    "H"  # reserved0
    "I"  # header_len
    "I"  # payload_len
    "Q"  # timestamp_ms
    "Q"  # offset
)
RECORD_HEAD_BYTES = RECORD_HEAD.size
RECORD_OVERHEAD_BYTES = RECORD_HEAD_BYTES + CRC.size
FLAG_SPAN = 1
FLAG_LOST = 2
KNOWN_FLAGS = FLAG_SPAN | FLAG_LOST
SPAN = struct.Struct(">I")
SPAN_BYTES = SPAN.size
MAX_SPAN = 0xFFFF_FFFF
NO_HEADERS = memoryview(b"")


class Record(NamedTuple):
    """A record as it lies in a file. Headers and payload are views of the buffer it was decoded from."""

    offset: int
    span: int
    timestamp_ms: int
    headers: memoryview
    payload: memoryview
    position: int
    size: int
    lost: bool

    @property
    def end_offset(self) -> int:
        return self.offset + self.span


class Decoded(NamedTuple):
    """What a stretch of bytes held.

    `position` is the first byte that was not consumed and `next_offset` what belongs there. `needed` is
    how many bytes the record at `position` has (or its head, if that is cut too): nothing is wrong, there
    are just not enough bytes. `problem` says why there is no record at `position`; then `needed` is 0.
    """

    records: list[Record]
    position: int
    next_offset: int
    needed: int
    problem: str | None


def encode_record(
    offset: int, span: int, timestamp_ms: int, headers: Bytes, payload: Bytes
) -> tuple[bytes, Bytes, bytes]:
    """The record in three pieces, the payload as it was given, the CRC last."""
    if span == 1:
        head = _record_head(0, len(headers), len(payload), timestamp_ms, offset) + headers
    else:
        head = b"".join(
            (
                _record_head(FLAG_SPAN, SPAN_BYTES + len(headers), len(payload), timestamp_ms, offset),
                SPAN.pack(span),
                headers,
            )
        )
    return head, payload, CRC.pack(crc32c(payload, crc32c(head[2:])))


def encode_lost(offset: int, span: int, timestamp_ms: int) -> bytes:
    """A record without content that stands where `span` offsets were lost."""
    flags = FLAG_SPAN | FLAG_LOST
    head = _record_head(flags, SPAN_BYTES, 0, timestamp_ms, offset) + SPAN.pack(span)
    return head + CRC.pack(crc32c(head[2:]))


def record_crc(chunks: Iterable[bytes]) -> bytes:
    """The CRC field of a record that is given from its magic to the byte before that field."""
    crc = 0
    start = 2
    for chunk in chunks:
        crc = crc32c(memoryview(chunk)[start:], crc)
        start = 0
    return CRC.pack(crc)


def _record_head(flags: int, header_len: int, payload_len: int, timestamp_ms: int, offset: int) -> bytes:
    return RECORD_HEAD.pack(RECORD_MAGIC, VERSION, flags, 0, header_len, payload_len, timestamp_ms, offset)


def decode_records(view: memoryview, position: int, next_offset: int) -> Decoded:
    """Decode whole records from `view`, whose first byte lies at `position` in the file."""
    records: list[Record] = []
    start, size = 0, len(view)
    unpack_head, unpack_crc, new = RECORD_HEAD.unpack_from, CRC.unpack_from, tuple.__new__
    while True:
        if size - start < RECORD_OVERHEAD_BYTES:
            needed = RECORD_OVERHEAD_BYTES
            break
        magic, version, flags, _, header_len, payload_len, timestamp_ms, offset = unpack_head(view, start)
        if magic != RECORD_MAGIC or version != VERSION or offset != next_offset or flags > FLAG_SPAN:
            problem = _head_problem(magic, version, flags, offset, next_offset)
            if problem is not None:
                return Decoded(records, position + start, next_offset, 0, problem)
        needed = RECORD_OVERHEAD_BYTES + header_len + payload_len
        if size - start < needed:
            break
        crc_at = start + needed - 4
        if unpack_crc(view, crc_at)[0] != crc32c(view[start + 2 : crc_at]):
            return Decoded(records, position + start, next_offset, 0, CRC_PROBLEM)
        headers_at = start + 32
        span = 1
        if flags & FLAG_SPAN:
            span = SPAN.unpack_from(view, headers_at)[0] if header_len >= SPAN_BYTES else 0
            if span == 0:
                problem = "the record claims a span and gives none"
                return Decoded(records, position + start, next_offset, 0, problem)
            headers_at += SPAN_BYTES
        payload_at = start + 32 + header_len
        headers = view[headers_at:payload_at] if headers_at < payload_at else NO_HEADERS
        payload = view[payload_at:crc_at]
        fields = offset, span, timestamp_ms, headers, payload, position + start, needed, flags > FLAG_SPAN
        records.append(new(Record, fields))
        next_offset = offset + span
        start += needed
    return Decoded(records, position + start, next_offset, needed, None)


class Payloads(NamedTuple):
    """What the records had that a stretch of bytes begins with, and the offset and the byte behind them."""

    views: list[memoryview]
    next_offset: int
    size: int
    # Of the next one's payload, if that is cut and its head is not; what the head says is not verified.
    cut_bytes: int


def decode_payloads(view: memoryview, next_offset: int, end_offset: int) -> Payloads:
    """What is in the records below `end_offset`, in half of the time that decode_records takes. It ends where
    there is anything but a whole, sound record: decode_records knows what that is."""
    views: list[memoryview] = []
    start = cut_bytes = 0
    last_crc_at = len(view) - CRC_BYTES
    unpack_head, unpack_crc, add = RECORD_HEAD.unpack_from, CRC.unpack_from, views.append
    while next_offset < end_offset and start + RECORD_HEAD_BYTES <= last_crc_at:
        magic, version, flags, _, header_len, payload_len, _, offset = unpack_head(view, start)
        payload_at = start + RECORD_HEAD_BYTES + header_len
        crc_at = payload_at + payload_len
        if magic != RECORD_MAGIC or version != VERSION or offset != next_offset or flags > FLAG_SPAN:
            break
        if crc_at > last_crc_at:
            cut_bytes = payload_len
            break
        if unpack_crc(view, crc_at)[0] != crc32c(view[start + 2 : crc_at]):
            break
        span = 1
        if flags:
            span = SPAN.unpack_from(view, start + RECORD_HEAD_BYTES)[0] if header_len >= SPAN_BYTES else 0
            if not span:
                break
        add(view[payload_at:crc_at])
        next_offset += span
        start = crc_at + CRC_BYTES
    return Payloads(views, next_offset, start, cut_bytes)


def _head_problem(magic: int, version: int, flags: int, offset: int, expected: int) -> str | None:
    if magic != RECORD_MAGIC:
        return f"no record starts here (magic {magic:#06x})"
    if version != VERSION:
        return f"record version {version}, only {VERSION} is known"
    if flags & ~KNOWN_FLAGS:
        return f"unknown record flags {flags:#06x}"
    if offset != expected:
        return f"the record says offset {offset} where {expected} belongs"
    return None


class RecordHead(NamedTuple):
    """The fixed part of a record, not verified by its CRC."""

    offset: int
    span: int
    size: int


def peek_record(view: memoryview, start: int) -> RecordHead | None:
    """The head at `start`, for stepping over a record unread; None if there is none, or too few bytes."""
    if len(view) - start < RECORD_OVERHEAD_BYTES:
        return None
    magic, version, flags, _, header_len, payload_len, _, offset = RECORD_HEAD.unpack_from(view, start)
    if magic != RECORD_MAGIC or version != VERSION or flags & ~KNOWN_FLAGS:
        return None
    span = SPAN.unpack_from(view, start + 32)[0] if flags & FLAG_SPAN else 1
    return RecordHead(offset, span, RECORD_OVERHEAD_BYTES + header_len + payload_len)


class Stepped(NamedTuple):
    """Where stepping over records ended: `size` is that of the record that holds the offset, 0 if the bytes
    end before it; None instead of this if something that is no record lies in between."""

    start: int
    next_offset: int
    size: int


def step_to_offset(view: memoryview, next_offset: int, wanted: int) -> Stepped | None:
    """Step over records by their heads alone, unverified, up to the one that holds the wanted offset."""
    start, last_start = 0, len(view) - RECORD_OVERHEAD_BYTES
    unpack_head = RECORD_HEAD.unpack_from
    while start <= last_start:
        magic, version, flags, _, header_len, payload_len, _, offset = unpack_head(view, start)
        if magic != RECORD_MAGIC or version != VERSION or offset != next_offset or flags & ~KNOWN_FLAGS:
            return None
        span = SPAN.unpack_from(view, start + 32)[0] if flags & FLAG_SPAN else 1
        if wanted < offset + span:
            return Stepped(start, offset, RECORD_OVERHEAD_BYTES + header_len + payload_len)
        start += RECORD_OVERHEAD_BYTES + header_len + payload_len
        next_offset = offset + span
    return Stepped(start, next_offset, 0)


def find_record(data: bytes, start: int) -> int:
    """Where the next thing that begins like a record is, or -1."""
    return data.find(RECORD_START, start)
