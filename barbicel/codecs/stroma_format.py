"""Stroma's files as bytes: the snapshot of a group and the delta log behind it. Big-endian, CRC-32C.

Owns the byte layout and nothing else; docs/formats/stroma.md draws every structure. A decoder raises
CorruptFile with the position inside the bytes it was given; the caller adds the path.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from crc32c import crc32c

from barbicel.errors import CorruptFile, UnknownVersion

__all__ = [
    "DELTA_HEADER_BYTES",
    "EVENT_OVERHEAD_BYTES",
    "NO_DEADLINE_MS",
    "Ack",
    "BumpAckedUntil",
    "ClearInflight",
    "Commit",
    "DecodedEvents",
    "DeltaHeader",
    "Event",
    "Inflight",
    "MarkInflight",
    "Release",
    "Reset",
    "Snapshot",
    "decode_delta_header",
    "decode_events",
    "decode_snapshot",
    "encode_delta_header",
    "encode_event",
    "encode_snapshot",
    "find_event",
    "hash_name",
]

VERSION = 1
CRC = struct.Struct(">I")
NO_DEADLINE_MS = (1 << 64) - 1
NO_EPOCH = 0xFFFF_FFFF
NULL_LENGTH = 0xFFFF
# Offsets are Kafka's: they fit a signed number.
MAX_OFFSET = (1 << 63) - 1


def hash_name(name: str) -> int:
    """The hash of `<topic>-<partition>`, or of a group's name, as the snapshot header keeps it."""
    return int.from_bytes(sha256(name.encode("utf-8")).digest()[:8], "big")


# --- events ---------------------------------------------------------------------------------------


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
_TYPE_OF = {kind: (number, layout) for number, (kind, layout) in _FIXED.items()}


def encode_event(event: Event) -> bytes:
    """Raises ValueError for an offset or metadata that the format cannot hold."""
    if event and not 0 <= event[0] <= MAX_OFFSET:
        raise ValueError(f"an offset is 0 to {MAX_OFFSET}, not {event[0]}")
    if isinstance(event, Commit):
        number, payload = _COMMIT_TYPE, _encode_commit(event)
    else:
        number, layout = _TYPE_OF[type(event)]
        payload = layout.pack(*event)
    framed = EVENT_HEAD.pack(EVENT_MAGIC, VERSION, number, 0, len(payload)) + payload
    return framed + CRC.pack(crc32c(framed[2:]))


def _encode_commit(event: Commit) -> bytes:
    return COMMIT.pack(event.acked_until, _epoch_field(event.leader_epoch), _length_field(event.metadata)) + (
        event.metadata or b""
    )


def _epoch_field(leader_epoch: int | None) -> int:
    return NO_EPOCH if leader_epoch is None else leader_epoch


def _length_field(metadata: bytes | None) -> int:
    if metadata is None:
        return NULL_LENGTH
    if len(metadata) >= NULL_LENGTH:
        raise ValueError(f"metadata has {len(metadata)} bytes, at most {NULL_LENGTH - 1} are allowed")
    return len(metadata)


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
    if event and event[0] > MAX_OFFSET:
        raise CorruptFile(f"a {kind.__name__} of offset {event[0]}", position=position)
    return event


def _decode_commit(payload: bytes, position: int) -> Commit:
    if len(payload) < COMMIT.size:
        raise CorruptFile(f"a Commit of {len(payload)} bytes", position=position)
    acked_until, leader_epoch, length = COMMIT.unpack_from(payload)
    if acked_until > MAX_OFFSET:
        raise CorruptFile(f"a Commit of offset {acked_until}", position=position)
    metadata = _metadata(payload[COMMIT.size :], length, position)
    return Commit(acked_until, None if leader_epoch == NO_EPOCH else leader_epoch, metadata)


def _metadata(rest: bytes, length: int, position: int) -> bytes | None:
    """`rest` must be exactly what the length field says."""
    if len(rest) != (0 if length == NULL_LENGTH else length):
        raise CorruptFile(f"metadata_len {length} with {len(rest)} bytes", position=position)
    return None if length == NULL_LENGTH else rest


def find_event(data: bytes, start: int) -> int:
    """Where the next thing that begins like an event is, or -1."""
    return data.find(EVENT_START, start)


# --- file headers ---------------------------------------------------------------------------------

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
    _check_header(data, DELTA_MAGIC, DELTA_HEADER_BYTES, known_flags=0)
    created_ts_ms, generation = DELTA_HEADER.unpack_from(data)[4:]
    return DeltaHeader(created_ts_ms, generation)


SNAP_MAGIC = b"KSNAP\0\0\0"
SNAP_FLAG_EXTENSION = 1
SNAP_HEADER = struct.Struct(
    ">"
    "8s"  # magic
    "H"  # version
    "H"  # flags
    "I"  # header_len
    "Q"  # created_ts_ms
    "Q"  # tp_hash
    "Q"  # group_hash
    "Q"  # generation, the first 8 bytes of reserved
    "24x"  # the rest of reserved
)
SNAP_HEADER_BYTES = SNAP_HEADER.size + CRC.size


def _check_header(data: bytes, magic: bytes, size: int, known_flags: int) -> None:
    if len(data) < size:
        raise CorruptFile(f"a header has {size} bytes, this file has {len(data)}", position=0)
    if data[:8] != magic:
        raise CorruptFile(f"magic {data[:8]!r} is not {magic!r}", position=0)
    if CRC.unpack_from(data, size - CRC.size)[0] != crc32c(data[: size - CRC.size]):
        raise CorruptFile("the header's crc32c does not match", position=size - CRC.size)
    version, flags, header_len = struct.unpack_from(">HHI", data, 8)
    # Behind a good CRC an unknown version is no damage: a newer program wrote this, hands off.
    if version != VERSION or flags & ~known_flags:
        raise UnknownVersion(f"version {version} with flags {flags:#06x} is not known", position=8)
    if header_len != size:
        raise CorruptFile(f"header_len {header_len}, only {size} is known", position=12)


# --- snapshots ------------------------------------------------------------------------------------

SNAP_COUNTS = struct.Struct(
    ">"
    "Q"  # acked_until
    "I"  # inflight_count
    "I"  # reserved0
)
SNAP_INFLIGHT = struct.Struct(
    ">"
    "Q"  # offset
    "Q"  # deadline_ts_ms
    "I"  # epoch
    "I"  # reserved
)
SNAP_HINT = struct.Struct(">Q")  # min_deadline_hint
SNAP_EXTENSION = struct.Struct(
    ">"
    "I"  # commit_state: 0 nothing committed, 1 committed
    "I"  # leader_epoch, 0xFFFFFFFF none
    "I"  # range_count
    "I"  # release_count
)
SNAP_RANGE = struct.Struct(
    ">"
    "Q"  # start
    "Q"  # end, exclusive
)
SNAP_RELEASE = struct.Struct(
    ">"
    "Q"  # offset
    "I"  # epoch
    "I"  # reserved
)
SNAP_METADATA_LEN = struct.Struct(">H")


class Inflight(NamedTuple):
    """Handed out until the deadline, for the epoch-th time."""

    deadline_ts_ms: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state of one group, and the delta generation that it makes void."""

    created_ts_ms: int
    tp_hash: int
    group_hash: int
    generation: int
    acked_until: int
    # Ascending by offset.
    inflight: tuple[tuple[int, Inflight], ...] = ()
    is_committed: bool = False
    leader_epoch: int | None = None
    metadata: bytes | None = None
    # Acked beyond the frontier: ascending, end exclusive, never touching.
    ranges: tuple[tuple[int, int], ...] = ()
    # Available again, with their delivery count: ascending by offset.
    releases: tuple[tuple[int, int], ...] = ()

    @property
    def min_deadline_ms(self) -> int:
        return min((entry.deadline_ts_ms for _, entry in self.inflight), default=NO_DEADLINE_MS)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    head = SNAP_HEADER.pack(
        SNAP_MAGIC,
        VERSION,
        SNAP_FLAG_EXTENSION,
        SNAP_HEADER_BYTES,
        snapshot.created_ts_ms,
        snapshot.tp_hash,
        snapshot.group_hash,
        snapshot.generation,
    )
    payload = b"".join(
        (
            SNAP_COUNTS.pack(snapshot.acked_until, len(snapshot.inflight), 0),
            *(
                SNAP_INFLIGHT.pack(offset, entry.deadline_ts_ms, entry.epoch, 0)
                for offset, entry in snapshot.inflight
            ),
            SNAP_HINT.pack(snapshot.min_deadline_ms),
            SNAP_EXTENSION.pack(
                int(snapshot.is_committed),
                _epoch_field(snapshot.leader_epoch),
                len(snapshot.ranges),
                len(snapshot.releases),
            ),
            *(SNAP_RANGE.pack(start, end) for start, end in snapshot.ranges),
            *(SNAP_RELEASE.pack(offset, epoch, 0) for offset, epoch in snapshot.releases),
            SNAP_METADATA_LEN.pack(_length_field(snapshot.metadata)),
            snapshot.metadata or b"",
        )
    )
    return b"".join((head, CRC.pack(crc32c(head)), payload, CRC.pack(crc32c(payload))))


def decode_snapshot(data: bytes) -> Snapshot:
    """Raises CorruptFile unless every byte is accounted for."""
    _check_header(data, SNAP_MAGIC, SNAP_HEADER_BYTES, known_flags=SNAP_FLAG_EXTENSION)
    _, _, flags, _, created_ts_ms, tp_hash, group_hash, generation = SNAP_HEADER.unpack_from(data)
    payload = data[SNAP_HEADER_BYTES : -CRC.size]
    crc_at = SNAP_HEADER_BYTES + len(payload)
    if len(data) < SNAP_HEADER_BYTES + SNAP_COUNTS.size + SNAP_HINT.size + CRC.size:
        raise CorruptFile(f"a snapshot ends after {len(data)} bytes", position=len(data))
    if CRC.unpack_from(data, crc_at)[0] != crc32c(payload):
        raise CorruptFile("the snapshot's payload_crc32c does not match", position=crc_at)
    cursor = _Cursor(payload)
    acked_until, inflight_count, _ = cursor.take(SNAP_COUNTS)
    inflight = tuple(
        (offset, Inflight(deadline, epoch))
        for offset, deadline, epoch, _ in cursor.take_many(SNAP_INFLIGHT, inflight_count)
    )
    cursor.take(SNAP_HINT)
    snapshot = Snapshot(created_ts_ms, tp_hash, group_hash, generation, acked_until, inflight)
    if flags & SNAP_FLAG_EXTENSION:
        snapshot = _with_extension(snapshot, cursor)
    elif cursor.left:
        raise CorruptFile(f"{cursor.left} bytes too many", position=crc_at - cursor.left)
    _check_order(snapshot)
    return snapshot


def _check_order(snapshot: Snapshot) -> None:
    """Tables must be ascending, ranges apart from each other and from the frontier."""
    last_end = snapshot.acked_until
    for start, end in snapshot.ranges:
        if not last_end < start < end <= MAX_OFFSET:
            raise CorruptFile(f"range {start} to {end} does not lie behind {last_end}")
        last_end = end
    for table in (snapshot.inflight, snapshot.releases):
        last_offset = snapshot.acked_until - 1
        for offset, _ in table:
            if not last_offset < offset <= MAX_OFFSET:
                raise CorruptFile(f"offset {offset} does not follow {last_offset}")
            last_offset = offset


def _with_extension(snapshot: Snapshot, cursor: _Cursor) -> Snapshot:
    commit_state, leader_epoch, range_count, release_count = cursor.take(SNAP_EXTENSION)
    if commit_state > 1:
        raise CorruptFile(f"commit_state {commit_state}", position=SNAP_HEADER_BYTES + cursor.position)
    ranges = tuple((start, end) for start, end in cursor.take_many(SNAP_RANGE, range_count))
    releases = tuple((offset, epoch) for offset, epoch, _ in cursor.take_many(SNAP_RELEASE, release_count))
    (length,) = cursor.take(SNAP_METADATA_LEN)
    return Snapshot(
        snapshot.created_ts_ms,
        snapshot.tp_hash,
        snapshot.group_hash,
        snapshot.generation,
        snapshot.acked_until,
        snapshot.inflight,
        is_committed=commit_state == 1,
        leader_epoch=None if leader_epoch == NO_EPOCH else leader_epoch,
        metadata=_metadata(cursor.rest(), length, SNAP_HEADER_BYTES + cursor.position),
        ranges=ranges,
        releases=releases,
    )


class _Cursor:
    """Takes structures from the front of a payload; a declared count is checked before it is believed."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self.position = 0

    @property
    def left(self) -> int:
        return len(self._payload) - self.position

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        return self.take_many(layout, 1)[0]

    def take_many(self, layout: struct.Struct, count: int) -> list[tuple[int, ...]]:
        size = count * layout.size
        if size > self.left:
            raise CorruptFile(
                f"{count} entries of {layout.size} bytes, {self.left} bytes are left",
                position=SNAP_HEADER_BYTES + self.position,
            )
        start, self.position = self.position, self.position + size
        return list(layout.iter_unpack(self._payload[start : self.position]))

    def rest(self) -> bytes:
        return self._payload[self.position :]
