"""The side of a log that reads: what it holds, by offset and by time. It changes nothing and never waits.

Readers take the current View, which is replaced as a whole by whoever writes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from barbicel.codecs.keratin_format import SealedSegment
from barbicel.codecs.keratin_record import Payloads, Record
from barbicel.disk import Disk
from barbicel.errors import CorruptLog
from barbicel.keratin.handles import HandleBudget, SegmentHandles
from barbicel.keratin.indexes import SegmentIndexes
from barbicel.keratin.plan import Damage, RecoveryPlan
from barbicel.keratin.reader import Reader
from barbicel.keratin.settings import LogSettings
from barbicel.keratin.time_index import TimeHit
from barbicel.keratin.time_search import TimeSearch
from barbicel.keratin.view import View

__all__ = ["ReadableLog", "view_of"]


def view_of(recovered: RecoveryPlan, indexes: SegmentIndexes) -> View:
    """All that was recovered. The indexes are the last segment's."""
    last = recovered.segments[-1]
    return View(
        recovered.sealed_segments,
        last.base_offset,
        indexes,
        recovered.log_start_offset,
        last.end_offset,
        last.end_position,
    )


class ReadableLog:
    """Every method may be called from any thread."""

    def __init__(
        self,
        disk: Disk,
        found: RecoveryPlan,
        recovered: RecoveryPlan,
        indexes: SegmentIndexes,
        handles: HandleBudget | None = None,
    ) -> None:
        self._disk = disk
        self._layout = recovered.layout
        self._settings = recovered.settings
        self.path = recovered.layout.root
        # The same in every process.
        self.path_crc = zlib.crc32(self.path.encode("utf-8", "surrogateescape"))
        # What was found when the log was opened, before anything was done about it.
        self.found = found
        self._view = view_of(recovered, indexes)
        self._handles = SegmentHandles(disk, self._layout, self._settings.max_open_segments, handles)
        self._reader = Reader(
            self._layout, self._handles, lambda: self._view, self._settings.index_stride_bytes
        )
        self._times = TimeSearch(self._reader)

    # --- what it is ---------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self._view.start_offset

    @property
    def end_offset(self) -> int:
        """The offset behind the last one that can be read."""
        return self._view.end_offset

    @property
    def segments(self) -> tuple[SealedSegment, ...]:
        return self._view.segments

    @property
    def size_bytes(self) -> int:
        """What its readable records take on the disk, without what is allocated ahead."""
        return sum(stretch.end_position for stretch in self._view.stretches())

    @property
    def open_handles(self) -> int:
        """Files that are open for reading."""
        return len(self._handles)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """What was found damaged when the log was opened."""
        return self.found.damage

    @property
    def was_clean(self) -> bool:
        """Whether it was closed in order before it was opened: then nothing that it had can be gone."""
        return self.found.manifest is not None and self.found.manifest.clean_shutdown

    @property
    def settings(self) -> LogSettings:
        return self._settings

    # --- reading ------------------------------------------------------------------------------------

    def fetch(self, offset: int) -> Record:
        """The record that contains the offset. Raises OffsetOutOfRange, CorruptLog, OffsetsLost."""
        return self._reader.fetch(offset)

    def scan(
        self, from_offset: int, *, max_bytes: int | None = None, max_records: int | None = None
    ) -> Iterator[Record]:
        """See Reader.scan."""
        return self._reader.scan(from_offset, max_bytes=max_bytes, max_records=max_records)

    def read(self, from_offset: int, end_offset: int, max_bytes: int) -> Payloads:
        """See Reader.read."""
        return self._reader.read(from_offset, end_offset, max_bytes)

    def offset_for_time(self, timestamp_ms: int) -> TimeHit | None:
        """The first record whose timestamp is not below the given one."""
        return self._times.first_at_or_after(lambda: self._view, timestamp_ms)

    def scan_from_time(self, timestamp_ms: int) -> Iterator[Record]:
        """The records from the first one on whose timestamp is not below the given one."""
        hit = self.offset_for_time(timestamp_ms)
        return iter(()) if hit is None else self.scan(hit.offset)

    def max_timestamp_ms(self, segment: SealedSegment) -> int:
        """The highest timestamp in a segment; -1 if that cannot be known, because of damage."""
        try:
            return self._times.max_timestamp_ms(self._view.stretch_at(segment.base_offset))
        except CorruptLog:
            return -1

    def latest_time(self) -> TimeHit | None:
        """The first record that has the highest timestamp in the log; None if there is no record."""
        return self._times.latest(lambda: self._view)
