"""Loads before anybody asks, in threads of its own.

Each is a favour: it may be left out, and its error is kept to itself, for whoever reads on will meet it and
can tell somebody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

from barbicel.closing import Closing

__all__ = ["Readahead"]

WAITING_PER_THREAD = 8


class Readahead(Closing):
    """Any thread may ask; nobody waits but `close`, for the loads that have begun."""

    def __init__(self, threads: int) -> None:
        # What was asked for, what was not because too much was waiting, and what failed.
        self.asked = self.refused = self.failures = 0
        self._lock = threading.Lock()
        self._waiting: set[Hashable] = set()
        self._max_waiting = threads * WAITING_PER_THREAD
        self._pool = ThreadPoolExecutor(threads, "barbicel-readahead") if threads > 0 else None
        self._is_closed = threads <= 0

    @property
    def waiting(self) -> int:
        """Loads that have not ended."""
        return len(self._waiting)

    def ask(self, key: Hashable, load: Callable[[], object]) -> None:
        """Have it loaded soon, unless that was asked for before."""
        with self._lock:
            if self._is_closed or key in self._waiting:
                return
            if len(self._waiting) >= self._max_waiting:
                self.refused += 1
                return
            self._waiting.add(key)
            self.asked += 1
            assert self._pool is not None
            self._pool.submit(self._load, key, load)

    def _load(self, key: Hashable, load: Callable[[], object]) -> None:
        try:
            load()
        except Exception:
            self.failures += 1
        finally:
            with self._lock:
                self._waiting.discard(key)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
