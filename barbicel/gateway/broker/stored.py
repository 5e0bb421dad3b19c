"""All that is stored of a partition: what its log has on the disk, and before that what the object store has.

Everything here waits, for the disk or for the network, and may be called from any thread but the reactor's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate, chain
from typing import Protocol

from barbicel.errors import CorruptLog, OffsetOutOfRange
from barbicel.keratin import Log
from barbicel.tier.local_log import StoredBatch

__all__ = ["RECORD_FRAME_BYTES", "Remote", "Stored", "fitting"]

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
            while offset < end_offset and (left > 0 or (at_least_one and not found)):
                is_first = at_least_one and not found
                read = self.log.read(offset, end_offset, max(left, 1) + RECORD_FRAME_BYTES)
                if not read.views:
                    # What comes before damage stays in the list when that is raised.
                    found.extend(self._scan_disk(offset, end_offset, left, is_first))
                    if is_first and not found:  # so much was given up
                        found.extend(self._scan_disk(offset, end_offset, left, is_first, is_limited=False))
                    break
                count, left = fitting(read.views, left, at_least_one=is_first)
                found += read.views[:count]
                if count < len(read.views) or read.cut_bytes > left:
                    break
                offset = read.next_offset
        except (CorruptLog, OffsetOutOfRange):
            if not found:
                raise
        return found

    def _scan_disk(
        self, offset: int, end_offset: int, max_bytes: int, at_least_one: bool, *, is_limited: bool = True
    ) -> Iterator[memoryview]:
        """One by one, with what a repair has given up passed over, which counts in what is read."""
        read_bytes = max(max_bytes, 1) + RECORD_FRAME_BYTES if is_limited else None
        for record in self.log.scan(offset, max_bytes=read_bytes):
            max_bytes -= len(record.payload)
            if record.offset >= end_offset or (max_bytes < 0 and not at_least_one):
                return
            at_least_one = False
            yield record.payload

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


def fitting(views: list[memoryview], max_bytes: int, *, at_least_one: bool) -> tuple[int, int]:
    """How many of them fit, and how much room that leaves."""
    ends = list(accumulate(map(len, views)))
    count = max(bisect_right(ends, max_bytes), int(at_least_one))
    return count, max_bytes - ends[count - 1] if count else max_bytes
