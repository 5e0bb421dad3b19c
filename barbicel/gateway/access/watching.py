"""Files that may be replaced while the server runs: certificates, keys. Looked at now and then, in a thread.

They are compared by what is in them: two writes within a tick of the file system's clock have one time, and
two certificates often one size. What cannot be used is told once and changes nothing; a later version of the
files is tried again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from barbicel.disk import Disk, read_file
from barbicel.errors import BarbicelError, DiskError

__all__ = ["Watched"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

# More than any file that is watched may have; of a larger one, which `load` refuses, its start is compared.
_COMPARED_BYTES = 2 << 20


class Watched(Generic[T]):
    """What `load` makes of the files at `paths`, as of the last look."""

    def __init__(self, disk: Disk, name: str, paths: Sequence[str], load: Callable[[], T]) -> None:
        """Raises what `load` does: a server does not start on files that cannot be used."""
        self._disk = disk
        self._name = name
        self._paths = paths
        self._load = load
        # Before the files are read: what changes in between is found at the next look.
        self._seen = self._look()
        self.value = load()
        self._told = ""

    def look_again(self) -> bool:
        """Whether there is a new value. Waits for the disk; never raises."""
        before = self._seen
        try:
            seen = self._look()
            if seen == before:
                return False
            self._seen = seen
            self.value = self._load()
        except DiskError as error:
            self._seen = before  # the files may be good: they are tried again as they are
            return self._tell(str(error))
        except BarbicelError as error:
            return self._tell(str(error))
        except Exception as error:
            # Of a library that has errors of its own for some files. Looking has to go on all the same.
            return self._tell(repr(error))
        self._told = ""
        _log.info("the %s was replaced and is used from now on", self._name)
        return True

    def _tell(self, reason: str) -> bool:
        if reason != self._told:
            _log.error("the new %s cannot be used, the old one stays: %s", self._name, reason)
        self._told = reason
        return False

    def _look(self) -> list[bytes]:
        return [hashlib.sha256(read_file(self._disk, path, _COMPARED_BYTES)).digest() for path in self._paths]
