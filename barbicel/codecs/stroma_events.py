"""A delta as bytes: its header, and the events that change a group's state. Big-endian, CRC-32C.

Owns the byte layout and nothing else; docs/formats/stroma.md draws it. A decoder raises CorruptFile with the
position inside the bytes it was given; the caller adds the path.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from barbicel.codecs.stroma_format import (
    CRC,
    MAX_OFFSET,
    VERSION,
    check_generation,
    check_header,
    decode_epoch,
    decode_metadata,
    encode_epoch,
    encode_length,
)
from barbicel.errors import CorruptFile, UnknownVersion

__all__ = [
    "DELTA_HEADER_BYTES",
    "EVENT_OVERHEAD_BYTES",
    "Ack",
    "BumpAckedUntil",
    "ClearInflight",
    "Commit",
    "DecodedEvents",
    "DeltaHeader",
    "Event",
    "MarkInflight",
    "Release",
    "Reset",
    "count_events",
    "decode_delta_header",
    "decode_events",
    "encode_delta_header",
    "encode_event",
]


class MarkInflight(NamedTuple):
    """The offset was handed out until the deadline; the epoch counts its deliveries."""

    offset: int
    deadline_ts_ms: int
    epoch: int


class Ack(NamedTuple):
    offset: int


class ClearInflight(NamedTuple):
    """The offset is available again, as if it had never been handed out."""

    offset: int


class BumpAckedUntil(NamedTuple):
    """Everything below is acked. Only ever forwards."""

    acked_until: int


class Reset(NamedTuple):
    """Nothing was ever consumed."""


class Commit(NamedTuple):
    """The position is set, backwards too, and everything beyond it is available."""

    acked_until: int
    leader_epoch: int | None
    metadata: bytes | None


class Release(NamedTuple):
    """The offset is available again, and its delivery count is kept."""

    offset: int
    epoch: int


Event = MarkInflight | Ack | ClearInflight | BumpAckedUntil | Reset | Commit | Release

EVENT_MAGIC = 0x4B45  # "KE"
EVENT_START = struct.pack(">HH", EVENT_MAGIC, VERSION)
EVENT_HEAD = struct.Struct(
    ">"
    "H"  # magic
    "H"  # version
    "H"  # event_type
    "H"  # flags
    "I"  # len
)
EVENT_OVERHEAD_BYTES = EVENT_HEAD.size + CRC.size

MARK_INFLIGHT = struct.Struct(
    ">"
    "Q"  # offset
    "Q"  # deadline_ts_ms
    "I"  # epoch
)
OFFSET = struct.Struct(">Q")  # of Ack, ClearInflight and BumpAckedUntil
RESET = struct.Struct("")
COMMIT = struct.Struct(
    ">"
    "Q"  # acked_until
    "I"  # leader_epoch, 0xFFFFFFFF none
    "H"  # metadata_len, 0xFFFF null
)
RELEASE = struct.Struct(
    ">"
    "Q"  # offset
    "I"  # epoch
)

# Every event but Commit, whose metadata follows the fixed part, has this many bytes.
_FIXED: dict[int, tuple[type[Event], struct.Struct]] = {
    1: (MarkInflight, MARK_INFLIGHT),
    2: (Ack, OFFSET),
    3: (ClearInflight, OFFSET),
    4: (BumpAckedUntil, OFFSET),
    5: (Reset, RESET),
    7: (Release, RELEASE),
}
_COMMIT_TYPE = 6
MAX_COMMIT_BYTES = COMMIT.size + 0xFFFE
# A search for events may check this many times the bytes that it looks through.
SEARCH_FACTOR = 16
_TYPE_OF = {kind: (number, layout) for number, (kind, layout) in _FIXED.items()}


def _last_of(kind: type[Event]) -> int:
    """The largest first field of an event: a position may be the last one, a message has one behind it."""
    return MAX_OFFSET if kind in (BumpAckedUntil, Commit) else MAX_OFFSET - 1


_LAST_OF = {kind: _last_of(kind) for kind in (*_TYPE_OF, Commit)}


def encode_event(event: Event) -> bytes:
    """Raises ValueError for an offset, deadline, epoch or metadata that the format cannot hold."""
    if event and not 0 <= event[0] <= _LAST_OF[type(event)]:
        raise ValueError(f"an offset is 0 to {_LAST_OF[type(event)]}, not {event[0]}")
    if isinstance(event, Commit):
        number, payload = _COMMIT_TYPE, _encode_commit(event)
    else:
        number, layout = _TYPE_OF[type(event)]
        try:
            payload = layout.pack(*event)
        except struct.error as error:
            raise ValueError(f"{event} cannot be written: {error}") from None
    framed = EVENT_HEAD.pack(EVENT_MAGIC, VERSION, number, 0, len(payload)) + payload
    return framed + CRC.pack(crc32c(framed[2:]))


def _encode_commit(event: Commit) -> bytes:
    return COMMIT.pack(event.acked_until, encode_epoch(event.leader_epoch), encode_length(event.metadata)) + (
        event.metadata or b""
    )


class DecodedEvents(NamedTuple):
    """What a stretch of bytes held; `position` is the first byte behind the last whole event.

    `problem` says why there is no event at `position`; None if the bytes end there.
    """

    events: list[Event]
    position: int
    problem: str | None


def decode_events(data: bytes, position: int) -> DecodedEvents:
    """Decode the whole events from `position` to the end of `data`."""
    events: list[Event] = []
    view = memoryview(data)
    while position < len(data):
        if len(data) - position < EVENT_OVERHEAD_BYTES:
            return DecodedEvents(events, position, f"{len(data) - position} bytes are no event")
        magic, version, number, flags, length = EVENT_HEAD.unpack_from(data, position)
        if magic != EVENT_MAGIC:
            return DecodedEvents(events, position, f"no event starts here (magic {magic:#06x})")
        if length > len(data) - position - EVENT_OVERHEAD_BYTES:
            return DecodedEvents(events, position, f"an event of {length} bytes reaches beyond the end")
        end = position + EVENT_HEAD.size + length
        if CRC.unpack_from(data, end)[0] != crc32c(view[position + 2 : end]):
            return DecodedEvents(events, position, "the event's crc32c does not match")
        if version != VERSION or flags:
            raise UnknownVersion(f"event version {version}, flags {flags:#06x}", position=position)
        events.append(_decode_payload(number, data[position + EVENT_HEAD.size : end], position))
        position = end + CRC.size
    return DecodedEvents(events, position, None)


def _decode_payload(number: int, payload: bytes, position: int) -> Event:
    """An unknown event behind a good CRC is refused: passing over it would change what follows."""
    if number == _COMMIT_TYPE:
        return _decode_commit(payload, position)
    known = _FIXED.get(number)
    if known is None:
        raise UnknownVersion(f"event type {number} is not known", position=position)
    kind, layout = known
    if len(payload) != layout.size:
        raise CorruptFile(f"a {kind.__name__} of {len(payload)} bytes", position=position)
    event = kind(*layout.unpack(payload))
    if event and event[0] > _LAST_OF[kind]:
        raise CorruptFile(f"a {kind.__name__} of offset {event[0]}", position=position)
    return event


def _decode_commit(payload: bytes, position: int) -> Commit:
    if len(payload) < COMMIT.size:
        raise CorruptFile(f"a Commit of {len(payload)} bytes", position=position)
    acked_until, leader_epoch, length = COMMIT.unpack_from(payload)
    if acked_until > MAX_OFFSET:
        raise CorruptFile(f"a Commit of offset {acked_until}", position=position)
    metadata = decode_metadata(payload[COMMIT.size :], length, position)
    return Commit(acked_until, decode_epoch(leader_epoch), metadata)


def count_events(data: bytes, start: int) -> int:
    """How many whole events lie anywhere behind `start`.

    Looks at each byte a few times at most, whatever the bytes are; what it does not get to is not counted.
    """
    count, left_bytes = 0, SEARCH_FACTOR * len(data)
    at = data.find(EVENT_START, start)
    while at >= 0 and left_bytes > 0:
        end = _end_of_event(data, at)
        left_bytes -= EVENT_OVERHEAD_BYTES if end is None else end - at
        if end is not None and _is_event(data, at, end):
            count += 1
            at = data.find(EVENT_START, end)
        else:
            at = data.find(EVENT_START, at + 1)
    return count


def _end_of_event(data: bytes, at: int) -> int | None:
    """Where an event that begins here would end, None if its head is not that of an event."""
    if len(data) - at < EVENT_OVERHEAD_BYTES:
        return None
    _, _, number, flags, length = EVENT_HEAD.unpack_from(data, at)
    end = at + EVENT_OVERHEAD_BYTES + int(length)
    known = _FIXED.get(number)
    has_size = length == known[1].size if known is not None else COMMIT.size <= length <= MAX_COMMIT_BYTES
    is_known = number == _COMMIT_TYPE or known is not None
    return end if is_known and has_size and not flags and end <= len(data) else None


def _is_event(data: bytes, at: int, end: int) -> bool:
    try:
        return bool(decode_events(data[at:end], 0).events)
    except CorruptFile:
        return False


# --- the delta's header ---------------------------------------------------------------------------

DELTA_MAGIC = b"KDELTA\0\0"
DELTA_HEADER = struct.Struct(
    ">"
    "8s"  # magic
    "H"  # version
    "H"  # flags
    "I"  # header_len
    "Q"  # created_ts_ms
    "Q"  # generation, the first 8 bytes of reserved
    "24x"  # the rest of reserved
)
DELTA_HEADER_BYTES = DELTA_HEADER.size + CRC.size


class DeltaHeader(NamedTuple):
    created_ts_ms: int
    generation: int


def encode_delta_header(header: DeltaHeader) -> bytes:
    head = DELTA_HEADER.pack(DELTA_MAGIC, VERSION, 0, DELTA_HEADER_BYTES, *header)
    return head + CRC.pack(crc32c(head))


def decode_delta_header(data: bytes) -> DeltaHeader:
    check_header(data, DELTA_MAGIC, DELTA_HEADER_BYTES, known_flags=0)
    created_ts_ms, generation = DELTA_HEADER.unpack_from(data)[4:]
    check_generation(generation, position=24)
    return DeltaHeader(created_ts_ms, generation)
