"""What a log has promised so far, and whether a log that was reopened after a crash keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from barbicel.errors import OffsetOutOfRange
from barbicel.keratin import Log
from barbicel.keratin.records import NewRecord
from tests.support.inodes import Fate

__all__ = ["BrokenPromise", "Promises"]


class BrokenPromise(AssertionError):
    """The log lost, invented or changed something."""


class Submitted(NamedTuple):
    """A record as it was handed to the log."""

    span: int
    timestamp_ms: int
    headers: bytes
    payload: bytes


@dataclass
class Promises:
    """Kept up to date by the workload before and after every call."""

    # Every record that was ever handed over, by its offset: what may be found there.
    submitted: dict[int, Submitted] = field(default_factory=dict)
    # Answered AFTER_FSYNC: must survive a power cut.
    durable_end: int = 0
    # Answered AFTER_WRITE: must survive a kill -9.
    written_end: int = 0
    # A trim was asked for, and was answered.
    trim_asked: int = 0
    trim_done: int = 0

    def submit(self, offset: int, records: list[NewRecord]) -> int:
        """Note what is about to be appended; returns the offset behind it."""
        for offset_behind in range(offset, max(self.submitted, default=-1) + 1):
            self.submitted.pop(offset_behind, None)
        for record in records:
            assert record.timestamp_ms is not None
            self.submitted[offset] = Submitted(
                record.span, record.timestamp_ms, bytes(record.headers), bytes(record.payload)
            )
            offset += record.span
        return offset

    def copy(self) -> Promises:
        return Promises(
            dict(self.submitted), self.durable_end, self.written_end, self.trim_asked, self.trim_done
        )

    def check(self, log: Log, fate: Fate) -> None:
        """Raise BrokenPromise unless the log holds what it must and nothing else."""
        if log.damage:
            raise BrokenPromise(f"a crash is no damage: {log.damage}")
        promised_end = self.durable_end if fate is not Fate.KEEP else self.written_end
        if log.end_offset < promised_end:
            raise BrokenPromise(f"answered up to {promised_end}, found up to {log.end_offset}")
        if not self.trim_done <= log.start_offset <= self.trim_asked:
            raise BrokenPromise(f"starts at {log.start_offset}, not {self.trim_done}..{self.trim_asked}")
        self._check_records(log)
        self._check_time(log)
        self._check_outside(log)

    def _check_records(self, log: Log) -> None:
        expected = None
        for record in log.scan(log.start_offset):
            if expected is None and not record.offset <= log.start_offset < record.end_offset:
                raise BrokenPromise(f"the first record is {record.offset}")
            if expected is not None and record.offset != expected:
                raise BrokenPromise(f"offset {record.offset} follows where {expected} belongs")
            found = Submitted(record.span, record.timestamp_ms, bytes(record.headers), bytes(record.payload))
            if self.submitted.get(record.offset) != found:
                raise BrokenPromise(f"offset {record.offset} holds what nobody put there")
            expected = record.end_offset
        if (log.start_offset if expected is None else expected) != log.end_offset:
            raise BrokenPromise(f"the records end at {expected}, the log at {log.end_offset}")

    def _check_time(self, log: Log) -> None:
        """The first record of a time, by the index and by going through all of them."""
        records = [(record.timestamp_ms, record.offset) for record in log.scan(log.start_offset)]
        for wanted in {0, *(timestamp for timestamp, _ in records[:: max(1, len(records) // 4)])}:
            first = next((record for record in records if record[0] >= wanted), None)
            if first is not None:  # the log may start inside the record
                first = first[0], max(first[1], log.start_offset)
            if log.offset_for_time(wanted) != first:
                raise BrokenPromise(f"time {wanted}: {log.offset_for_time(wanted)}, not {first}")

    def _check_outside(self, log: Log) -> None:
        for offset in (log.start_offset - 1, log.end_offset):
            try:
                log.fetch(offset)
            except OffsetOutOfRange:
                continue
            raise BrokenPromise(f"offset {offset} can be fetched")
        for offset in {log.start_offset, (log.start_offset + log.end_offset) // 2, log.end_offset - 1}:
            if log.start_offset <= offset < log.end_offset:
                record = log.fetch(offset)
                if not record.offset <= offset < record.end_offset:
                    raise BrokenPromise(f"fetching {offset} gives {record.offset}")
