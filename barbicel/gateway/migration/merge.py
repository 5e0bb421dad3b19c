"""Many lines as one: the items of a queue and of its children in an order that has each line's own order.

An item that several lines have (the same data, time of adding and expiry) is given once, for all of them, as
long as their orders allow it. Where they contradict each other it is given twice: no line is ever reordered.

Nothing is decided by what lies far ahead. Lines are sorted by the time of adding, but for what was taken and
came back, so the oldest head comes next; only what is about to come in the other lines is looked at as well.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from barbicel.kestrel_compat.journals.queue import JournalItem

__all__ = ["Merged", "merge"]

# How far is looked ahead: in items of a line, and in bytes of all lines together.
WINDOW_ITEMS = 1024
WINDOW_BYTES = 32 << 20

# What makes an item the same: when it was added, its expiry, its data.
Key: TypeAlias = tuple[int, int, bytes]


class Merged(NamedTuple):
    item: JournalItem
    # The numbers of the lines that it is for, rising.
    lines: tuple[int, ...]


def merge(lines: Sequence[Iterable[JournalItem]]) -> Iterator[Merged]:
    """The same lines give the same order, always: an import that was cut short counts on it."""
    if len(lines) == 1:
        return (Merged(item, (0,)) for item in lines[0])
    return _Merge(lines).run()


class _Window:
    """The next items of a line."""

    def __init__(self, items: Iterable[JournalItem], max_bytes: int) -> None:
        self._items = iter(items)
        self._max_bytes = max_bytes
        self._bytes = 0
        self._is_spent = False
        self._ahead: deque[tuple[Key, JournalItem]] = deque()
        self._counts: Counter[Key] = Counter()

    @property
    def head(self) -> Key | None:
        return self._ahead[0][0] if self._ahead else None

    def fill(self) -> Iterator[Key]:
        """Look ahead; the keys that it did not have before."""
        while not self._is_spent and self._has_room():
            item = next(self._items, None)
            if item is None:
                self._is_spent = True
                return
            key = (item.added_ms, item.expiry_ms or 0, item.data)
            self._ahead.append((key, item))
            self._bytes += len(item.data)
            self._counts[key] += 1
            if self._counts[key] == 1:
                yield key

    def _has_room(self) -> bool:
        return not self._ahead or (len(self._ahead) < WINDOW_ITEMS and self._bytes < self._max_bytes)

    def pop(self) -> tuple[JournalItem, bool]:
        """The head, and whether it was the last of its kind here."""
        key, item = self._ahead.popleft()
        self._bytes -= len(item.data)
        self._counts[key] -= 1
        if self._counts[key]:
            return item, False
        del self._counts[key]
        return item, True


class _Merge:
    def __init__(self, lines: Sequence[Iterable[JournalItem]]) -> None:
        self._windows = [_Window(items, WINDOW_BYTES // len(lines)) for items in lines]
        # In how many windows a key is.
        self._windows_with: Counter[Key] = Counter()

    def run(self) -> Iterator[Merged]:
        while heads := self._heads():
            lines = heads[self._choose(heads)]
            yield Merged(self._take(lines), tuple(lines))

    def _heads(self) -> dict[Key, list[int]]:
        """Which lines go on with what, the first line's first."""
        heads: dict[Key, list[int]] = {}
        for number, window in enumerate(self._windows):
            self._windows_with.update(window.fill())
            if window.head is not None:
                heads.setdefault(window.head, []).append(number)
        return heads

    def _choose(self, heads: dict[Key, list[int]]) -> Key:
        """The oldest that nobody has further behind; if there is none, their orders contradict each other."""
        if len(heads) == 1:
            return next(iter(heads))
        ready = [key for key, lines in heads.items() if self._windows_with[key] == len(lines)]
        return min(ready or heads, key=lambda key: key[0])

    def _take(self, lines: Sequence[int]) -> JournalItem:
        for number in lines:
            item, is_last = self._windows[number].pop()
            if is_last:
                key = (item.added_ms, item.expiry_ms or 0, item.data)
                self._windows_with[key] -= 1
                if not self._windows_with[key]:
                    del self._windows_with[key]
        return item
