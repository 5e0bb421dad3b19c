"""The real disk, with a note of how long each sync of a file takes.

Whatever else a file does is RealFile's own method: only a sync, which takes a thousand times as long as the
note of it, is looked at.
"""

from __future__ import annotations

from time import perf_counter

from barbicel.disk import OpenMode, RealDisk, RealFile
from barbicel.errors import DiskError
from barbicel.gateway.admin.histogram import Histogram

__all__ = ["SyncTimes", "TimedDisk"]

BOUNDS_S = (0.0001, 0.0003, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 5.0)


class SyncTimes:
    """Of all files together."""

    def __init__(self) -> None:
        self.histogram = Histogram(BOUNDS_S)
        self.failures = 0


class _TimedFile(RealFile):
    __slots__ = ("_times",)

    def __init__(self, path: str, mode: OpenMode, times: SyncTimes) -> None:
        super().__init__(path, mode)
        self._times = times

    def fdatasync(self) -> None:
        start_s = perf_counter()
        try:
            super().fdatasync()
        except DiskError:
            self._times.failures += 1
            raise
        self._times.histogram.note(perf_counter() - start_s)


class TimedDisk(RealDisk):
    def __init__(self) -> None:
        self.syncs = SyncTimes()

    def open(self, path: str, mode: OpenMode) -> RealFile:
        return _TimedFile(path, mode, self.syncs)
