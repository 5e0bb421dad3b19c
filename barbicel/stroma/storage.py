"""Messages and their consumption together: Keratin holds the records, Stroma what became of them.

The façade that a broker works with. Offsets are those of single messages; a record of the log may span
many of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from barbicel.codecs.keratin_record import Record
from barbicel.codecs.stroma_events import Ack as AckEvent
from barbicel.codecs.stroma_events import BumpAckedUntil, MarkInflight
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.errors import OffsetOutOfRange, OffsetsLost
from barbicel.keratin import Ack, Appended, Log, NewRecord
from barbicel.stroma.names import GroupKey
from barbicel.stroma.ranges import Range
from barbicel.stroma.store import Expired, GroupStore

__all__ = ["Available", "ExpiredMessage", "Logs", "Storage"]


class Logs(Protocol):
    """Where the log of a partition is to be had."""

    def __call__(self, topic: str, partition: int) -> Log: ...


class Available(NamedTuple):
    """A record, and which of its offsets are neither acked nor inflight."""

    record: Record
    offsets: Range


class ExpiredMessage(NamedTuple):
    """An offset that was not acked in time, with the record that holds it; None if that is gone."""

    expired: Expired
    record: Record | None


class Storage:
    """Append, read, hand out, acknowledge. Events are safe to answer after `commit`."""

    def __init__(self, logs: Logs, groups: GroupStore) -> None:
        self._logs = logs
        self.groups = groups

    def open_partition(self, topic: str, partition: int) -> list[GroupKey]:
        """Call it once a log was opened, before anything is appended; returns the groups that it changed.

        A power cut may have taken messages that groups have acked. On return no group says anything about
        offsets that the log is about to use again, and that is durable. Raises what `GroupStore.clamp`
        raises; then nothing may be appended.
        """
        log = self._logs(topic, partition)
        if log.damage:
            return []  # it takes no appends, and where it ends is known only after its repair
        return self.groups.clamp(topic, partition, log.end_offset)

    def append_batch(
        self, topic: str, partition: int, records: Sequence[NewRecord], ack: Ack = Ack.AFTER_FSYNC
    ) -> Appended:
        return self._logs(topic, partition).append(records, ack)

    def fetch_by_offset(self, topic: str, partition: int, offset: int) -> Record:
        """The record that contains the offset."""
        return self._logs(topic, partition).fetch(offset)

    def fetch_available(
        self, key: GroupKey, from_offset: int, max_offsets: int, max_bytes: int | None = None
    ) -> list[Available]:
        """Up to `max_offsets` offsets that can be handed out, from `from_offset` on, with their records.

        What is acked or inflight is passed over in stretches, never one by one. Stops before `max_bytes`
        of records, but not before the first.
        """
        log = self._logs(key.topic, key.partition)
        state = self.groups.state(key)
        start = max(from_offset, log.start_offset, state.acked_until)
        found: list[Available] = []
        left, total_bytes = max_offsets, 0
        parts = _cut_at_records(log, state.available(start, log.end_offset))
        while left > 0 and (part := next(parts, None)) is not None:
            record, offsets = part
            if not found or record is not found[-1].record:
                total_bytes += record.size
            if found and max_bytes is not None and total_bytes > max_bytes:
                break
            wanted = Range(offsets.start, min(offsets.end, offsets.start + left))
            found.append(Available(record, wanted))
            left -= wanted.end - wanted.start
        return found

    def mark_inflight(self, key: GroupKey, offsets: Iterable[int], deadline_ms: int = NO_DEADLINE_MS) -> None:
        """Hand offsets out until the deadline; each delivery counts."""
        state = self.groups.state(key)
        self.groups.record(
            key, [MarkInflight(offset, deadline_ms, state.next_epoch(offset)) for offset in offsets]
        )

    def ack(self, key: GroupKey, offsets: Iterable[int]) -> None:
        """The offsets are done with, in any order."""
        self.groups.record(key, [AckEvent(offset) for offset in offsets])

    def flush(self, key: GroupKey) -> None:
        """Everything in the log is done with."""
        end = self._logs(key.topic, key.partition).end_offset
        self.groups.record(key, [BumpAckedUntil(end)])

    def lag(self, key: GroupKey) -> int:
        """How many offsets are not acked; what retention took does not count."""
        log = self._logs(key.topic, key.partition)
        state = self.groups.state(key)
        if log.start_offset > state.acked_until:
            self.groups.record(key, [BumpAckedUntil(log.start_offset)])
        return state.lag(log.end_offset)

    def list_expired(self, now_ms: int, limit: int = 10_000) -> list[ExpiredMessage]:
        """What was not acked in time, available again from now on. Touches only what has expired."""
        return [
            ExpiredMessage(expired, _fetch(self._logs(*expired.key[:2]), expired.offset)[0])
            for expired in self.groups.pop_expired(now_ms, limit)
        ]

    def commit(self) -> None:
        """Write what was recorded. Raises the first group's error if one could not be written."""
        for error in self.groups.commit().values():
            raise error


def _cut_at_records(log: Log, gaps: Iterable[Range]) -> Iterator[Available]:
    """The stretches, cut where records end; each record is fetched once. What is lost is passed over."""
    record, lost_end = None, 0
    for start, end in gaps:
        start = max(start, lost_end)
        while start < end:
            if record is None or start >= record.end_offset:
                record, lost_end = _fetch(log, start)
            if record is None:
                start = lost_end
                continue
            yield Available(record, Range(start, min(end, record.end_offset)))
            start = record.end_offset


def _fetch(log: Log, offset: int) -> tuple[Record | None, int]:
    """The record, or where the stretch ends in which there is none."""
    try:
        return log.fetch(offset), offset
    except OffsetsLost as error:
        return None, error.end_offset
    except OffsetOutOfRange as error:
        return None, max(error.start_offset, offset + 1)
