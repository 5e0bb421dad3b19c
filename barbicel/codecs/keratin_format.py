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

from barbicel.errors import CorruptFile, UnknownVersion

__all__ = [
    "INDEX",
    "INDEX_ENTRY",
    "INDEX_HEADER_BYTES",
    "LOG_HEADER_BYTES",
    "SEGMENT_SUFFIXES",
    "SUMS_SUFFIX",
    "TIME_ENTRY",
    "TIME_INDEX",
    "FileHeader",
    "IndexKind",
    "Manifest",
    "SealedSegment",
    "decode_index_header",
    "decode_log_header",
    "decode_manifest",
    "encode_index_header",
    "encode_index_sums",
    "encode_log_header",
    "encode_manifest",
    "manifest_bytes",
    "parse_segment_name",
    "segment_name",
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


# --- file names -----------------------------------------------------------------------------------

SUMS_SUFFIX = "isum"
# Of the files that every segment has, the log first.
SEGMENT_SUFFIXES = ("log", INDEX.suffix, TIME_INDEX.suffix, SUMS_SUFFIX)
MAX_OFFSET = (1 << 64) - 1
_SEGMENT_NAME = re.compile(r"([0-9]{20})\.(log|idx|tidx|isum)")


def segment_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}.{suffix}"


def parse_segment_name(name: str) -> tuple[int, str] | None:
    """(base offset, suffix), or None for a name that is not a segment's."""
    match = _SEGMENT_NAME.fullmatch(name)
    if match is None or int(match[1]) > MAX_OFFSET:
        return None
    return int(match[1]), match[2]
