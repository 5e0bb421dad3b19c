"""A snapshot as bytes: the whole state of one group. Big-endian, CRC-32C.

Owns the byte layout and nothing else; docs/formats/stroma.md draws it. A decoder raises CorruptFile with the
position inside the bytes it was given; the caller adds the path.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from crc32c import crc32c

from barbicel.codecs.stroma_format import (
    CRC,
    MAX_OFFSET,
    NO_DEADLINE_MS,
    VERSION,
    check_generation,
    check_header,
    decode_epoch,
    decode_metadata,
    encode_epoch,
    encode_length,
)
from barbicel.errors import CorruptFile

__all__ = [
    "Inflight",
    "Snapshot",
    "decode_snapshot",
    "encode_snapshot",
]

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
    "Q"  # delta_position, the next 8
    "16x"  # the rest of reserved
)
SNAP_HEADER_BYTES = SNAP_HEADER.size + CRC.size

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
RANGES_AT_ONCE = 4096


class Inflight(NamedTuple):
    """Handed out until the deadline, for the epoch-th time."""

    deadline_ts_ms: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state of one group, and the delta that it makes void: all of it, or up to a position."""

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
    # In the delta of the same generation events from here on still count; 0 if none does.
    delta_position: int = 0

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
        snapshot.delta_position,
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
                encode_epoch(snapshot.leader_epoch),
                len(snapshot.ranges),
                len(snapshot.releases),
            ),
            *_encode_ranges(snapshot.ranges),
            *(SNAP_RELEASE.pack(offset, epoch, 0) for offset, epoch in snapshot.releases),
            SNAP_METADATA_LEN.pack(encode_length(snapshot.metadata)),
            snapshot.metadata or b"",
        )
    )
    return b"".join((head, CRC.pack(crc32c(head)), payload, CRC.pack(crc32c(payload))))


def _encode_ranges(ranges: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    """Many at once, because there may be millions; not all at once, so that other threads get their turn."""
    for first in range(0, len(ranges), RANGES_AT_ONCE):
        part = ranges[first : first + RANGES_AT_ONCE]
        yield struct.pack(f">{2 * len(part)}Q", *chain.from_iterable(part))


def decode_snapshot(data: bytes) -> Snapshot:
    """Raises CorruptFile unless every byte is accounted for."""
    check_header(data, SNAP_MAGIC, SNAP_HEADER_BYTES, known_flags=SNAP_FLAG_EXTENSION)
    flags, _, created_ts_ms, tp_hash, group_hash, generation, position = SNAP_HEADER.unpack_from(data)[2:]
    check_generation(generation, position=40)
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
    snapshot = Snapshot(
        created_ts_ms, tp_hash, group_hash, generation, acked_until, inflight, delta_position=position
    )
    if flags & SNAP_FLAG_EXTENSION:
        snapshot = _with_extension(snapshot, cursor)
    elif cursor.left:
        raise CorruptFile(f"{cursor.left} bytes too many", position=crc_at - cursor.left)
    _check_order(snapshot)
    return snapshot


def _check_order(snapshot: Snapshot) -> None:
    """Tables must be ascending, ranges apart from each other and from the frontier, no offset in two."""
    last_end = snapshot.acked_until
    if last_end > MAX_OFFSET:
        raise CorruptFile(f"acked_until {last_end}, at most {MAX_OFFSET} is possible")
    for start, end in snapshot.ranges:
        if not last_end < start < end <= MAX_OFFSET:
            raise CorruptFile(f"range {start} to {end} does not lie behind {last_end}")
        last_end = end
    for table in (snapshot.inflight, snapshot.releases):
        last_offset = snapshot.acked_until - 1
        for offset, _ in table:
            if not last_offset < offset < MAX_OFFSET:
                raise CorruptFile(f"offset {offset} does not follow {last_offset}")
            last_offset = offset
    inflight, released = ({offset for offset, _ in table} for table in (snapshot.inflight, snapshot.releases))
    if not inflight.isdisjoint(released):
        raise CorruptFile(f"offset {min(inflight & released)} is inflight and released")
    for offset in (*sorted(inflight), *sorted(released)):
        before = bisect_right(snapshot.ranges, (offset, MAX_OFFSET)) - 1
        if before >= 0 and offset < snapshot.ranges[before][1]:
            raise CorruptFile(f"offset {offset} is acked and inflight or released")


def _with_extension(snapshot: Snapshot, cursor: _Cursor) -> Snapshot:
    commit_state, leader_epoch, range_count, release_count = cursor.take(SNAP_EXTENSION)
    if commit_state > 1:
        raise CorruptFile(f"commit_state {commit_state}", position=SNAP_HEADER_BYTES + cursor.position)
    ranges = tuple((start, end) for start, end in cursor.take_many(SNAP_RANGE, range_count))
    releases = tuple((offset, epoch) for offset, epoch, _ in cursor.take_many(SNAP_RELEASE, release_count))
    (length,) = cursor.take(SNAP_METADATA_LEN)
    return replace(
        snapshot,
        is_committed=commit_state == 1,
        leader_epoch=decode_epoch(leader_epoch),
        metadata=decode_metadata(cursor.rest(), length, SNAP_HEADER_BYTES + cursor.position),
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
