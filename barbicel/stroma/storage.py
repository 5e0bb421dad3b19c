"""Messages and their consumption together: Keratin holds the records, Stroma what became of them.

The façade that a broker works with. Offsets are those of single messages; a record of the log may span
many of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from barbicel.codecs.keratin_record import Record
from barbicel.codecs.stroma_events import Ack as AckEvent
from barbicel.codecs.stroma_events import (
    BumpAckedUntil,
    ClearInflight,
    Commit,
    MarkInflight,
    Release,
    Reset,
)
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.errors import BarbicelError, CorruptLog, OffsetOutOfRange, OffsetsLost
from barbicel.keratin import Ack, Appended, Log, NewRecord
from barbicel.stroma.expiry import Expired
from barbicel.stroma.names import GroupKey
from barbicel.stroma.ranges import Range
from barbicel.stroma.store import GroupStore

__all__ = ["Available", "ExpiredMessage", "Logs", "Storage"]


class Logs(Protocol):
    """Where the log of a partition is to be had. Raises BarbicelError or LookupError if there is none."""

    def __call__(self, topic: str, partition: int) -> Log: ...


class Available(NamedTuple):
    """A record, and which of its offsets are neither acked nor inflight."""

    record: Record
    offsets: Range


class ExpiredMessage(NamedTuple):
    """An offset that was not acked in time, with the record that holds it.

    Without one, `error` says why it cannot be had; None if retention or a repair took it.
    """

    expired: Expired
    record: Record | None
    error: Exception | None = None


class Storage:
    """Append, read, hand out, acknowledge. Events are safe to answer after `commit`.

    What hands out, acks, gives back or commits for a group belongs into one thread, as `GroupStore` says.
    `fetch_available` and `lag` may be called from any.
    """

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
        of records, but not before the first; and before damage, which is raised if it comes first.
        """
        log = self._logs(key.topic, key.partition)
        found: list[Available] = []
        left, total_bytes = max_offsets, 0
        try:
            for record, offsets in self._available(log, key, from_offset, max_offsets):
                if not found or record is not found[-1].record:
                    total_bytes += record.size
                if found and max_bytes is not None and total_bytes > max_bytes:
                    break
                wanted = Range(offsets.start, min(offsets.end, offsets.start + left))
                found.append(Available(record, wanted))
                left -= wanted.end - wanted.start
                if not left:
                    break
        except CorruptLog:
            if not found:
                raise
        return found

    def _available(self, log: Log, key: GroupKey, start: int, at_once: int) -> Iterator[Available]:
        """What can be handed out from `start` on, looked up a stretch after the other."""
        start, end = max(start, log.start_offset), log.end_offset
        while at_once > 0 and (gaps := self.groups.available(key, start, end, at_once)):
            yield from _cut_at_records(log, gaps)
            start = gaps[-1].end

    # --- events -------------------------------------------------------------------------------------

    def mark_inflight(self, key: GroupKey, offsets: Iterable[int], deadline_ms: int = NO_DEADLINE_MS) -> None:
        """Hand offsets out until the deadline; each delivery counts. Raises OffsetOutOfRange."""
        wanted = self._below_end(key, offsets)
        state = self.groups.state(key)
        self.groups.record(
            key, [MarkInflight(offset, deadline_ms, state.next_epoch(offset)) for offset in wanted]
        )

    def ack(self, key: GroupKey, offsets: Iterable[int]) -> None:
        """The offsets are done with, in any order. Raises OffsetOutOfRange for one beyond the log's end."""
        self.groups.record(key, [AckEvent(offset) for offset in self._below_end(key, offsets)])

    def release(self, key: GroupKey, offsets: Iterable[int]) -> None:
        """Give back what is inflight; its deliveries count. What is not inflight stays as it is."""
        inflight = self.groups.state(key).inflight
        held = [(offset, inflight[offset].epoch) for offset in offsets if offset in inflight]
        self.groups.record(key, [Release(offset, epoch) for offset, epoch in held])

    def clear_inflight(self, key: GroupKey, offsets: Iterable[int]) -> None:
        """Give back what is inflight as if it had never been handed out."""
        self.groups.record(key, [ClearInflight(offset) for offset in offsets])

    def commit_position(
        self,
        key: GroupKey,
        position: int,
        leader_epoch: int | None = None,
        metadata: bytes | None = None,
    ) -> None:
        """Everything below the position is done with, everything else is not: Kafka's commit of an offset.

        Backwards too, and beyond the log's end, as Kafka allows; `open_partition` sets such a one back.
        """
        self.groups.record(key, [Commit(position, leader_epoch, metadata)])

    def reset(self, key: GroupKey) -> None:
        """The group has consumed nothing, and committed nothing."""
        self.groups.record(key, [Reset()])

    def flush(self, key: GroupKey) -> None:
        """Everything in the log is done with."""
        end = self._logs(key.topic, key.partition).end_offset
        self.groups.record(key, [BumpAckedUntil(end)])

    def _below_end(self, key: GroupKey, offsets: Iterable[int]) -> list[int]:
        """An ack for what is not written yet would hide the message that comes there."""
        log = self._logs(key.topic, key.partition)
        wanted = list(offsets)
        for offset in wanted:
            if offset >= log.end_offset:
                raise OffsetOutOfRange(offset, log.start_offset, log.end_offset, log.path)
        return wanted

    def commit(self) -> dict[GroupKey, BarbicelError]:
        """Write what was recorded; returns the groups for which that failed, as `GroupStore.commit` does.

        What was recorded for these must not be answered as done.
        """
        return self.groups.commit()

    # --- asking -------------------------------------------------------------------------------------

    def lag(self, key: GroupKey) -> int:
        """How many offsets are not acked; what retention took does not count. Changes nothing."""
        log = self._logs(key.topic, key.partition)
        return self.groups.lag(key, log.end_offset, log.start_offset)

    def list_expired(self, now_ms: int, limit: int = 10_000) -> list[ExpiredMessage]:
        """What was not acked in time, available again from now on. Touches only what has expired.

        A record that cannot be had takes no other with it: its `error` says why.
        """
        return [self._expired_message(expired) for expired in self.groups.pop_expired(now_ms, limit)]

    def _expired_message(self, expired: Expired) -> ExpiredMessage:
        try:
            record, _ = _fetch(self._logs(*expired.key[:2]), expired.offset)
        except (BarbicelError, LookupError) as error:
            return ExpiredMessage(expired, None, error)
        return ExpiredMessage(expired, record)


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
