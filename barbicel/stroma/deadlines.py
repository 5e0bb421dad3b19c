"""Deadlines in order: the next one is known at once, and changing one never means looking at the others.

A heap whose entries may be stale: an entry counts only if it is the newest of its key and still says what
is so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

__all__ = ["Deadlines"]

Key = TypeVar("Key", bound=Hashable)

SLACK = 64


class Deadlines(Generic[Key]):
    """At most one deadline a key; `current` tells which one, None if there is none any more."""

    __slots__ = ("_current", "_heap", "_newest", "_number")

    def __init__(self, current: Callable[[Key], int | None]) -> None:
        self._current = current
        # The number keeps keys out of the comparison and equal deadlines in order.
        self._heap: list[tuple[int, int, Key]] = []
        self._newest: dict[Key, int] = {}
        self._number = 0

    def add(self, deadline_ms: int, key: Key, live_count: int) -> None:
        """`live_count` is how many keys have a deadline: stale entries go when they outnumber them."""
        self._number += 1
        self._newest[key] = self._number
        heappush(self._heap, (deadline_ms, self._number, key))
        if len(self._heap) > 2 * live_count + SLACK:
            self._rebuild()

    def next_ms(self) -> int | None:
        """The earliest deadline."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def pop(self, now_ms: int) -> Key | None:
        """Take out the earliest key whose deadline has come."""
        self._drop_stale()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        key = heappop(self._heap)[2]
        del self._newest[key]
        return key

    def pop_due(self, now_ms: int) -> Iterator[Key]:
        """Take out every key whose deadline has come, the earliest first."""
        while (key := self.pop(now_ms)) is not None:
            yield key

    def _counts(self, entry: tuple[int, int, Key]) -> bool:
        deadline_ms, number, key = entry
        return self._newest.get(key) == number and self._current(key) == deadline_ms

    def _drop_stale(self) -> None:
        while self._heap and not self._counts(self._heap[0]):
            _, number, key = heappop(self._heap)
            if self._newest.get(key) == number:
                del self._newest[key]

    def _rebuild(self) -> None:
        self._heap = [entry for entry in self._heap if self._counts(entry)]
        self._newest = {key: number for _, number, key in self._heap}
        heapify(self._heap)
