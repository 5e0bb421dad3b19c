"""Finding records by time. A time index only says where to begin; the records decide."""

from __future__ import annotations

from barbicel.codecs.keratin_format import LOG_HEADER_BYTES, Record
from barbicel.errors import BarbicelError
from barbicel.keratin.handles import SegmentHandle
from barbicel.keratin.index import IndexHit
from barbicel.keratin.reader import Reader
from barbicel.keratin.time_index import TimeHit, TimeIndex
from barbicel.keratin.view import Stretch, View

__all__ = ["TimeSearch"]


class TimeSearch:
    """Answers questions about the timestamps in a log, and remembers what cannot change."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        # Of sealed segments, by base offset.
        self._max_timestamps: dict[int, int] = {}

    def first_at_or_after(self, view: View, timestamp_ms: int) -> TimeHit | None:
        """The first readable record whose timestamp is not below the given one."""
        for stretch in view.stretches():
            if stretch.end_offset <= view.start_offset or stretch.end_offset == stretch.base_offset:
                continue
            if self.max_timestamp_ms(stretch) < timestamp_ms:
                continue
            hit = self._search(stretch, view.start_offset, timestamp_ms)
            if hit is not None:
                return hit
        return None

    def max_timestamp_ms(self, stretch: Stretch) -> int:
        """The highest timestamp in a stretch, -1 if it has no record."""
        if stretch.indexes is not None:
            return stretch.indexes.max_timestamp_ms
        known = self._max_timestamps.get(stretch.base_offset)
        if known is None:
            known = self._max_timestamps[stretch.base_offset] = self._derive_max(stretch)
        return known

    def forget(self, base_offset: int) -> None:
        self._max_timestamps.pop(base_offset, None)

    def _derive_max(self, stretch: Stretch) -> int:
        """From the last maximum that the index knows to the end, so that a shortened index does no harm."""
        highest = -1

        def note(record: Record) -> None:
            nonlocal highest
            highest = max(highest, record.timestamp_ms)

        with self._reader.open(stretch, stretch.base_offset) as handle:
            start = IndexHit(stretch.base_offset, LOG_HEADER_BYTES)
            last = handle.times.last()
            if last is not None:
                position = self._position_of(handle, stretch, last)
                if position is not None:
                    start = IndexHit(last.offset, position)
            self._reader.note_all(handle, stretch, start, note)
        return highest

    def _search(self, stretch: Stretch, start_offset: int, timestamp_ms: int) -> TimeHit | None:
        with self._reader.open(stretch, stretch.base_offset) as handle:
            times = handle.times if stretch.indexes is None else stretch.indexes.times
            from_offset = max(start_offset, self._start(handle, stretch, times, timestamp_ms))
            for record in self._reader.records(handle, stretch, from_offset):
                if record.timestamp_ms >= timestamp_ms and not record.lost:
                    return TimeHit(record.timestamp_ms, record.offset)
        return None

    def _start(self, handle: SegmentHandle, stretch: Stretch, times: TimeIndex, timestamp_ms: int) -> int:
        before = times.before(timestamp_ms)
        if before is None or before.offset >= stretch.end_offset:
            return stretch.base_offset
        return before.offset if self._position_of(handle, stretch, before) else stretch.base_offset

    def _position_of(self, handle: SegmentHandle, stretch: Stretch, entry: TimeHit) -> int | None:
        """Where the record of an entry is, if it really has that offset and timestamp."""
        try:
            record = next(self._reader.records(handle, stretch, entry.offset), None)
        except BarbicelError:
            return None
        if record is None or (record.timestamp_ms, record.offset) != entry:
            return None
        return record.position
