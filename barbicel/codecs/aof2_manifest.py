"""The manifest log as bytes: chunk headers and the records behind them. Little-endian, CRC-64/NVME.

Owns the byte layout and nothing else; docs/formats/aof2.md draws it, aof2_payloads has the payloads. Its
invariant: a record is given out only if its chunk's CRC and its own are right. A decoder raises
CorruptManifest with chunk, position, segment and logical offset as far as they are known; the caller adds the
path.

    0      8        12          16           24           32           40             48           56
    magic  version  header_len  chunk_index  base_record  tail_offset  committed_len  chunk_crc64  flags
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from barbicel.codecs.aof2_payloads import Payload, decode_payload, encode_payload
from barbicel.codecs.crc64 import crc64_nvme
from barbicel.disk import Bytes
from barbicel.errors import CorruptFile, CorruptManifest, UnknownVersion

__all__ = [
    "CHUNK_HEADER_BYTES",
    "CHUNK_MAX_BYTES",
    "FLAG_SEALED",
    "FLAG_UPLOADED",
    "NO_SEGMENT",
    "RECORD_HEADER_BYTES",
    "ChunkHeader",
    "ManifestRecord",
    "PlacedRecord",
    "decode_chunk",
    "decode_chunk_header",
    "decode_records",
    "encode_chunk_header",
    "encode_record",
]

MAGIC = 0x414F46324D4C4F47  # "AOF2MLOG", which a little-endian u64 turns around
VERSION = 1
FLAG_SEALED = 1
FLAG_UPLOADED = 2
KNOWN_FLAGS = FLAG_SEALED | FLAG_UPLOADED
# However it has grown.
CHUNK_MAX_BYTES = 1 << 20
# The segment_id of a record that speaks of the stream and not of one segment.
NO_SEGMENT = (1 << 64) - 1

CHUNK_HEADER = struct.Struct(
    "<"
    "Q"  # magic
    "I"  # version
    "I"  # header_len
    "Q"  # chunk_index
    "Q"  # base_record
    "Q"  # tail_offset
    "Q"  # committed_len
    "Q"  # chunk_crc64
    "Q"  # flags
)
CHUNK_HEADER_BYTES = CHUNK_HEADER.size

RECORD_HEADER = struct.Struct(
    "<"
    "H"  # record_type
    "H"  # flags
    "I"  # payload_len
    "Q"  # segment_id
    "Q"  # logical_offset
    "Q"  # timestamp_ms
    "Q"  # payload_crc64
)
RECORD_HEADER_BYTES = RECORD_HEADER.size


class ChunkHeader(NamedTuple):
    """The first 64 bytes of a chunk. Both lengths count from the start of the file."""

    chunk_index: int
    # The number of the chunk's first record in its stream.
    base_record: int
    tail_offset: int
    committed_len: int
    # Of the bytes from the header's end to committed_len.
    chunk_crc64: int
    flags: int = 0

    @property
    def is_sealed(self) -> bool:
        return bool(self.flags & FLAG_SEALED)

    @property
    def is_uploaded(self) -> bool:
        return bool(self.flags & FLAG_UPLOADED)


class ManifestRecord(NamedTuple):
    """One transition. A timestamp of 0 is replaced by the time at which it is appended."""

    payload: Payload
    segment_id: int = NO_SEGMENT
    logical_offset: int = 0
    timestamp_ms: int = 0


class PlacedRecord(NamedTuple):
    """A record and the byte at which it begins in its chunk."""

    position: int
    record: ManifestRecord


def encode_chunk_header(header: ChunkHeader) -> bytes:
    return CHUNK_HEADER.pack(MAGIC, VERSION, CHUNK_HEADER_BYTES, *header)


def decode_chunk_header(data: Bytes, chunk_index: int) -> ChunkHeader:
    """The header that a chunk of this index must have; its CRC is not looked at."""
    if len(data) < CHUNK_HEADER_BYTES:
        raise CorruptManifest(
            f"a chunk has at least {CHUNK_HEADER_BYTES} bytes, this one {len(data)}",
            chunk_index=chunk_index,
            position=len(data),
        )
    magic, version, header_len, *fields = CHUNK_HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CorruptManifest(f"magic {magic:#018x} is wrong", chunk_index=chunk_index, position=0)
    header = ChunkHeader(*fields)
    if version != VERSION or header.flags & ~KNOWN_FLAGS:
        raise UnknownVersion(
            f"chunk {chunk_index}: version {version} with flags {header.flags:#x} is not known", position=8
        )
    if header_len != CHUNK_HEADER_BYTES:
        raise CorruptManifest(f"header_len {header_len}", chunk_index=chunk_index, position=12)
    _check_header(header, chunk_index)
    return header


def _check_header(header: ChunkHeader, chunk_index: int) -> None:
    if header.chunk_index != chunk_index:
        raise CorruptManifest(
            f"its header says that it is chunk {header.chunk_index}", chunk_index=chunk_index, position=16
        )
    if not CHUNK_HEADER_BYTES <= header.committed_len <= header.tail_offset:
        raise CorruptManifest(
            f"committed_len {header.committed_len} with tail_offset {header.tail_offset}",
            chunk_index=chunk_index,
            position=40,
        )
    if header.is_uploaded and not header.is_sealed:
        raise CorruptManifest("it is uploaded and not sealed", chunk_index=chunk_index, position=56)


def decode_chunk(data: Bytes, chunk_index: int) -> tuple[ChunkHeader, list[PlacedRecord]]:
    """A whole chunk: every committed record, all CRCs checked. Bytes behind committed_len are passed over."""
    header = decode_chunk_header(data, chunk_index)
    if not header.committed_len <= min(len(data), CHUNK_MAX_BYTES):
        raise CorruptManifest(
            f"committed are {header.committed_len} bytes, there are {len(data)}",
            chunk_index=chunk_index,
            position=len(data),
        )
    committed = memoryview(data)[: header.committed_len]
    crc64 = crc64_nvme(committed[CHUNK_HEADER_BYTES:])
    # Records first: where one of them is damaged, its place says more than the chunk's CRC does.
    records = list(decode_records(committed, chunk_index))
    if crc64 != header.chunk_crc64:
        raise CorruptManifest("chunk_crc64 does not match", chunk_index=chunk_index, position=48)
    return header, records


def encode_record(record: ManifestRecord) -> bytes:
    """Raises ValueError for what the fields cannot hold."""
    payload, segment_id, logical_offset, timestamp_ms = record
    record_type, data = encode_payload(payload)
    try:
        header = RECORD_HEADER.pack(
            record_type, 0, len(data), segment_id, logical_offset, timestamp_ms, crc64_nvme(data)
        )
    except struct.error as error:
        raise ValueError(f"{record} cannot be written: {error}") from error
    return header + data


def decode_records(committed: Bytes, chunk_index: int) -> Iterator[PlacedRecord]:
    """The records from the chunk's header to the end of the bytes, each with its own CRC checked."""
    view = memoryview(committed)
    position = CHUNK_HEADER_BYTES
    while position < len(view):
        if len(view) - position < RECORD_HEADER_BYTES:
            raise CorruptManifest("a record header is cut off", chunk_index=chunk_index, position=position)
        record_type, flags, payload_len, *where, crc64 = RECORD_HEADER.unpack_from(view, position)
        payload = view[position + RECORD_HEADER_BYTES :][:payload_len]
        place = _Place(chunk_index, position, where[0], where[1])
        if not 0 < payload_len == len(payload):
            raise place.error(f"payload_len {payload_len} with {len(payload)} bytes left")
        if crc64_nvme(payload) != crc64:
            raise place.error("payload_crc64 does not match")
        yield PlacedRecord(position, ManifestRecord(place.decode(record_type, flags, payload), *where))
        position += RECORD_HEADER_BYTES + payload_len


class _Place(NamedTuple):
    """Where a record is, for the errors that name it."""

    chunk_index: int
    position: int
    segment_id: int
    logical_offset: int

    def error(self, reason: str) -> CorruptManifest:
        chunk_index, position, segment_id, logical_offset = self
        return CorruptManifest(
            reason,
            chunk_index=chunk_index,
            segment_id=segment_id,
            logical_offset=logical_offset,
            position=position,
        )

    def decode(self, record_type: int, flags: int, payload: memoryview) -> Payload:
        if flags:
            raise self.error(f"record flags {flags:#06x} are not known")
        try:
            return decode_payload(record_type, bytes(payload))
        except CorruptFile as error:
            raise self.error(error.message) from error
