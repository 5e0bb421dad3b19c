"""One connection's open reads, by queue, the oldest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from barbicel.kestrel_compat.items import Item, Mark
from barbicel.kestrel_compat.line import Line

if TYPE_CHECKING:
    from barbicel.gateway.kestrel.line_reader import LineReader

__all__ = ["OpenRead", "Session"]


class OpenRead(NamedTuple):
    """`delivery` is its number, which tells it from a later one of the same item. A large item is in the log
    alone while its reader works on it."""

    reader: LineReader
    item: Item | Mark
    delivery: int

    @property
    def is_open(self) -> bool:
        """Not if it has timed out, or if its queue is gone."""
        return self.reader.line.is_open(self.item, self.delivery)


class Session:
    def __init__(self) -> None:
        self._open: dict[str, deque[OpenRead]] = {}
        # By queue: the line of the newest read, and how many lapses it had when all reads were looked at.
        self._looked_at: dict[str, tuple[Line, int]] = {}

    def open_count(self, name: str) -> int:
        reads = self._open.get(name)
        if reads is None:
            return 0
        return len(self._still_open(name, reads))

    def _still_open(self, name: str, reads: deque[OpenRead]) -> deque[OpenRead]:
        """Looks at each only if one of them may have ended by itself since the last time."""
        line = reads[-1].reader.line
        if self._looked_at.get(name) != (line, line.lapses):
            reads = self._open[name] = deque(read for read in reads if read.is_open)
            self._looked_at[name] = (line, line.lapses)
        if not reads:
            self._forget(name)
        return reads

    def _forget(self, name: str) -> None:
        del self._open[name]
        self._looked_at.pop(name, None)

    @property
    def has_open_reads(self) -> bool:
        return any(self.open_count(name) for name in list(self._open))

    def add(self, name: str, read: OpenRead) -> None:
        self._open.setdefault(name, deque()).append(read)

    def take_oldest(self, name: str, count: int) -> list[OpenRead]:
        """So many, or none at all."""
        reads = self._open.get(name)
        if reads is None or len(reads := self._still_open(name, reads)) < count:
            return []
        taken = [reads.popleft() for _ in range(count)]
        if not reads:
            self._forget(name)
        return taken

    def take_all(self) -> Iterator[OpenRead]:
        opened, self._open = self._open, {}
        self._looked_at.clear()
        for reads in opened.values():
            yield from (read for read in reads if read.is_open)
