"""Keratin's files as bytes: manifest, segment log, sparse index, time index. Big-endian, CRC-32C.

Owns the byte layout and nothing else; docs/formats/keratin.md draws every structure. A decoder raises
CorruptFile with the position inside the bytes it was given; the caller adds the path.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from typing import NamedTuple

from crc32c import crc32c

from barbicel.disk import Bytes
from barbicel.errors import CorruptFile, UnknownVersion

__all__ = [
    "INDEX",
    "INDEX_ENTRY",
    "INDEX_HEADER_BYTES",
    "LOG_HEADER_BYTES",
    "MAX_SPAN",
    "RECORD_OVERHEAD_BYTES",
    "SPAN_BYTES",
    "SUMS_SUFFIX",
    "TIME_ENTRY",
    "TIME_INDEX",
    "Decoded",
    "FileHeader",
    "IndexKind",
    "Manifest",
    "Record",
    "RecordHead",
    "SealedSegment",
    "Stepped",
    "decode_index_header",
    "decode_log_header",
    "decode_manifest",
    "decode_records",
    "encode_index_header",
    "encode_index_sums",
    "encode_log_header",
    "encode_lost",
    "encode_manifest",
    "encode_record",
    "find_record",
    "manifest_bytes",
    "parse_segment_name",
    "peek_record",
    "segment_name",
    "step_to_offset",
]

VERSION = 1
CRC = struct.Struct(">I")

# --- manifest.bin ---------------------------------------------------------------------------------

MANIFEST_MAGIC = b"KERATIN\0"
MANIFEST_HEADER = struct.Struct(
    ">"
    "8s"  # magic
    "H"  # version
    "H"  # flags
    "I"  # header_len
    "I"  # crc32c, of every byte behind it
)
MANIFEST_PAYLOAD = struct.Struct(
    ">"
    "Q"  # created_ts_ms
    "Q"  # segment_max_bytes
    "I"  # index_stride_bytes
    "H"  # max_open_segments
    "H"  # reserved0
    "Q"  # active_base_offset
    "Q"  # next_offset
    "I"  # segment_count
)
MANIFEST_SEGMENT = struct.Struct(
    ">"
    "Q"  # base_offset
    "Q"  # last_offset
    "Q"  # log_bytes
    "Q"  # idx_bytes
)
MANIFEST_EXTENSION = struct.Struct(
    ">"
    "Q"  # log_start_offset
    "I"  # leader_epoch
    "I"  # clean_shutdown
)
MANIFEST_FLAG_EXTENSION = 1


class SealedSegment(NamedTuple):
    """A segment that takes no more records. `last_offset` is the last offset that it covers."""

    base_offset: int
    last_offset: int
    log_bytes: int
    idx_bytes: int

    @property
    def end_offset(self) -> int:
        return self.last_offset + 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a log vouches for: everything below next_offset was synced before this was written."""

    created_ts_ms: int
    segment_max_bytes: int
    index_stride_bytes: int
    max_open_segments: int
    active_base_offset: int
    next_offset: int
    segments: tuple[SealedSegment, ...] = ()
    log_start_offset: int = 0
    leader_epoch: int = 0
    clean_shutdown: bool = False

    def but(self, **changes: object) -> Manifest:
        return replace(self, **changes)  # type: ignore[arg-type]  # dataclasses.replace is not typed


def manifest_bytes(segment_count: int) -> int:
    """The size of a manifest with the extension."""
    return (
        MANIFEST_HEADER.size
        + MANIFEST_PAYLOAD.size
        + segment_count * MANIFEST_SEGMENT.size
        + MANIFEST_EXTENSION.size
    )


def encode_manifest(manifest: Manifest) -> bytes:
    body = b"".join(
        (
            MANIFEST_PAYLOAD.pack(
                manifest.created_ts_ms,
                manifest.segment_max_bytes,
                manifest.index_stride_bytes,
                manifest.max_open_segments,
                0,
                manifest.active_base_offset,
                manifest.next_offset,
                len(manifest.segments),
            ),
            *(MANIFEST_SEGMENT.pack(*segment) for segment in manifest.segments),
            MANIFEST_EXTENSION.pack(
                manifest.log_start_offset, manifest.leader_epoch, int(manifest.clean_shutdown)
            ),
        )
    )
    head = MANIFEST_HEADER.pack(
        MANIFEST_MAGIC, VERSION, MANIFEST_FLAG_EXTENSION, MANIFEST_HEADER.size, crc32c(body)
    )
    return head + body


def decode_manifest(data: bytes) -> Manifest:
    """Raises CorruptFile unless every byte is accounted for, the uncovered flags by the file's length."""
    fixed = MANIFEST_HEADER.size + MANIFEST_PAYLOAD.size
    if len(data) < fixed:
        raise CorruptFile(f"a manifest has at least {fixed} bytes, this has {len(data)}", position=0)
    magic, version, flags, header_len, crc = MANIFEST_HEADER.unpack_from(data)
    if magic != MANIFEST_MAGIC:
        raise CorruptFile(f"magic {magic!r} is not a manifest's", position=0)
    if version != VERSION:
        raise CorruptFile(f"manifest version {version}, only {VERSION} is known", position=8)
    if flags & ~MANIFEST_FLAG_EXTENSION:
        raise CorruptFile(f"unknown manifest flags {flags:#06x}", position=10)
    if header_len != MANIFEST_HEADER.size:
        raise CorruptFile(f"manifest header_len {header_len}", position=12)
    if crc32c(memoryview(data)[MANIFEST_HEADER.size :]) != crc:
        raise CorruptFile("the manifest's crc32c does not match", position=16)
    payload = MANIFEST_PAYLOAD.unpack_from(data, MANIFEST_HEADER.size)
    created, max_bytes, stride, max_open, _, active_base, next_offset, count = payload
    extended = bool(flags & MANIFEST_FLAG_EXTENSION)
    list_end = fixed + count * MANIFEST_SEGMENT.size
    if len(data) != list_end + (MANIFEST_EXTENSION.size if extended else 0):
        raise CorruptFile(
            f"{len(data)} bytes do not fit {count} segments and flags {flags:#06x}", position=10
        )
    segments = tuple(map(SealedSegment._make, MANIFEST_SEGMENT.iter_unpack(data[fixed:list_end])))
    if extended:
        start, epoch, clean = MANIFEST_EXTENSION.unpack_from(data, list_end)
    else:
        start, epoch, clean = (segments[0].base_offset if segments else active_base), 0, 0
    return Manifest(
        created_ts_ms=created,
        segment_max_bytes=max_bytes,
        index_stride_bytes=stride,
        max_open_segments=max_open,
        active_base_offset=active_base,
        next_offset=next_offset,
        segments=segments,
        log_start_offset=start,
        leader_epoch=epoch,
        clean_shutdown=clean == 1,
    )


# --- file headers ---------------------------------------------------------------------------------


class FileHeader(NamedTuple):
    base_offset: int
    created_ts_ms: int


LOG_MAGIC = b"KLOG\0\0\0\0"
LOG_HEADER = struct.Struct(
    ">"
    "8s"  # magic
    "H"  # version
    "H"  # flags
    "I"  # header_len
    "Q"  # base_offset
    "Q"  # created_ts_ms
    "32x"  # reserved
)
LOG_HEADER_BYTES = LOG_HEADER.size + CRC.size  # header_crc32c, of every byte before it


def encode_log_header(header: FileHeader) -> bytes:
    head = LOG_HEADER.pack(LOG_MAGIC, VERSION, 0, LOG_HEADER_BYTES, header.base_offset, header.created_ts_ms)
    return head + CRC.pack(crc32c(head))


def decode_log_header(data: bytes) -> FileHeader:
    _check_header(data, LOG_MAGIC, LOG_HEADER_BYTES, "log")
    base_offset, created_ts_ms = LOG_HEADER.unpack_from(data)[-2:]
    return FileHeader(base_offset, created_ts_ms)


class IndexKind(NamedTuple):
    """What tells the two index files apart."""

    suffix: str
    magic: bytes


INDEX = IndexKind("idx", b"KIDX\0\0\0\0")
TIME_INDEX = IndexKind("tidx", b"KTIX\0\0\0\0")

INDEX_HEADER = struct.Struct(
    ">"
    "8s"  # magic
    "H"  # version
    "H"  # flags
    "I"  # header_len
    "Q"  # base_offset
    "Q"  # created_ts_ms
    "H"  # entry_len
    "H"  # reserved0
    "32x"  # reserved
)
INDEX_HEADER_BYTES = INDEX_HEADER.size + CRC.size  # header_crc32c, of every byte before it

INDEX_ENTRY = struct.Struct(
    ">"
    "I"  # rel_offset
    "I"  # reserved0
    "Q"  # file_pos
)
TIME_ENTRY = struct.Struct(
    ">"
    "Q"  # timestamp_ms
    "I"  # rel_offset
    "I"  # reserved0
)


def encode_index_header(kind: IndexKind, header: FileHeader) -> bytes:
    head = INDEX_HEADER.pack(
        kind.magic,
        VERSION,
        0,
        INDEX_HEADER_BYTES,
        header.base_offset,
        header.created_ts_ms,
        INDEX_ENTRY.size,
        0,
    )
    return head + CRC.pack(crc32c(head))


def decode_index_header(kind: IndexKind, data: bytes) -> FileHeader:
    _check_header(data, kind.magic, INDEX_HEADER_BYTES, kind.suffix)
    _, _, _, _, base_offset, created_ts_ms, entry_len, _ = INDEX_HEADER.unpack_from(data)
    if entry_len != INDEX_ENTRY.size:
        raise CorruptFile(f"entry_len {entry_len}, only {INDEX_ENTRY.size} is known", position=32)
    return FileHeader(base_offset, created_ts_ms)


# What a checkpoint wrote into the two index files, so that a later reader can tell that they still hold it.
SUMS_MAGIC = b"KISUM\0\0\0"
INDEX_SUMS = struct.Struct(
    ">"
    "8s"  # magic
    "Q"  # base_offset
    "Q"  # idx_bytes
    "I"  # idx_crc32c
    "Q"  # tidx_bytes
    "I"  # tidx_crc32c
)


def encode_index_sums(base_offset: int, idx: bytes, tidx: bytes) -> bytes:
    """The `.isum` file of a segment with these index files."""
    sums = INDEX_SUMS.pack(SUMS_MAGIC, base_offset, len(idx), crc32c(idx), len(tidx), crc32c(tidx))
    return sums + CRC.pack(crc32c(sums))


def _check_header(data: bytes, magic: bytes, size: int, what: str) -> None:
    if len(data) < size:
        raise CorruptFile(f"a {what} header has {size} bytes, this file has {len(data)}", position=0)
    if data[:8] != magic:
        raise CorruptFile(f"magic {data[:8]!r} is not that of a .{what} file", position=0)
    if CRC.unpack_from(data, size - CRC.size)[0] != crc32c(data[: size - CRC.size]):
        raise CorruptFile(f"the .{what} header's crc32c does not match", position=size - CRC.size)
    version, flags, header_len = struct.unpack_from(">HHI", data, 8)
    # Behind a good CRC an unknown version is no damage: a newer program wrote this, hands off.
    if version != VERSION:
        raise UnknownVersion(f".{what} version {version}, only {VERSION} is known", position=8)
    if flags:
        raise CorruptFile(f"unknown .{what} flags {flags:#06x}", position=10)
    if header_len != size:
        raise CorruptFile(f".{what} header_len {header_len}, only {size} is known", position=12)


# --- records --------------------------------------------------------------------------------------

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
RECORD_OVERHEAD_BYTES = RECORD_HEAD.size + CRC.size
FLAG_SPAN = 1
FLAG_LOST = 2
KNOWN_FLAGS = FLAG_SPAN | FLAG_LOST
SPAN = struct.Struct(">I")
SPAN_BYTES = SPAN.size
MAX_SPAN = 0xFFFF_FFFF


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


def _record_head(flags: int, header_len: int, payload_len: int, timestamp_ms: int, offset: int) -> bytes:
    return RECORD_HEAD.pack(RECORD_MAGIC, VERSION, flags, 0, header_len, payload_len, timestamp_ms, offset)


def decode_records(view: memoryview, position: int, next_offset: int) -> Decoded:
    """Decode whole records from `view`, whose first byte lies at `position` in the file."""
    records: list[Record] = []
    start, size = 0, len(view)
    unpack_head, unpack_crc = RECORD_HEAD.unpack_from, CRC.unpack_from
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
            return Decoded(records, position + start, next_offset, 0, "the record's crc32c does not match")
        headers_at = start + 32
        span = 1
        if flags & FLAG_SPAN:
            span = SPAN.unpack_from(view, headers_at)[0] if header_len >= SPAN_BYTES else 0
            if span == 0:
                problem = "the record claims a span and gives none"
                return Decoded(records, position + start, next_offset, 0, problem)
            headers_at += SPAN_BYTES
        payload_at = start + 32 + header_len
        records.append(
            Record(
                offset,
                span,
                timestamp_ms,
                view[headers_at:payload_at],
                view[payload_at:crc_at],
                position + start,
                needed,
                flags > FLAG_SPAN,
            )
        )
        next_offset = offset + span
        start += needed
    return Decoded(records, position + start, next_offset, needed, None)


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


# --- file names -----------------------------------------------------------------------------------

SUMS_SUFFIX = "isum"
_SEGMENT_NAME = re.compile(r"([0-9]{20})\.(log|idx|tidx|isum)")


def segment_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}.{suffix}"


def parse_segment_name(name: str) -> tuple[int, str] | None:
    """(base offset, suffix), or None for a name that is not a segment's."""
    match = _SEGMENT_NAME.fullmatch(name)
    return None if match is None else (int(match[1]), match[2])
