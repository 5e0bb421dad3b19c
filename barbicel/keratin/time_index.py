"""The time index of one segment: running maximum of timestamps → the record that reached it.

Like the sparse index a hint: a record found through it must have the timestamp that the entry says.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from barbicel.codecs.keratin_format import TIME_ENTRY

__all__ = ["TimeHit", "TimeIndex"]


class TimeHit(NamedTuple):
    timestamp_ms: int
    offset: int


class TimeIndex:
    """Entries in ascending order of both fields, without the file header."""

    __slots__ = ("base_offset", "entries")

    def __init__(self, base_offset: int, entries: bytes = b"") -> None:
        self.base_offset = base_offset
        self.entries = bytearray(entries)

    def __len__(self) -> int:
        return len(self.entries) // TIME_ENTRY.size

    def __getitem__(self, number: int) -> TimeHit:
        timestamp_ms, rel_offset, _ = TIME_ENTRY.unpack_from(self.entries, number * TIME_ENTRY.size)
        return TimeHit(timestamp_ms, self.base_offset + rel_offset)

    def add(self, timestamp_ms: int, offset: int) -> None:
        self.entries += TIME_ENTRY.pack(timestamp_ms, offset - self.base_offset, 0)

    def last(self) -> TimeHit | None:
        return self[len(self) - 1] if self.entries else None

    def before(self, timestamp_ms: int) -> TimeHit | None:
        """The last entry whose maximum is below the timestamp: no record up to it is late enough."""
        late = bisect_left(range(len(self)), timestamp_ms, key=lambda number: self[number].timestamp_ms)
        return self[late - 1] if late else None

    def cut(self, offset: int) -> None:
        """Drop every entry for a record at or above the offset."""
        kept = bisect_left(range(len(self)), offset, key=lambda number: self[number].offset)
        del self.entries[kept * TIME_ENTRY.size :]

    def is_ascending(self) -> bool:
        last_time, last_offset = -1, -1
        for timestamp_ms, rel_offset, _ in TIME_ENTRY.iter_unpack(self.entries):
            if timestamp_ms <= last_time or rel_offset <= last_offset:
                return False
            last_time, last_offset = timestamp_ms, rel_offset
        return True
