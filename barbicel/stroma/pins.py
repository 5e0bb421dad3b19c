"""Which groups are being worked on without the store's mutex, and how to wait for the end of that."""

from __future__ import annotations

import threading
from collections import Counter

from barbicel.stroma.names import GroupKey

__all__ = ["Pins"]


class Pins:
    """All of it is called with the mutex of `changed`, which is let go of while somebody waits."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._counts: Counter[GroupKey] = Counter()

    def __contains__(self, key: GroupKey) -> bool:
        return key in self._counts

    def add(self, key: GroupKey) -> None:
        self._counts[key] += 1

    def remove(self, key: GroupKey) -> None:
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]
        self._changed.notify_all()

    def wait_for_none(self, key: GroupKey) -> None:
        while key in self._counts:
            self._changed.wait()

    def wait_for_others(self, key: GroupKey) -> None:
        """For one who has a pin on it."""
        while self._counts[key] > 1:
            self._changed.wait()

    def wait_for_all(self) -> None:
        while self._counts:
            self._changed.wait()
