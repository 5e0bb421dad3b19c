"""A snapshot of a stream's catalogue as bytes. Little-endian, CRC-64/NVME; docs/formats/aof2.md draws it.

Owns the byte layout and the values that it holds. Its invariant: the CRC covers every other byte, so that a
snapshot is whole or refused. A decoder raises CorruptFile with the position inside the bytes it was given;
the caller adds the path.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from barbicel.codecs.aof2_events import DESCRIPTION, RepairReason, SegmentDescribed
from barbicel.codecs.crc64 import crc64_nvme
from barbicel.disk import Bytes
from barbicel.errors import CorruptFile, UnknownVersion

__all__ = [
    "SNAPSHOT_MAX_BYTES",
    "CatalogueImage",
    "ManifestSnapshot",
    "PendingDelete",
    "Progress",
    "SegmentEntry",
    "decode_manifest_snapshot",
    "encode_manifest_snapshot",
]

MAGIC = b"AOF2SNAP"
VERSION = 1
# A million segments; a file that says it is larger is none of ours.
SNAPSHOT_MAX_BYTES = 1 << 29

HEADER = struct.Struct(
    "<"
    "8s"  # magic
    "I"  # version
    "I"  # header_len
    "Q"  # crc64 of every other byte
    "Q"  # total_len
    "Q"  # snapshot_id
    "Q"  # created_ms
    "Q"  # chunk_index
    "Q"  # chunk_offset
    "Q"  # next_record
    "Q"  # start_offset
    "I"  # segment_count
    "I"  # delete_count
    "H"  # stream_id_len
    "6x"
)
CRC_START, CRC_END = 16, 24

ENTRY = struct.Struct(
    "<"
    "Q"  # segment_id
    "Q"  # base_offset
    "Q"  # last_offset
    "Q"  # durable_bytes
    "Q"  # segment_crc64
    "Q"  # compressed_bytes
    "Q"  # reclaimed_bytes
    "Q"  # source_tier
    "Q"  # resident_bytes
    "I"  # epoch
    "I"  # job_id
    "I"  # dictionary_id
    "I"  # compression_reason
    "I"  # upload_reason
    "I"  # upload_failures
    "I"  # hydration_reason
    "B"  # compression
    "B"  # upload
    "B"  # hydration
    "B"  # repair
    "B"  # flags: opened, sealed, local, delete queued, described
    "3x"
    "H"  # key_len
    "H"  # etag_len
)
DELETE = struct.Struct(
    "<"
    "Q"  # segment_id
    "H"  # key_len
)


class Progress(IntEnum):
    """How far a job is."""

    NONE = 0
    STARTED = 1
    DONE = 2
    FAILED = 3


class SegmentEntry(NamedTuple):
    """Everything that the manifest says of one segment."""

    segment_id: int
    base_offset: int = 0
    last_offset: int = 0
    durable_bytes: int = 0
    segment_crc64: int = 0
    compressed_bytes: int = 0
    reclaimed_bytes: int = 0
    source_tier: int = 0
    resident_bytes: int = 0
    epoch: int = 0
    job_id: int = 0
    dictionary_id: int = 0
    compression_reason: int = 0
    upload_reason: int = 0
    # In a row, since the last upload that went well.
    upload_failures: int = 0
    hydration_reason: int = 0
    compression: Progress = Progress.NONE
    upload: Progress = Progress.NONE
    hydration: Progress = Progress.NONE
    repair: RepairReason = RepairReason.NONE
    # False if something is told of a segment of which it is not told that it began.
    is_opened: bool = False
    is_sealed: bool = False
    is_local: bool = True
    is_delete_queued: bool = False
    key: str = ""
    etag: str = ""
    description: SegmentDescribed | None = None

    @property
    def end_offset(self) -> int:
        """The first offset behind a sealed segment."""
        return self.last_offset + 1 if self.description is None else self.description.end_offset

    @property
    def is_tiered(self) -> bool:
        """Whether the object store has it and may be asked for it."""
        return self.upload is Progress.DONE and not self.is_delete_queued


class PendingDelete(NamedTuple):
    """An object that was to be deleted, and is not known to be gone."""

    key: str
    segment_id: int


class CatalogueImage(NamedTuple):
    """A whole catalogue as a value; segments ascend by their id, deletes by their key."""

    start_offset: int = 0
    segments: tuple[SegmentEntry, ...] = ()
    deletes: tuple[PendingDelete, ...] = ()


class ManifestSnapshot(NamedTuple):
    """A catalogue and the place in the log behind the last record that it holds."""

    stream_id: str
    snapshot_id: int
    created_ms: int
    chunk_index: int
    chunk_offset: int
    next_record: int
    catalogue: CatalogueImage


def encode_manifest_snapshot(snapshot: ManifestSnapshot) -> bytes:
    stream_id, snapshot_id, created_ms, chunk_index, chunk_offset, next_record, catalogue = snapshot
    name = stream_id.encode("utf-8")
    body = b"".join((name, *_encode_entries(catalogue), *_encode_deletes(catalogue)))
    head = HEADER.pack(
        MAGIC,
        VERSION,
        HEADER.size,
        0,
        HEADER.size + len(body),
        snapshot_id,
        created_ms,
        chunk_index,
        chunk_offset,
        next_record,
        catalogue.start_offset,
        len(catalogue.segments),
        len(catalogue.deletes),
        len(name),
    )
    data = bytearray(head + body)
    data[CRC_START:CRC_END] = _crc64(data).to_bytes(8, "little")
    return bytes(data)


def _crc64(data: Bytes) -> int:
    view = memoryview(data)
    return crc64_nvme(view[CRC_END:], crc64_nvme(view[:CRC_START]))


def _encode_entries(catalogue: CatalogueImage) -> Iterator[bytes]:
    for entry in catalogue.segments:
        # The fields up to `repair` are ENTRY's, in its order; the four behind them are flags.
        flags = (*entry[20:24], entry.description is not None)
        key, etag = entry.key.encode("utf-8"), entry.etag.encode("utf-8")
        yield ENTRY.pack(*entry[:20], sum(flag << bit for bit, flag in enumerate(flags)), len(key), len(etag))
        yield key + etag
        if entry.description is not None:
            yield DESCRIPTION.pack(*entry.description)


def _encode_deletes(catalogue: CatalogueImage) -> Iterator[bytes]:
    for key, segment_id in catalogue.deletes:
        name = key.encode("utf-8")
        yield DELETE.pack(segment_id, len(name)) + name


def decode_manifest_snapshot(data: Bytes) -> ManifestSnapshot:
    """Raises CorruptFile unless every byte is accounted for."""
    if len(data) < HEADER.size:
        raise CorruptFile(f"a snapshot has at least {HEADER.size} bytes, this one {len(data)}", position=0)
    magic, version, header_len, crc64, total_len, *where, start_offset, segments, deletes, name_len = (
        HEADER.unpack_from(data)
    )
    if magic != MAGIC:
        raise CorruptFile(f"magic {magic!r} is not {MAGIC!r}", position=0)
    if total_len != len(data):
        raise CorruptFile(f"total_len {total_len} in {len(data)} bytes", position=CRC_END)
    if _crc64(data) != crc64:
        raise CorruptFile("the snapshot's crc64 does not match", position=CRC_START)
    if version != VERSION or header_len != HEADER.size:
        raise UnknownVersion(f"version {version} with header_len {header_len} is not known", position=8)
    try:
        cursor = _Cursor(data, HEADER.size)
        stream_id = cursor.text(name_len)
        catalogue = CatalogueImage(
            start_offset,
            tuple(cursor.entry() for _ in range(cursor.affordable(segments, ENTRY))),
            tuple(cursor.delete() for _ in range(cursor.affordable(deletes, DELETE))),
        )
    except (struct.error, ValueError) as error:
        raise CorruptFile(f"the snapshot cannot be read: {error}", position=cursor.position) from error
    cursor.need_end()
    return ManifestSnapshot._make((stream_id, *where, catalogue))


class _Cursor:
    """Takes structures from the front; a declared count or length is checked before it is believed."""

    def __init__(self, data: Bytes, position: int) -> None:
        self._data = memoryview(data)
        self.position = position

    def affordable(self, count: int, smallest: struct.Struct) -> int:
        if count * smallest.size > len(self._data) - self.position:
            raise ValueError(f"{count} elements are declared")
        return count

    def text(self, length: int) -> str:
        end = self.position + length
        if end > len(self._data):
            raise ValueError(f"a text of {length} bytes is declared")
        start, self.position = self.position, end
        return str(self._data[start:end], "utf-8")

    def _take(self, layout: struct.Struct) -> tuple[Any, ...]:
        fields = layout.unpack_from(self._data, self.position)
        self.position += layout.size
        return fields

    def entry(self) -> SegmentEntry:
        *numbers, compression, upload, hydration, repair, flags, key_len, etag_len = self._take(ENTRY)
        if flags >= 1 << 5:
            raise ValueError(f"flags {flags:#04x}")
        states = Progress(compression), Progress(upload), Progress(hydration), RepairReason(repair)
        is_set = (bool(flags >> bit & 1) for bit in range(4))
        key, etag = self.text(key_len), self.text(etag_len)
        description = self._description() if flags & 1 << 4 else None
        return SegmentEntry._make((*numbers, *states, *is_set, key, etag, description))

    def _description(self) -> SegmentDescribed:
        *numbers, is_recompressed = self._take(DESCRIPTION)
        return SegmentDescribed._make((*numbers, bool(is_recompressed)))

    def delete(self) -> PendingDelete:
        segment_id, key_len = self._take(DELETE)
        return PendingDelete(self.text(key_len), segment_id)

    def need_end(self) -> None:
        if self.position != len(self._data):
            raise CorruptFile(f"{len(self._data) - self.position} bytes too many", position=self.position)
