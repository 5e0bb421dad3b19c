"""Memory for what all lines together have read ahead, or got back.

All of it is in the log too. When there is too much, the lines that have read least lately let go of theirs,
unless somebody waits there: they read it again when they are asked. The line that has just read keeps what it
has, however large it is, so that everybody is served, if need be one after the other.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["AHEAD_BYTES", "AheadBudget", "Holding"]

# Twice what one batch may hold. A queue in use has 64 KiB of the newest, or a megabyte of what is older.
AHEAD_BYTES = 128 << 20


class Holding(Protocol):
    """A line, as far as its memory goes."""

    @property
    def held_bytes(self) -> int: ...

    def let_go(self) -> None:
        """As far as nobody waits for it."""


class AheadBudget:
    def __init__(self, max_bytes: int = AHEAD_BYTES) -> None:
        self.max_bytes = max_bytes
        # What each had when it last read, and may have less of now. Who has read least lately is first.
        self._noted: dict[Holding, int] = {}
        self._noted_bytes = 0

    @property
    def held_bytes(self) -> int:
        return sum([line.held_bytes for line in self._noted])

    def note(self, line: Holding) -> None:
        """It has more than before."""
        self.leave(line)
        self._noted[line] = line.held_bytes
        self._noted_bytes += self._noted[line]
        if self._noted_bytes > self.max_bytes:
            self._note_all_again()
            if self._noted_bytes > self.max_bytes:
                self._make_room(line)

    def leave(self, line: Holding) -> None:
        """Nothing is read here any more."""
        self._noted_bytes -= self._noted.pop(line, 0)

    def _note_all_again(self) -> None:
        found = {line: line.held_bytes for line in self._noted}
        self._noted = {line: held for line, held in found.items() if held}
        self._noted_bytes = sum(self._noted.values())

    def _make_room(self, reading: Holding) -> None:
        """Some for others too, or every one of them would have to look at all lines."""
        enough_bytes = self.max_bytes - self.max_bytes // 8
        for line in list(self._noted):
            if self._noted_bytes <= enough_bytes:
                return
            if line is not reading:
                line.let_go()
                self._noted_bytes += line.held_bytes - self._noted[line]
                self._noted[line] = line.held_bytes
