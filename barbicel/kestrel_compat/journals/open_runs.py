"""Which xid comes next where the journal does not say: a 32-bit counter that leaves out 0 and what is open.

A journal can have a million open reads in a row and set the counter back before each of them. So a long run
that was passed over is remembered: what is known to be open is not looked at again until it is closed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container

__all__ = ["MAX_XID", "MIN_XID", "OpenRuns"]

MIN_XID = -(2**31)
MAX_XID = 2**31 - 1
# Shorter runs cost less to pass than to remember.
LONG_RUN = 64


class OpenRuns:
    """Runs of xids that are all open, or 0. Whoever closes an xid must say so while there are runs."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        # Rising and apart: the first xid of each run, and the one behind its last.
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._starts)

    def next_xid(self, last_xid: int, open_xids: Container[int]) -> int:
        """The xid that Kestrel uses after this one."""
        xid = first = last_xid + 1 if last_xid < MAX_XID else MIN_XID
        steps = 0
        while not xid or xid in open_xids:
            xid = self._end_of(xid)
            steps += 1
            if xid > MAX_XID:
                self._remember(first, xid, steps)
                xid = first = MIN_XID
        self._remember(first, xid, steps)
        return xid

    def close(self, xid: int) -> None:
        if not self._starts:
            return
        index = bisect_right(self._starts, xid) - 1
        if index < 0 or xid >= self._ends[index]:
            return
        start, end = self._starts[index], self._ends[index]
        left = [(start, xid), (xid + 1, end)]
        self._replace(index, index + 1, [run for run in left if run[0] < run[1]])

    def clear(self) -> None:
        self._starts.clear()
        self._ends.clear()

    def _end_of(self, xid: int) -> int:
        """What lies behind the run that an open xid is in, as far as it is known."""
        index = bisect_right(self._starts, xid) - 1
        return self._ends[index] if index >= 0 and xid < self._ends[index] else xid + 1

    def _remember(self, start: int, end: int, steps: int) -> None:
        """All from `start` on is open, and it took so many steps to find out."""
        if steps < LONG_RUN:
            return
        low = bisect_right(self._starts, start)
        if low and self._ends[low - 1] >= start:
            low -= 1
            start = self._starts[low]
        high = bisect_right(self._starts, end)
        if high > low:
            end = max(end, self._ends[high - 1])
        self._replace(low, high, [(start, end)])

    def _replace(self, low: int, high: int, runs: list[tuple[int, int]]) -> None:
        self._starts[low:high] = [start for start, _ in runs]
        self._ends[low:high] = [end for _, end in runs]
