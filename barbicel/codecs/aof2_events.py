"""What Barbicel says in CustomEvent records, a schema each. docs/formats/aof2.md lists them.

Little-endian, nothing padded, every byte accounted for. A schema that is not listed here belongs to somebody
else: it is kept and passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from barbicel.codecs.aof2_payloads import CustomEvent
from barbicel.errors import CorruptFile

__all__ = [
    "DESCRIPTION",
    "Event",
    "RepairReason",
    "SegmentDescribed",
    "SegmentNeedsRepair",
    "SegmentRepaired",
    "StartOffsetMoved",
    "decode_event",
    "encode_event",
]


class RepairReason(IntEnum):
    """What is wrong with a segment's objects. Nothing is deleted for any of these."""

    NONE = 0
    OBJECT_MISSING = 1
    OBJECT_CHANGED = 2
    INDEX_MISSING = 3
    INDEX_CHANGED = 4
    OBJECT_CORRUPT = 5


class SegmentDescribed(NamedTuple):
    """What an uploaded segment holds. `end_offset` is the first offset behind it."""

    end_offset: int
    max_timestamp_ms: int
    message_count: int
    object_bytes: int
    object_crc32c: int
    index_bytes: int
    is_recompressed: bool


class StartOffsetMoved(NamedTuple):
    """Below it nothing may be read any more."""

    start_offset: int


class SegmentNeedsRepair(NamedTuple):
    reason: RepairReason


class SegmentRepaired(NamedTuple):
    """The reason why the segment needed repair is gone."""

    reason: RepairReason


Event: TypeAlias = SegmentDescribed | StartOffsetMoved | SegmentNeedsRepair | SegmentRepaired

DESCRIPTION = struct.Struct(
    "<"
    "q"  # end_offset
    "q"  # max_timestamp_ms
    "Q"  # message_count
    "Q"  # object_bytes
    "I"  # object_crc32c
    "I"  # index_bytes
    "B"  # is_recompressed
)

_SCHEMAS: Mapping[int, tuple[type[Event], struct.Struct]] = {
    1: (SegmentDescribed, DESCRIPTION),
    2: (StartOffsetMoved, struct.Struct("<Q")),
    3: (SegmentNeedsRepair, struct.Struct("<H")),
    4: (SegmentRepaired, struct.Struct("<H")),
}
_NUMBERS: Mapping[type[Event], int] = {kind: number for number, (kind, _) in _SCHEMAS.items()}


def encode_event(event: Event) -> CustomEvent:
    """The payload that says it. Raises ValueError for a number that its field cannot hold."""
    schema_id = _NUMBERS[type(event)]
    try:
        return CustomEvent(schema_id, _SCHEMAS[schema_id][1].pack(*event))
    except struct.error as error:
        raise ValueError(f"{event} cannot be written: {error}") from error


def decode_event(payload: CustomEvent) -> Event | None:
    """None for a schema of somebody else."""
    if payload.schema_id not in _SCHEMAS:
        return None
    kind, layout = _SCHEMAS[payload.schema_id]
    if len(payload.blob) != layout.size:
        raise CorruptFile(f"a {kind.__name__} has {layout.size} bytes, this one {len(payload.blob)}")
    fields = layout.unpack(payload.blob)
    if kind is SegmentDescribed:
        return SegmentDescribed._make((*fields[:-1], bool(fields[-1])))
    if kind is StartOffsetMoved:
        return StartOffsetMoved(*fields)
    try:
        reason = RepairReason(fields[0])
    except ValueError as error:
        raise CorruptFile(f"a {kind.__name__} with reason {fields[0]}") from error
    return SegmentNeedsRepair(reason) if kind is SegmentNeedsRepair else SegmentRepaired(reason)
