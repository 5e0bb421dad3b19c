"""A block of the disk that is kept for when there is no other.

On a full disk nothing new can be written, not even that a topic is to be deleted, which would make room. So a
file of one block lies ready: the new version of another small file is written over it, in place, and renamed
to where it belongs. What that replaced makes room for the next spare block.
"""

from __future__ import annotations

from contextlib import suppress

from barbicel.disk import Disk, parent
from barbicel.errors import DiskError

__all__ = ["SPARE_BYTES", "Spare"]

SPARE_BYTES = 4096


class Spare:
    """Waits for the disk. One thread at a time."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path

    def keep(self) -> None:
        """See that there is one, if there is room. A part of one is no use, and goes."""
        with suppress(DiskError):
            if self._disk.size(self._path) == SPARE_BYTES:
                return
            if self._disk.exists(self._path):
                self._disk.unlink(self._path)
            try:
                self._fill()
            except DiskError:
                self._disk.unlink(self._path)

    def give_up(self) -> None:
        """Let others have the block. Whoever needs it calls `keep` afterwards."""
        with suppress(DiskError):
            if self._disk.exists(self._path):
                self._disk.unlink(self._path)

    def _fill(self) -> None:
        file = self._disk.open(self._path, "create")
        try:
            # Not preallocated: such a block may still need another when it is written.
            file.append([bytes(SPARE_BYTES)])
            file.fdatasync()
        finally:
            file.close()

    def replace(self, path: str, data: bytes) -> None:
        """Put this content in the place of a file, atomically and durably, as disk.replace_file does.

        Raises DiskError, with ENOENT if there is no spare block.
        """
        file = self._disk.open(self._path, "write")
        try:
            file.pwrite(data, 0)
            file.truncate(len(data))
            file.fdatasync()
        finally:
            file.close()
        self._disk.rename(self._path, path)
        for directory in (parent(path), parent(self._path)):
            self._disk.sync_directory(directory)
        self.keep()
