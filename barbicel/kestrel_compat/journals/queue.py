"""The values of this directory: files of a queue, its items, its open reads, and what is in doubt.

A `ReplayedQueue` is what Kestrel would have in memory after a restart, except that nothing has expired yet.
It holds where items are, not their data: these are read from the files when an item is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from barbicel.disk import File

__all__ = [
    "Doubt",
    "DoubtKind",
    "JournalFile",
    "JournalItem",
    "LargeItem",
    "OpenFile",
    "OpenRead",
    "ReplayedQueue",
]

# Opens a journal for reading, by the name that the directory has for it. Whoever opens it closes it.
OpenFile: TypeAlias = Callable[[str], File]


class JournalFile(NamedTuple):
    """A file as it was listed. What is appended later is not looked at."""

    name: str
    size: int
    # Stands for the time of adding where a journal has none (opcode ADD).
    modified_ms: int
    # When Kestrel put it aside, by its name; None is the file that Kestrel was writing.
    rotated_ms: int | None = None


class JournalItem(NamedTuple):
    """An item and where its entry begins."""

    data: bytes
    added_ms: int
    # None is never. One that is past is given as it is: nothing expires in a replay.
    expiry_ms: int | None
    file: str
    position: int


class LargeItem(JournalItem):
    """One that nobody can store. Its data are not read, and `data` is empty."""

    size_bytes = 0


class OpenRead(NamedTuple):
    """An item that was handed out and neither confirmed nor returned when the journal ends."""

    xid: int
    file: str
    position: int


class DoubtKind(StrEnum):
    # Nothing is missing:
    TEMPORARY = "temporary"  # a '~~' file: Kestrel removes it unread
    SUPERSEDED = "superseded"  # a pack has what this file had
    # Not read:
    STRAY = "stray"  # a name that is no journal's
    NO_QUEUE = "no-queue"  # a queue's journal, but no queue can be called so here
    DAMAGED = "damaged"  # an entry that cannot be; the rest of the file was not read
    TRUNCATED = "truncated"  # the file ends inside an entry
    ZEROS = "zeros"  # zeros to the end, or at least where an entry should be: the rest was not read
    CHANGED = "changed"  # the file is shorter or longer than it was when it was listed
    # Read, and odd:
    ODD_NAME = "odd-name"  # not a name that Kestrel gives, but one that it reads
    DUPLICATES = "duplicates"  # items that the file before this one probably has as well
    SURPLUS = "surplus"  # something was taken from an empty queue
    REOPENED = "reopened"  # an open read was overwritten by another; Kestrel lost the item, it is kept
    EMPTY = "empty"  # an item without data, which may only be a pack's stand-in for a remove
    UNKNOWN_OPEN = "unknown-open"  # a state dump tells of an open read that the journal never opened
    # Of the target:
    LINE_DELETED = "line-deleted"  # by somebody, while its import was under way
    MORE = "more"  # too many of one kind in one file to list


# What an operator need not look into.
HARMLESS = frozenset({DoubtKind.TEMPORARY, DoubtKind.SUPERSEDED})
# Items that Kestrel has, and that no import brings over.
MISSING = frozenset({DoubtKind.NO_QUEUE})


class Doubt(NamedTuple):
    """Something skipped or odd. `position` is 0 where it is about the file as a whole."""

    file: str
    position: int
    kind: DoubtKind
    what: str

    @property
    def is_harmless(self) -> bool:
        return self.kind in HARMLESS

    @property
    def is_missing(self) -> bool:
        """Whether the items of the file cannot be had: no import is complete that leaves them out."""
        return self.kind in MISSING


class ReplayedQueue:
    """A queue as its journals leave it. Not to be changed.

    `items` begins with the items of the open reads, `items[i]` being that of `open[i]`, the lowest xid first:
    this is the order in which Kestrel puts them back. All others follow in the order in which they would be
    read.

    `items` is lazy: `len` costs nothing, `items[n:]` is again lazy, iterating reads the files in large
    pieces, and `items[n]` reads one item. Reading raises CorruptFile if a file is not any more what was
    replayed.
    """

    __slots__ = ("doubts", "files", "items", "open", "operations")

    def __init__(
        self,
        files: tuple[JournalFile, ...],
        items: Sequence[JournalItem],
        open_reads: tuple[OpenRead, ...],
        doubts: tuple[Doubt, ...],
        operations: int,
    ) -> None:
        self.files = files
        self.items = items
        self.open = open_reads
        self.doubts = doubts
        self.operations = operations
