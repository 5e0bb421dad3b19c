"""Looking at one segment's files together: the log, and whether its indexes still tell the truth."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import NamedTuple

from barbicel.codecs.keratin_format import INDEX_HEADER_BYTES, LOG_HEADER_BYTES, FileHeader
from barbicel.codecs.keratin_record import Record
from barbicel.disk import Disk, File
from barbicel.errors import CorruptFile, DiskError, UnknownVersion
from barbicel.keratin.examine import (
    Examination,
    examine,
    read_log_header,
    whole_records_behind,
)
from barbicel.keratin.index import SparseIndex
from barbicel.keratin.index_audit import IndexAudit
from barbicel.keratin.indexes import SegmentIndexes, are_vouched_for, read_index, read_time_index
from barbicel.keratin.layout import Layout
from barbicel.keratin.plan import Damage, SegmentPlan, Torn
from barbicel.keratin.time_index import TimeIndex
from barbicel.keratin.walk import is_record, last_nonzero

__all__ = ["SurveyOrder", "survey_segment"]


@dataclass(frozen=True, slots=True)
class SurveyOrder:
    """Which segment to look at, and what is known about it."""

    base_offset: int
    # Below this offset everything must be there: what is missing is damage.
    vouched_offset: int
    # Below this offset everything is known to be synced: what lies there need not be read again.
    synced_offset: int
    # Bytes of the file that belong to the segment; None: all of them.
    log_bytes: int | None = None
    deep: bool = False
    # Why the index files have to be written anew, if that is known already.
    reindex: str | None = None


class _Start(NamedTuple):
    """Where to begin, with the indexes of what lies before."""

    position: int
    offset: int
    indexes: SegmentIndexes


class _Notes:
    """What is learned from the records of a segment on the way."""

    def __init__(self, indexes: SegmentIndexes, synced_offset: int, audit: IndexAudit | None) -> None:
        self.indexes = indexes
        self.unsynced_position: int | None = None
        self._synced_offset = synced_offset
        self._audit = audit

    def note(self, record: Record) -> None:
        self.indexes.note(record.offset, record.position, record.size, record.timestamp_ms)
        if self.unsynced_position is None and record.offset >= self._synced_offset:
            self.unsynced_position = record.position
        if self._audit is not None:
            self._audit.note(record)


def survey_segment(disk: Disk, layout: Layout, stride_bytes: int, order: SurveyOrder) -> SegmentPlan:
    """Raises UnknownVersion if a newer program wrote the segment."""
    base = order.base_offset
    path = layout.log(base)
    file = disk.open(path, "read")
    try:
        size = file.size()
        end = size if order.log_bytes is None else min(size, order.log_bytes)
        header, damage = _read_header(file, base)
        index_problem, offsets, times = _read_indexes(disk, layout, base)
        idx_bytes = INDEX_HEADER_BYTES + len(offsets.entries)
        start = _from_the_beginning(base, stride_bytes)
        audit = None
        if order.deep:
            audit = IndexAudit(offsets, times) if index_problem is None else None
        elif index_problem is None and not damage:
            start = _from_the_last_entry(file, end, offsets, times, order, stride_bytes) or start
        notes = _Notes(start.indexes, order.synced_offset, audit)
        examined = examine(
            file,
            start.position,
            start.offset,
            end_position=end,
            vouched_offset=order.vouched_offset,
            note=notes.note,
            index=offsets if index_problem is None else None,
        )
        if audit is not None:
            index_problem = audit.finish()
        elif index_problem is None:
            index_problem = _difference(disk, layout, base, notes.indexes)
        damage += tuple(
            Damage(path, gap.position, gap.first_offset, gap.end_offset, gap.reason) for gap in examined.gaps
        )
        reindex = index_problem or order.reindex
        return SegmentPlan(
            base,
            examined.end_offset,
            examined.end_position,
            idx_bytes=idx_bytes if reindex is None else notes.indexes.idx_bytes,
            created_ts_ms=header.created_ts_ms,
            file_bytes=size,
            indexes=notes.indexes,
            runs=examined.runs,
            damage=damage,
            torn=_torn(file, examined, size),
            rewrite_from=notes.unsynced_position,
            reindex=reindex,
        )
    finally:
        file.close()


def _read_header(file: File, base_offset: int) -> tuple[FileHeader, tuple[Damage, ...]]:
    try:
        return read_log_header(file, base_offset), ()
    except UnknownVersion:
        raise
    except CorruptFile as error:
        # The records follow all the same, at the offset that the name says.
        damage = Damage(file.path, error.position, base_offset, base_offset, error.message)
        return FileHeader(base_offset, 0), (damage,)


def _read_indexes(disk: Disk, layout: Layout, base_offset: int) -> tuple[str | None, SparseIndex, TimeIndex]:
    """What is wrong with the index files, if anything, and what they hold."""
    try:
        offsets, times = read_index(disk, layout, base_offset), read_time_index(disk, layout, base_offset)
        if are_vouched_for(disk, layout, base_offset):
            return None, offsets, times
        problem = "its index files are not what the last checkpoint wrote"
    except CorruptFile as error:
        problem = error.message
    except DiskError as error:
        if error.errno != errno.ENOENT:
            raise
        problem = f"{error.path} is missing"
    return problem, SparseIndex(base_offset), TimeIndex(base_offset)


def _from_the_beginning(base_offset: int, stride_bytes: int) -> _Start:
    return _Start(LOG_HEADER_BYTES, base_offset, SegmentIndexes(base_offset, stride_bytes))


def _from_the_last_entry(
    file: File,
    end: int,
    offsets: SparseIndex,
    times: TimeIndex,
    order: SurveyOrder,
    stride_bytes: int,
) -> _Start | None:
    """The last place that the indexes and the log agree on, so that little is left to read."""
    offsets.cut(order.synced_offset - 1)
    hit = offsets[len(offsets) - 1] if offsets else None
    if hit is None or not is_record(file, hit.position, end, hit.offset):
        return None
    offsets.cut(hit.offset - 1)
    times.cut(hit.offset)
    return _Start(hit.position, hit.offset, SegmentIndexes.resumed(offsets, times, stride_bytes))


def _difference(disk: Disk, layout: Layout, base_offset: int, indexes: SegmentIndexes) -> str | None:
    """Whether the index files hold something else than what was derived from the records."""
    problem, offsets, times = _read_indexes(disk, layout, base_offset)
    if problem is None and offsets.entries != indexes.offsets.entries:
        return "its .idx does not match the log"
    if problem is None and times.entries != indexes.times.entries:
        return "its .tidx does not match the log"
    return problem


def _torn(file: File, examined: Examination, size: int) -> Torn | None:
    """Bytes behind the last sound record that are not the zeros of a preallocation."""
    if any(gap.end_position >= size for gap in examined.gaps):
        return None  # that is damage already
    end = last_nonzero(file, examined.end_position, size)
    if end == examined.end_position:
        return None
    reason = examined.torn or "bytes behind the end of a sealed segment"
    behind = whole_records_behind(file, examined.end_position, end, examined.end_offset)
    return Torn(examined.end_position, end, reason, behind)
