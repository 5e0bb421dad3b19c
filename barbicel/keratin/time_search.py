"""Finding records by time. A time index only says where to begin; the records decide."""

from __future__ import annotations

from collections.abc import Callable

from barbicel.codecs.keratin_record import Record
from barbicel.errors import OffsetOutOfRange
from barbicel.keratin.handles import SegmentHandle
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

    def first_at_or_after(self, view: Callable[[], View], timestamp_ms: int) -> TimeHit | None:
        """The first readable record whose timestamp is not below the given one."""
        while True:
            current = view()
            try:
                return self._first_in(current, timestamp_ms)
            except OffsetOutOfRange:
                if view().start_offset == current.start_offset:
                    raise
                # Retention took what was being searched: search what is left.

    def latest(self, view: Callable[[], View]) -> TimeHit | None:
        """The first readable record that has the highest timestamp."""
        current = view()
        highest = max(
            (
                self.max_timestamp_ms(stretch)
                for stretch in current.stretches()
                if stretch.end_offset > max(stretch.base_offset, current.start_offset)
            ),
            default=-1,
        )
        if highest < 0:
            return None
        # If the highest was trimmed from the front of its segment, only the records can tell the next.
        return self.first_at_or_after(view, highest) or max(
            (
                TimeHit(record.timestamp_ms, record.offset)
                for record in self._reader.scan(current.start_offset)
            ),
            key=lambda hit: (hit.timestamp_ms, -hit.offset),
            default=None,
        )

    def _first_in(self, view: View, timestamp_ms: int) -> TimeHit | None:
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
        """The last maximum in the index, or what follows its last entry."""
        with self._reader.open(stretch, stretch.base_offset) as handle:
            times = handle.times
            last = None if times is None else times.last()
            if last is None or not handle.index:
                return self._reader.rebuild(handle, stretch).max_timestamp_ms
            highest = last.timestamp_ms

            def note(record: Record) -> None:
                nonlocal highest
                highest = max(highest, record.timestamp_ms)

            self._reader.note_all(handle, stretch, handle.index[len(handle.index) - 1], note)
        return highest

    def _search(self, stretch: Stretch, start_offset: int, timestamp_ms: int) -> TimeHit | None:
        with self._reader.open(stretch, stretch.base_offset) as handle:
            before = self._times_of(handle, stretch).before(timestamp_ms)
            from_offset = stretch.base_offset if before is None else before.offset
            for record in self._reader.records(handle, stretch, max(start_offset, from_offset)):
                if record.timestamp_ms >= timestamp_ms and not record.lost:
                    return TimeHit(record.timestamp_ms, max(record.offset, start_offset))
        return None

    def _times_of(self, handle: SegmentHandle, stretch: Stretch) -> TimeIndex:
        if stretch.indexes is not None:
            return stretch.indexes.times
        return handle.times or self._reader.rebuild(handle, stretch).times
