"""The threads that keep a store's promises in time: syncs within the interval, compaction, eviction.

There are several because a sync is mostly waiting: for the disk, and then for the interpreter.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from barbicel.closing import Closing
from barbicel.errors import DiskError
from barbicel.stroma.store import GroupStore

__all__ = ["Flusher"]


class Flusher(Closing):
    """Calls `maintain` twice in every interval until it is closed."""

    def __init__(self, store: GroupStore, interval_ms: int = 100, threads: int = 4) -> None:
        self._store = store
        self._pause_seconds = interval_ms / 2000
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name=f"stroma-flusher-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while not self._closing.wait(self._pause_seconds):
            # A group that fails is listed in `failures`, and a later round recovers it.
            with suppress(DiskError):
                self._store.maintain()

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join()
