"""All that is stored of a partition: what its log has on the disk, and before that what the object store has.

Everything here waits, for the disk or for the network, and may be called from any thread but the reactor's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

from barbicel.codecs.keratin_record import Record
from barbicel.errors import CorruptLog, OffsetOutOfRange
from barbicel.keratin import Log
from barbicel.tier.local_log import StoredBatch

__all__ = ["RECORD_FRAME_BYTES", "Remote", "Stored"]

# The record's own framing counts in a scan's limit and not in a fetch's.
RECORD_FRAME_BYTES = 64 << 10


class Remote(Protocol):
    """What an object store has of a partition: a TieredPartition, which not every server imports."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int | None: ...

    def read(
        self, offset: int, end_offset: int, max_bytes: int, *, at_least_one: bool
    ) -> list[memoryview]: ...

    def from_time(self, timestamp_ms: int, below_offset: int) -> Iterator[StoredBatch]: ...

    def max_timestamp_ms(self, below_offset: int) -> int: ...

    def drop_before(self, offset: int) -> None: ...


class Stored:
    """`tiered` is None where nothing is in an object store, nor will be."""

    def __init__(self, log: Log, tiered: Remote | None) -> None:
        self.log = log
        self.tiered = tiered
        # Called before what lies below an offset leaves the disk; if it raises, all of it stays.
        self.before_drop: Callable[[int], None] = lambda offset: None

    @property
    def start_offset(self) -> int:
        """This one never waits."""
        return self.log.start_offset if self.tiered is None else self.tiered.start_offset

    def is_remote(self, offset: int) -> bool:
        """Whether reading it waits for the network. Never waits itself."""
        return self.tiered is not None and offset < self.log.start_offset

    # --- by offset ------------------------------------------------------------------------------------

    def read(self, offset: int, end_offset: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview]:
        """Whole batches from the offset on. What a repair has given up is passed over.

        Raises OffsetOutOfRange, CorruptLog and what reading from the store does, unless there is something
        before the damage.
        """
        while True:
            try:
                # Looked at once: it may move at any time, and what it passes must not be left out.
                border = self.log.start_offset
                if self.tiered is None or offset >= border:
                    return self._read_disk(offset, end_offset, max_bytes, at_least_one)
                found = self.tiered.read(offset, end_offset, max_bytes, at_least_one=at_least_one)
                if found or not at_least_one:
                    return found
                # In the store there is nothing between.
                return self._read_disk(border, end_offset, max_bytes, at_least_one)
            except OffsetOutOfRange:
                # It may have left the disk just now.
                if not (self.is_remote(offset) and self.start_offset <= offset):
                    raise

    def _read_disk(
        self, offset: int, end_offset: int, max_bytes: int, at_least_one: bool
    ) -> list[memoryview]:
        found: list[memoryview] = []
        left = max_bytes
        try:
            for record in self._records(offset, end_offset, max(max_bytes, 1) + RECORD_FRAME_BYTES):
                if record.lost:
                    continue
                left -= len(record.payload)
                if record.offset >= end_offset or (left < 0 and (found or not at_least_one)):
                    break
                found.append(record.payload)
        except (CorruptLog, OffsetOutOfRange):
            if not found:
                raise
        return found

    def _records(self, offset: int, end_offset: int, max_bytes: int) -> Iterator[Record]:
        """As many as one read has, again and again, or else one by one."""
        # A rest that is less than that is not worth a read.
        while offset < end_offset and max_bytes > RECORD_FRAME_BYTES:
            records = self.log.read(offset, max_bytes)
            if not records:
                yield from self.log.scan(offset, max_bytes=max_bytes)
                return
            yield from records
            last = records[-1]
            offset = last.end_offset
            if not last.lost:  # what is behind a loss is read all the same
                max_bytes -= last.position + last.size - records[0].position

    # --- by time --------------------------------------------------------------------------------------

    def from_time(self, timestamp_ms: int) -> Iterator[StoredBatch]:
        """The batches from the first one on whose highest timestamp is not below the given one."""
        if self.tiered is None:
            return self._on_disk(timestamp_ms)
        return self._everywhere(self.tiered, timestamp_ms)

    def _everywhere(self, tiered: Remote, timestamp_ms: int) -> Iterator[StoredBatch]:
        border = -1
        # What leaves the disk while the store is read is in the store by then.
        while border < self.log.start_offset:
            seen, border = max(border, 0), self.log.start_offset
            yield from (batch for batch in tiered.from_time(timestamp_ms, border) if batch.offset >= seen)
            on_disk = self._on_disk(timestamp_ms)
            first = next(on_disk, None)
            if border == self.log.start_offset:
                if first is not None:
                    yield from chain((first,), on_disk)
                return

    def _on_disk(self, timestamp_ms: int) -> Iterator[StoredBatch]:
        for record in self.log.scan_from_time(timestamp_ms):
            yield StoredBatch(record.offset, record.timestamp_ms, record.payload)

    def latest(self, end_offset: int) -> StoredBatch | None:
        """The first batch with the highest timestamp of all."""
        hit = self.log.latest_time()
        remote_ms = -1 if self.tiered is None else self.tiered.max_timestamp_ms(self.log.start_offset)
        if self.tiered is not None and remote_ms >= 0 and (hit is None or hit.timestamp_ms <= remote_ms):
            return next(
                (batch for batch in self.from_time(remote_ms) if batch.timestamp_ms >= remote_ms), None
            )
        if hit is None or hit.offset >= end_offset:
            return None
        record = self.log.fetch(hit.offset)
        return StoredBatch(record.offset, record.timestamp_ms, record.payload)

    # --- giving up ------------------------------------------------------------------------------------

    def drop_before(self, offset: int) -> int:
        """Delete all below the offset, for good; the new start, which survives a power cut."""
        if self.tiered is not None:
            self.tiered.drop_before(offset)
        if offset > self.log.start_offset:
            self.before_drop(offset)
            self.log.truncate_before(offset)
        return self.start_offset
