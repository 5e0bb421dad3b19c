"""Reading a log by offset and as a stream. Bounded memory, no lock shared with the writer.

An index only says where to begin; what is handed out was found through the records themselves and
verified by their CRC. Damage is reported with the exact offsets that it makes unreadable, and whatever
lies behind it stays readable.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from barbicel.codecs.keratin_format import LOG_HEADER_BYTES
from barbicel.codecs.keratin_record import (
    Payloads,
    Record,
    decode_payloads,
    decode_records,
    peek_record,
    step_to_offset,
)
from barbicel.errors import CorruptFile, CorruptLog, DiskError, OffsetOutOfRange, OffsetsLost
from barbicel.keratin.examine import examine
from barbicel.keratin.handles import SegmentHandle, SegmentHandles
from barbicel.keratin.index import IndexHit, SparseIndex
from barbicel.keratin.indexes import SegmentIndexes
from barbicel.keratin.layout import Layout
from barbicel.keratin.resumption import find_resumption
from barbicel.keratin.view import Stretch, View
from barbicel.keratin.walk import LIMITED_CHUNK_BYTES, Walk, is_record

__all__ = ["Reader"]

# Read beyond a stride, so that a record as large as the stride comes with the first read.
READ_MARGIN_BYTES = 4096
SMALL_RECORD_BYTES = 16 << 10


class Reader:
    """Reads what `view` shows. Any number of threads may use one."""

    def __init__(
        self, layout: Layout, handles: SegmentHandles, view: Callable[[], View], stride_bytes: int
    ) -> None:
        self._layout = layout
        self._handles = handles
        self._view = view
        self._stride_bytes = stride_bytes

    def fetch(self, offset: int) -> Record:
        """The record that contains the offset."""
        view = self._view()
        if not view.start_offset <= offset < view.end_offset:
            raise self._out_of_range(offset, view)
        stretch = view.stretch_at(offset)
        with self.open(stretch, offset) as handle:
            record = self._fetch_quickly(handle, stretch, offset)
            if record is None:
                record = next(self.records(handle, stretch, offset))
        if record.lost:
            raise OffsetsLost(record.offset, record.end_offset, self._layout.root)
        return record

    def read(self, from_offset: int, end_offset: int, max_bytes: int) -> Payloads:
        """What is in the records below `end_offset`, from the one that contains `from_offset` on, as one read
        of a segment has them. Less, or nothing, where there is a loss or anything odd, or where the first one
        is larger: `scan` has those."""
        view = self._view()
        if not view.start_offset <= from_offset < view.end_offset:
            return Payloads([], from_offset, 0, 0)
        stretch = view.stretch_at(from_offset)
        with self.open(stretch, from_offset) as handle:
            hit = handle.went_on_at
            if hit is None or hit.offset != from_offset:
                sought = self._seek(handle, stretch, from_offset)
                if sought is None:
                    return Payloads([], from_offset, 0, 0)
                hit = sought.hit
            wanted = min(max_bytes, LIMITED_CHUNK_BYTES, stretch.end_position - hit.position)
            data = memoryview(handle.file.pread(wanted, hit.position))
            found = decode_payloads(data, hit.offset, min(end_offset, view.end_offset))
            handle.went_on_at = IndexHit(found.next_offset, hit.position + found.size)
        return found

    def scan(
        self, from_offset: int, *, max_bytes: int | None = None, max_records: int | None = None
    ) -> Iterator[Record]:
        """The records from the one that contains `from_offset` to the end of the log as it is now.

        Stops before either maximum is passed, but not before the first record. A record's views are good
        for as long as they are held. Raises CorruptLog at damage; its end_offset is where to go on.
        """
        view = self._view()
        if not view.start_offset <= from_offset <= view.end_offset:
            raise self._out_of_range(from_offset, view)
        if max_records is not None and max_records <= 0:
            return iter(())
        return _limited(self._scan(from_offset, view.end_offset, max_bytes), max_bytes, max_records)

    def _scan(self, offset: int, end_offset: int, max_bytes: int | None) -> Iterator[Record]:
        """At least as far as the bytes go; what lies behind them is not read for nothing."""
        while offset < end_offset:
            view = self._view()
            if offset < view.start_offset:  # retention was faster
                raise self._out_of_range(offset, view)
            stretch = view.stretch_at(offset)
            with self.open(stretch, offset) as handle:
                reached = offset
                for record in self.records(handle, stretch, offset, max_bytes):
                    if record.offset >= end_offset:
                        return
                    reached = record.end_offset
                    if not record.lost:
                        yield record
                        if max_bytes is not None:
                            max_bytes = max(0, max_bytes - record.size)
            if reached < stretch.end_offset or max_bytes == 0:
                return
            offset = stretch.end_offset

    @contextmanager
    def open(self, stretch: Stretch, offset: int) -> Iterator[SegmentHandle]:
        """Borrow the handle of a stretch. An unreadable file is damage, unless retention took it."""
        try:
            handle = self._handles.acquire(stretch.base_offset)
        except (CorruptFile, DiskError) as error:
            if isinstance(error, DiskError) and error.errno != errno.ENOENT:
                raise
            view = self._view()
            if offset < view.start_offset:
                raise self._out_of_range(offset, view) from None
            raise CorruptLog(
                error.message,
                first_offset=stretch.base_offset,
                end_offset=stretch.end_offset,
                path=self._layout.log(stretch.base_offset),
                position=error.position,
            ) from error
        try:
            yield handle
        finally:
            self._handles.release(handle)

    def records(
        self, handle: SegmentHandle, stretch: Stretch, offset: int, max_bytes: int | None = None
    ) -> Iterator[Record]:
        """The records of a stretch from the one that contains the offset on, those of a loss included.

        Damage before that record does not matter; at damage behind it CorruptLog is raised. It may end early
        when so many bytes were read, but not before the first record.
        """
        found = self._seek(handle, stretch, offset)
        next_offset, position = found.hit if found else self._sure_start(handle, stretch, offset)
        # The limit is for what is handed out, and means something only where nothing is passed over first.
        limit = max_bytes if found else None
        while next_offset < stretch.end_offset:
            walk = Walk(handle.file, position, stretch.end_position, next_offset, limit)
            for record in walk:
                if record.end_offset > offset:
                    offset = record.end_offset
                    yield record
            if walk.next_offset >= stretch.end_offset or walk.is_spent:
                return
            next_offset, position = self._past_damage(handle, stretch, walk, offset)
            limit = None

    def _past_damage(self, handle: SegmentHandle, stretch: Stretch, walk: Walk, offset: int) -> IndexHit:
        """Where sound records go on, if the wanted offset is not among those lost in between."""
        resumption = find_resumption(
            handle.file,
            walk.position,
            stretch.end_position,
            walk.next_offset,
            stretch.end_offset,
            self._index(handle, stretch),
        )
        if resumption is not None and offset >= resumption.offset:
            return IndexHit(resumption.offset, resumption.position)
        raise CorruptLog(
            walk.problem or "the file ends before its last record",
            first_offset=walk.next_offset,
            end_offset=stretch.end_offset if resumption is None else resumption.offset,
            path=handle.file.path,
            position=walk.position,
        )

    def _fetch_quickly(self, handle: SegmentHandle, stretch: Stretch, offset: int) -> Record | None:
        """The record, found by the heads of those before it; None if anything on the way is odd."""
        found = self._seek(handle, stretch, offset)
        if found is None or found.hit.position + found.size > stretch.end_position:
            return None
        data = found.data
        if len(data) < found.size:
            data = memoryview(handle.file.pread(found.size, found.hit.position))
        elif found.size <= SMALL_RECORD_BYTES:
            # Whoever keeps a small record must not keep the whole read with it.
            data = memoryview(bytes(data[: found.size]))
        decoded = decode_records(data[: found.size], found.hit.position, found.hit.offset)
        return decoded.records[0] if decoded.records else None

    def _seek(self, handle: SegmentHandle, stretch: Stretch, offset: int) -> _Found | None:
        """The record that contains the offset, by the index and the heads behind it, none verified."""
        floor = self._floor(handle, stretch, offset)
        expected, position = floor
        while position < stretch.end_position:
            wanted = min(self._stride_bytes + READ_MARGIN_BYTES, stretch.end_position - position)
            data = memoryview(handle.file.pread(wanted, position))
            stepped = step_to_offset(data, expected, offset)
            if stepped is None:
                if position == floor.position:
                    self._check_floor(handle, stretch, floor, data)
                return None
            if stepped.size:
                hit = IndexHit(stepped.next_offset, position + stepped.start)
                return _Found(hit, stepped.size, data[stepped.start :])
            if not stepped.start:
                return None
            expected, position = stepped.next_offset, position + stepped.start
        return None

    def _check_floor(
        self, handle: SegmentHandle, stretch: Stretch, floor: IndexHit, data: memoryview
    ) -> None:
        """If it was the index that led astray, go on without it."""
        head = peek_record(data, 0)
        if head is None or head.offset != floor.offset:
            self.rebuild(handle, stretch)

    def _floor(self, handle: SegmentHandle, stretch: Stretch, offset: int) -> IndexHit:
        return self._index(handle, stretch).floor(offset) or IndexHit(stretch.base_offset, LOG_HEADER_BYTES)

    def _index(self, handle: SegmentHandle, stretch: Stretch) -> SparseIndex:
        indexes = handle.rebuilt or stretch.indexes
        return handle.index if indexes is None else indexes.offsets

    def _sure_start(self, handle: SegmentHandle, stretch: Stretch, offset: int) -> IndexHit:
        """An index entry that leads to a sound record, or the front of the segment."""
        floor = self._floor(handle, stretch, offset)
        if is_record(handle.file, floor.position, stretch.end_position, floor.offset):
            return floor
        return IndexHit(stretch.base_offset, LOG_HEADER_BYTES)

    def rebuild(self, handle: SegmentHandle, stretch: Stretch) -> SegmentIndexes:
        """Derive the indexes from the records, for as long as the handle is open."""
        if handle.rebuilt is None:
            indexes = SegmentIndexes(stretch.base_offset, self._stride_bytes)
            start = IndexHit(stretch.base_offset, LOG_HEADER_BYTES)
            self.note_all(
                handle,
                stretch,
                start,
                lambda record: indexes.note(record.offset, record.position, record.size, record.timestamp_ms),
            )
            handle.rebuilt = indexes
        return handle.rebuilt

    def note_all(
        self,
        handle: SegmentHandle,
        stretch: Stretch,
        start: IndexHit,
        note: Callable[[Record], None],
    ) -> None:
        """Tell `note` of every sound record from `start` to the end of the stretch, damage or not."""
        examine(
            handle.file,
            start.position,
            start.offset,
            end_position=stretch.end_position,
            vouched_offset=stretch.end_offset,
            note=note,
        )

    def _out_of_range(self, offset: int, view: View) -> OffsetOutOfRange:
        return OffsetOutOfRange(offset, view.start_offset, view.end_offset, self._layout.root)


class _Found(NamedTuple):
    hit: IndexHit
    size: int
    # The bytes from the record's first on, perhaps not all of it.
    data: memoryview


def _limited(records: Iterator[Record], max_bytes: int | None, max_records: int | None) -> Iterator[Record]:
    left = max_records
    total_bytes = 0
    for record in records:
        if total_bytes and max_bytes is not None and total_bytes + record.size > max_bytes:
            return
        total_bytes += record.size
        yield record
        if left is not None:
            left -= 1
            if left <= 0:
                return
