"""What a single thread sleeps by until others have something for it.

threading.Condition makes a lock for each wait, so that many may wait. This has one, and makes none: it is
used for every group of appends.
"""

from __future__ import annotations

import threading
from typing import Protocol

__all__ = ["Bell"]


class Mutex(Protocol):
    def acquire(self) -> object: ...

    def release(self) -> None: ...


class Bell:
    """`mutex` guards what is waited for, as a condition's does."""

    __slots__ = ("_is_awaited", "_mutex", "_rung")

    def __init__(self, mutex: Mutex) -> None:
        self._mutex = mutex
        self._rung = threading.Lock()
        self._rung.acquire()
        self._is_awaited = False

    def wait(self, seconds: float = -1) -> None:
        """With the mutex, which others may have meanwhile."""
        self._is_awaited = True
        self._mutex.release()
        is_rung = self._rung.acquire(timeout=seconds)
        self._mutex.acquire()
        if not is_rung and not self._is_awaited:  # when the time was just over
            self._rung.acquire()
        self._is_awaited = False

    def notify(self) -> None:
        """With the mutex."""
        if self._is_awaited:
            self._is_awaited = False
            self._rung.release()
