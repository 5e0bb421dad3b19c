"""Open segment files for reading: a bounded number, the least recently used closed first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress

from barbicel.disk import Disk, File
from barbicel.errors import CorruptFile, DiskError, LogClosed
from barbicel.keratin.examine import read_log_header
from barbicel.keratin.index import IndexHit, SparseIndex
from barbicel.keratin.indexes import SegmentIndexes, are_vouched_for, read_index, read_time_index
from barbicel.keratin.layout import Layout
from barbicel.keratin.time_index import TimeIndex

__all__ = ["HandleBudget", "SegmentHandle", "SegmentHandles"]


# For a log that shares with nobody.
NO_LIMIT = 1 << 62


class SegmentHandle:
    """A segment file that is open for reading. Its header was checked; its indexes are read when needed."""

    def __init__(self, disk: Disk, layout: Layout, base_offset: int) -> None:
        self._disk = disk
        self._layout = layout
        self._index: SparseIndex | None = None
        self._times: TimeIndex | None = None
        # Derived from the records where the files are of no use; then they are used instead.
        self.rebuilt: SegmentIndexes | None = None
        # Where the last read ended, which most go on from. A hint like an index's entry.
        self.went_on_at: IndexHit | None = None
        self.base_offset = base_offset
        self.users = 0
        self.is_dropped = False
        self.file: File = disk.open(layout.log(base_offset), "read")
        try:
            read_log_header(self.file, base_offset)
        except BaseException:
            self.file.close()
            raise

    @property
    def index(self) -> SparseIndex:
        """What the file says; empty if it is of no use: then reading starts at the front."""
        if self._index is None:
            try:
                self._index = read_index(self._disk, self._layout, self.base_offset)
            except (CorruptFile, DiskError):
                self._index = SparseIndex(self.base_offset)
        return self._index

    @property
    def times(self) -> TimeIndex | None:
        """What the file says; None unless both indexes are exactly what was written."""
        if self._times is None and are_vouched_for(self._disk, self._layout, self.base_offset):
            with suppress(CorruptFile, DiskError):  # retention may have taken it since
                self._times = read_time_index(self._disk, self._layout, self.base_offset)
        return self._times


class HandleBudget:
    """How many handles many logs may keep open together. Any thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self._open += count

    @property
    def is_spent(self) -> bool:
        return self._open > self._limit


class SegmentHandles:
    """At most `limit` idle handles; one in use is closed only after its last user is done.

    If the budget that it shares with others is spent, it keeps the one that was used last.
    """

    def __init__(self, disk: Disk, layout: Layout, limit: int, budget: HandleBudget | None = None) -> None:
        self._budget = budget or HandleBudget(NO_LIMIT)
        self._disk = disk
        self._layout = layout
        self._limit = limit
        self._lock = threading.Lock()
        self._open: OrderedDict[int, SegmentHandle] = OrderedDict()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    def drop(self, base_offset: int) -> None:
        """Forget a segment whose file is about to go."""
        with self._lock:
            handle = self._open.pop(base_offset, None)
            if handle is not None:
                self._retire(handle)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            while self._open:
                self._retire(self._open.popitem()[1])

    def acquire(self, base_offset: int) -> SegmentHandle:
        """A handle to be given back by `release`.

        Raises DiskError if the file cannot be opened, CorruptFile if its header is damaged.
        """
        with self._lock:
            if self._is_closed:
                raise LogClosed("the log was closed", path=self._layout.root)
            handle = self._open.get(base_offset)
            if handle is None:
                handle = SegmentHandle(self._disk, self._layout, base_offset)
                self._open[base_offset] = handle
                self._budget.add(1)
                kept = 1 if self._budget.is_spent else self._limit
                while len(self._open) > kept:
                    self._retire(self._open.popitem(last=False)[1])
            else:
                self._open.move_to_end(base_offset)
            handle.users += 1
            return handle

    def release(self, handle: SegmentHandle) -> None:
        with self._lock:
            handle.users -= 1
            if handle.is_dropped and not handle.users:
                handle.file.close()

    def _retire(self, handle: SegmentHandle) -> None:
        handle.is_dropped = True
        self._budget.add(-1)
        if not handle.users:
            handle.file.close()
