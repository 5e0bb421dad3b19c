"""Entries to a queue: the replay of a queue's journals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barbicel.kestrel_compat.journals.queue import JournalFile, OpenFile, ReplayedQueue

__all__ = ["replay"]


def replay(
    files: Sequence[JournalFile],
    open_file: OpenFile,
    progress: Callable[[int], None] | None = None,
) -> ReplayedQueue:
    """The queue that these files give, read in this order as one journal.

    A bad entry ends its file, is reported, and the next file goes on. `progress` is told the bytes that were
    passed since it was last called, a megabyte or so at a time; their sum is the size of all files. Memory is
    8 bytes an item, whatever the sizes of items. Raises DiskError if a file cannot be read.
    """
    raise AssertionError
