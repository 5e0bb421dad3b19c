"""Which failures pass: they leave nothing torn and nothing in doubt, so that the next call may try again.

A file that could not be opened was not written to. A full disk refuses a write at once, and what it took of
it can be cut off. A failed sync never passes: afterwards the page cache may show what the disk does not have.
Some file systems tell of a full disk only then, or when a file is closed.
"""

from __future__ import annotations

import errno

from barbicel.errors import DiskError

__all__ = ["is_full", "is_passing"]

_NO_DESCRIPTORS = frozenset((errno.EMFILE, errno.ENFILE))
_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT))
_SYNCS = frozenset(("fdatasync", "fsync", "close"))


def is_passing(error: BaseException) -> bool:
    """Whether what failed may be tried again, on files that no sync has failed on."""
    # Nothing but opening a file lacks a descriptor, the directory that is to be synced included.
    return is_full(error) or (isinstance(error, DiskError) and error.errno in _NO_DESCRIPTORS)


def is_full(error: BaseException) -> bool:
    """Whether there was no room for what was to be written."""
    return isinstance(error, DiskError) and error.errno in _NO_ROOM and error.operation not in _SYNCS
