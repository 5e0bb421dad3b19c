"""The active segment: the one file of a log that records are appended to."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from barbicel.codecs.keratin_format import LOG_HEADER_BYTES, FileHeader, SealedSegment
from barbicel.codecs.keratin_record import encode_record
from barbicel.disk import Bytes, Disk, replace_files
from barbicel.errors import DiskError
from barbicel.keratin.indexes import SegmentIndexes, index_replacements
from barbicel.keratin.layout import Layout
from barbicel.keratin.records import NewRecord
from barbicel.keratin.repair import create_segment
from barbicel.keratin.settings import LogSettings

__all__ = ["ActiveSegment"]

PAGE_BYTES = 4096
MAX_REL_OFFSET = (1 << 32) - 1


class ActiveSegment:
    """Takes records one batch at a time. Not thread-safe: the log that owns it serialises.

    After a failed call it must not be used again, except for `cut_back`, and for `take_back` if the failure
    passes.
    """

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        settings: LogSettings,
        header: FileHeader,
        indexes: SegmentIndexes,
        *,
        next_offset: int,
        end_position: int,
    ) -> None:
        self._disk = disk
        self._layout = layout
        self.settings = settings
        self._header = header
        self.base_offset = header.base_offset
        # An index has 32 bits for how far an offset is from the first one.
        self._end_offset_max = header.base_offset + MAX_REL_OFFSET + 1
        self._file = disk.open(layout.log(header.base_offset), "write")
        self._allocated_bytes = self._file.end
        self._file.end = end_position
        self._is_closed = False
        # Whether bytes of a failed append may lie behind the end.
        self._is_torn = False
        self.indexes = indexes
        self.next_offset = next_offset
        # When the first record came; after a restart its creation has to do.
        self._first_append_ms = header.created_ts_ms

    @classmethod
    def create(cls, disk: Disk, layout: Layout, settings: LogSettings, header: FileHeader) -> ActiveSegment:
        """A new, empty segment. On return its files survive a power cut."""
        indexes = SegmentIndexes(header.base_offset, settings.index_stride_bytes)
        create_segment(disk, layout, header, indexes)
        return cls(
            disk,
            layout,
            settings,
            header,
            indexes,
            next_offset=header.base_offset,
            end_position=LOG_HEADER_BYTES,
        )

    @property
    def end_position(self) -> int:
        return self._file.end

    @property
    def is_empty(self) -> bool:
        return self.next_offset == self.base_offset

    def has_room(self, size: int, span: int) -> bool:
        """Whether a record may still go into this segment. An empty segment takes any record."""
        return self.is_empty or (
            self._file.end + size <= self.settings.segment_max_bytes
            and self.next_offset + span <= self._end_offset_max
        )

    def is_too_old(self, now_ms: int) -> bool:
        limit = self.settings.segment_max_age_ms
        return limit is not None and now_ms - self._first_append_ms >= limit and not self.is_empty

    def append(self, records: Sequence[NewRecord], first: int, now_ms: int) -> int:
        """Write as many records as there is room for, beginning with number `first`, with one write.

        Returns how many those are, at least one. They are in the file, not yet durable.
        """
        if self.is_empty:
            self._first_append_ms = now_ms
        pieces: list[Bytes] = []
        notes: list[tuple[int, int, int, int]] = []
        offset, position = self.next_offset, self._file.end
        end_offset, end_position = self._end_offset_max, self.settings.segment_max_bytes
        for record in records[first:]:
            size = record.size
            if notes and (position + size > end_position or offset + record.span > end_offset):
                break
            if record.stamp is not None:
                record.stamp(offset)
            timestamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
            pieces += encode_record(offset, record.span, timestamp_ms, record.headers, record.payload)
            notes.append((offset, position, size, timestamp_ms))
            offset += record.span
            position += size
        self._preallocate(position)
        self._is_torn = True
        self._file.append(pieces)
        self._is_torn = False
        for note in notes:
            self.indexes.note(*note)
        self.next_offset = offset
        return len(notes)

    def _preallocate(self, needed_bytes: int) -> None:
        """Grow the file by its own size within bounds, in whole pages: appends rarely change its size.

        A disk without room for that may have room for the record, so the write decides.
        """
        settings = self.settings
        if needed_bytes <= self._allocated_bytes or not settings.preallocate_max_bytes:
            return
        ahead = max(settings.preallocate_min_bytes, min(needed_bytes, settings.preallocate_max_bytes))
        wanted = max(needed_bytes, min(needed_bytes + ahead, settings.segment_max_bytes))
        allocated_bytes = -(-wanted // PAGE_BYTES) * PAGE_BYTES
        try:
            self._file.preallocate(allocated_bytes)
        except DiskError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        else:
            self._allocated_bytes = allocated_bytes

    def sync(self) -> None:
        """On return every record appended before survives a power cut. One may be appended meanwhile."""
        if not self._is_closed:  # a sealed segment is durable already
            self._file.fdatasync()

    def write_indexes(self) -> None:
        """Make the index files on the disk equal to those in memory, durably."""
        replace_files(self._disk, index_replacements(self._layout, self._header, self.indexes))

    def seal(self) -> SealedSegment:
        """Close what was cut to its length and is durable, log and indexes."""
        self.close()
        return SealedSegment(self.base_offset, self.next_offset - 1, self._file.end, self.indexes.idx_bytes)

    def cut_ahead(self) -> None:
        """Give back what was allocated ahead."""
        if not self._is_closed and self._file.size() > self._file.end:
            self._file.truncate(self._file.end)
            self._allocated_bytes = self._file.end

    def take_back(self) -> None:
        """Cut off what a failed append may have left: then the next one may go there. May itself fail."""
        if self._is_torn:
            self.cut_ahead()
            self._is_torn = False

    def cut_back(self, position: int) -> None:
        """Take back what a failed call may have left behind `position`. May itself fail."""
        if not self._is_closed:  # a sealed segment is durable, answered or not
            self._file.truncate(position)

    def close(self) -> None:
        self._is_closed = True
        self._file.close()
