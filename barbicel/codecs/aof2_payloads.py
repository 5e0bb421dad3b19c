"""The payloads of manifest records as bytes: one class a record type, fields in the specification's order.

Owns the byte layout and nothing else; docs/formats/aof2.md draws it. Little-endian, nothing padded. First the
fixed fields, in which a text or a blob is its u16 length, then the texts and blobs themselves. A decoder
raises CorruptFile unless every byte is accounted for.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from barbicel.errors import CorruptFile, UnknownVersion

__all__ = [
    "CompressionDone",
    "CompressionFailed",
    "CompressionStarted",
    "CustomEvent",
    "HydrationDone",
    "HydrationFailed",
    "HydrationStarted",
    "LocalEvicted",
    "Payload",
    "RecordType",
    "SealSegment",
    "SegmentOpened",
    "SnapshotMarker",
    "Tier2DeleteQueued",
    "Tier2Deleted",
    "UploadDone",
    "UploadFailed",
    "UploadStarted",
    "decode_payload",
    "encode_payload",
]

U16_MAX = 0xFFFF


class RecordType(IntEnum):
    """record_type of a record's header."""

    SEGMENT_OPENED = 0
    SEAL_SEGMENT = 1
    COMPRESSION_STARTED = 2
    COMPRESSION_DONE = 3
    COMPRESSION_FAILED = 4
    UPLOAD_STARTED = 5
    UPLOAD_DONE = 6
    UPLOAD_FAILED = 7
    TIER2_DELETE_QUEUED = 8
    TIER2_DELETED = 9
    HYDRATION_STARTED = 10
    HYDRATION_DONE = 11
    HYDRATION_FAILED = 12
    LOCAL_EVICTED = 13
    SNAPSHOT_MARKER = 14
    CUSTOM_EVENT = 15


class SegmentOpened(NamedTuple):
    """The local log has a new segment."""

    base_offset: int
    epoch: int


class SealSegment(NamedTuple):
    """The segment takes no more records; logical_offset is its last offset."""

    durable_bytes: int
    segment_crc64: int


class CompressionStarted(NamedTuple):
    job_id: int


class CompressionDone(NamedTuple):
    """The warm artifact is durable."""

    compressed_bytes: int
    dictionary_id: int


class CompressionFailed(NamedTuple):
    reason_code: int


class UploadStarted(NamedTuple):
    key: str


class UploadDone(NamedTuple):
    key: str
    etag: str


class UploadFailed(NamedTuple):
    key: str
    reason_code: int


class Tier2DeleteQueued(NamedTuple):
    """The object is about to be deleted: nobody may begin to read it."""

    key: str


class Tier2Deleted(NamedTuple):
    key: str


class HydrationStarted(NamedTuple):
    """The segment is being read from tier 1 or 2."""

    source_tier: int


class HydrationDone(NamedTuple):
    resident_bytes: int


class HydrationFailed(NamedTuple):
    reason_code: int


class LocalEvicted(NamedTuple):
    """The local log has dropped the segment; logical_offset is its last durable byte."""

    reclaimed_bytes: int


class SnapshotMarker(NamedTuple):
    """A snapshot of everything up to this position is durable."""

    chunk_index: int
    chunk_offset: int
    snapshot_id: int


class CustomEvent(NamedTuple):
    """See aof2_events for the schemas."""

    schema_id: int
    blob: bytes


Payload: TypeAlias = (
    SegmentOpened
    | SealSegment
    | CompressionStarted
    | CompressionDone
    | CompressionFailed
    | UploadStarted
    | UploadDone
    | UploadFailed
    | Tier2DeleteQueued
    | Tier2Deleted
    | HydrationStarted
    | HydrationDone
    | HydrationFailed
    | LocalEvicted
    | SnapshotMarker
    | CustomEvent
)


class _Layout(NamedTuple):
    kind: type[Payload]
    fixed: struct.Struct
    # Which fields are texts or blobs: their u16 in the fixed part is a length.
    variable: tuple[int, ...] = ()


_LAYOUTS: Mapping[RecordType, _Layout] = {
    RecordType.SEGMENT_OPENED: _Layout(SegmentOpened, struct.Struct("<QI")),
    RecordType.SEAL_SEGMENT: _Layout(SealSegment, struct.Struct("<QQ")),
    RecordType.COMPRESSION_STARTED: _Layout(CompressionStarted, struct.Struct("<I")),
    RecordType.COMPRESSION_DONE: _Layout(CompressionDone, struct.Struct("<QI")),
    RecordType.COMPRESSION_FAILED: _Layout(CompressionFailed, struct.Struct("<I")),
    RecordType.UPLOAD_STARTED: _Layout(UploadStarted, struct.Struct("<H"), (0,)),
    RecordType.UPLOAD_DONE: _Layout(UploadDone, struct.Struct("<HH"), (0, 1)),
    RecordType.UPLOAD_FAILED: _Layout(UploadFailed, struct.Struct("<HI"), (0,)),
    RecordType.TIER2_DELETE_QUEUED: _Layout(Tier2DeleteQueued, struct.Struct("<H"), (0,)),
    RecordType.TIER2_DELETED: _Layout(Tier2Deleted, struct.Struct("<H"), (0,)),
    RecordType.HYDRATION_STARTED: _Layout(HydrationStarted, struct.Struct("<Q")),
    RecordType.HYDRATION_DONE: _Layout(HydrationDone, struct.Struct("<Q")),
    RecordType.HYDRATION_FAILED: _Layout(HydrationFailed, struct.Struct("<I")),
    RecordType.LOCAL_EVICTED: _Layout(LocalEvicted, struct.Struct("<Q")),
    RecordType.SNAPSHOT_MARKER: _Layout(SnapshotMarker, struct.Struct("<QQQ")),
    RecordType.CUSTOM_EVENT: _Layout(CustomEvent, struct.Struct("<IH"), (1,)),
}
_TYPES: Mapping[type[Payload], RecordType] = {layout.kind: number for number, layout in _LAYOUTS.items()}


def encode_payload(payload: Payload) -> tuple[RecordType, bytes]:
    """Raises ValueError for a number or a text that its field cannot hold."""
    record_type = _TYPES[type(payload)]
    layout = _LAYOUTS[record_type]
    fields: list[Any] = list(payload)
    tail = [_encode_variable(fields[place]) for place in layout.variable]
    for place, data in zip(layout.variable, tail, strict=True):
        fields[place] = len(data)
    try:
        return record_type, b"".join((layout.fixed.pack(*fields), *tail))
    except struct.error as error:
        raise ValueError(f"{payload} cannot be written: {error}") from error


def _encode_variable(value: str | bytes) -> bytes:
    data = value.encode("utf-8") if isinstance(value, str) else value
    if len(data) > U16_MAX:
        raise ValueError(f"{len(data)} bytes do not fit a length of 16 bits")
    return data


def decode_payload(number: int, data: bytes) -> Payload:
    """Raises CorruptFile, or UnknownVersion for a record type that a newer program writes."""
    if number not in _LAYOUTS:
        raise UnknownVersion(f"record type {number} is not known", position=0)
    layout = _LAYOUTS[RecordType(number)]
    if len(data) < layout.fixed.size:
        raise CorruptFile(f"{len(data)} bytes are too few for a {layout.kind.__name__}", position=0)
    fields: list[Any] = list(layout.fixed.unpack_from(data))
    end = layout.fixed.size + sum(fields[place] for place in layout.variable)
    if end != len(data):
        raise CorruptFile(f"a {layout.kind.__name__} of {end} bytes in {len(data)}", position=0)
    start = layout.fixed.size
    for place in layout.variable:
        start, fields[place] = start + fields[place], data[start : start + fields[place]]
    return _build(layout, fields)


def _build(layout: _Layout, fields: list[Any]) -> Payload:
    if layout.kind is not CustomEvent:
        try:
            for place in layout.variable:
                fields[place] = fields[place].decode("utf-8")
        except UnicodeDecodeError as error:
            raise CorruptFile(f"a {layout.kind.__name__} holds bytes that are no text", position=0) from error
    return layout.kind(*fields)
