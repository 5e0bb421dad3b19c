"""Checking the index files of a segment against its records, one record at a time."""

from __future__ import annotations

from barbicel.codecs.keratin_record import Record
from barbicel.keratin.index import SparseIndex
from barbicel.keratin.time_index import TimeIndex

__all__ = ["IndexAudit"]


class IndexAudit:
    """Every entry must stand for a record as it is, and the first record must have one.

    The stride is not checked: it is a setting, and a segment may be older than its present value.
    """

    def __init__(self, offsets: SparseIndex, times: TimeIndex) -> None:
        self._offsets = offsets
        self._times = times
        self._next_entry = 0
        self._next_time = 0
        self._max_timestamp_ms = -1
        self.problem: str | None = None

    def note(self, record: Record) -> None:
        if self.problem is None:
            grew = record.timestamp_ms > self._max_timestamp_ms
            self._max_timestamp_ms = max(self._max_timestamp_ms, record.timestamp_ms)
            self.problem = self._time_problem(record, grew) or self._offset_problem(record)

    def finish(self) -> str | None:
        """What is wrong, now that every record was noted."""
        if self.problem is None and self._next_entry < len(self._offsets):
            return f".idx entry {self._next_entry} points behind the last record"
        if self.problem is None and self._next_time < len(self._times):
            return f".tidx entry {self._next_time} points behind the last record"
        return self.problem

    def _time_problem(self, record: Record, grew: bool) -> str | None:
        if self._next_time == len(self._times):
            return None
        entry = self._times[self._next_time]
        if entry.offset > record.offset:
            return None
        if entry.offset < record.offset or entry.timestamp_ms != record.timestamp_ms or not grew:
            return f".tidx entry {self._next_time} does not match the log"
        self._next_time += 1
        return None

    def _offset_problem(self, record: Record) -> str | None:
        if self._next_entry == len(self._offsets):
            return None if self._next_entry else "the first record is not indexed"
        entry = self._offsets[self._next_entry]
        if entry.offset > record.offset and self._next_entry:
            return None
        if entry != (record.offset, record.position):
            return f".idx entry {self._next_entry} does not match the log"
        self._next_entry += 1
        reached = self._times[self._next_time - 1].timestamp_ms if self._next_time else -1
        if reached < self._max_timestamp_ms:
            return f".tidx lacks the maximum at offset {record.offset}"
        return None
