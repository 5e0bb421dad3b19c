"""The peers: what the same bytes cost without groups."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from crc32c import crc32c

from barbicel.codecs.stroma_events import DELTA_HEADER_BYTES, EVENT_HEAD
from barbicel.codecs.stroma_format import CRC
from barbicel.codecs.stroma_snapshot import SNAP_HEADER_BYTES, SNAP_INFLIGHT, SNAP_RANGE

__all__ = ["BareFiles", "read_delta_bare", "read_snapshot_bare"]


class BareFiles:
    """Files that grow by pwrite(2) alone. They are removed with the directory that they lie in."""

    def __init__(self, directory: str, count: int) -> None:
        os.mkdir(directory)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        self._fds = [os.open(f"{directory}/{number}", flags, 0o644) for number in range(count)]
        self._ends = [0] * count
        self._unsynced: set[int] = set()

    def append(self, number: int, data: bytes) -> None:
        os.pwrite(self._fds[number], data, self._ends[number])
        self._ends[number] += len(data)
        self._unsynced.add(number)

    def sync(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._unsynced.discard(number)
            os.fdatasync(self._fds[number])

    @contextmanager
    def synced_every(self, interval_seconds: float) -> Iterator[None]:
        """A thread syncs what was written, again and again."""
        closing = threading.Event()

        def run() -> None:
            while not closing.wait(interval_seconds):
                self.sync(list(self._unsynced.copy()))

        thread = threading.Thread(target=run, name="bare-sync", daemon=True)
        thread.start()
        try:
            yield
        finally:
            closing.set()
            os.sync()  # or the thread would be at its last round for seconds
            thread.join()

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)


def read_delta_bare(path: str) -> float:
    """Seconds to read a delta and to check every event's CRC, with nothing made of it."""
    start = time.perf_counter()
    data = _read(path)
    view = memoryview(data)
    position = DELTA_HEADER_BYTES
    while position < len(data):
        length = EVENT_HEAD.unpack_from(data, position)[4]
        end = position + EVENT_HEAD.size + length
        if CRC.unpack_from(data, end)[0] != crc32c(view[position + 2 : end]):
            raise RuntimeError(f"{path} is damaged at {position}")
        position = end + CRC.size
    return time.perf_counter() - start


def read_snapshot_bare(path: str, ranges: int, inflight: int) -> float:
    """Seconds to read a snapshot, to check its CRC and to unpack as many entries as it has."""
    start = time.perf_counter()
    data = _read(path)
    if CRC.unpack_from(data, len(data) - CRC.size)[0] != crc32c(data[SNAP_HEADER_BYTES : -CRC.size]):
        raise RuntimeError(f"{path} is damaged")
    for layout, count in ((SNAP_INFLIGHT, inflight), (SNAP_RANGE, ranges)):
        list(layout.iter_unpack(data[: count * layout.size]))
    return time.perf_counter() - start


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()
