"""What the server lets its clients do at present: Kestrel's status, which survives a restart.

The level is in a file beside the data. It counts as changed when the file is durable, so that whoever was
told of the change finds it after a crash too. A file that cannot be read is no reason not to serve.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred

from barbicel.disk import Disk, read_file, replace_file
from barbicel.errors import BarbicelError

__all__ = ["DOWN", "LEVELS", "UP", "BadStatus", "Level", "ServerStatus"]

_log = logging.getLogger(__name__)

FILE = "kestrel.status"
MAX_FILE_BYTES = 1024


class Level(NamedTuple):
    """Closing, aborting and confirming what is open is always allowed."""

    name: str
    blocks_reads: bool
    blocks_writes: bool


UP = Level("UP", False, False)
# While the server stops; nobody can set it.
DOWN = Level("DOWN", True, True)
# Those that can be set.
LEVELS = MappingProxyType(
    {
        level.name: level
        for level in (
            UP,
            # For whoever distributes the load; the server itself takes what comes.
            Level("WRITEAVOID", False, False),
            Level("READONLY", False, True),
            Level("QUIESCENT", True, True),
        )
    }
)


class BadStatus(BarbicelError):
    """A level that is none, or that clients may not set."""


class ServerStatus:
    """`run` calls a function that waits for the disk somewhere else, one after the other in order."""

    def __init__(
        self, disk: Disk, directory: str, run: Callable[[Callable[[], None]], Deferred[Any]]
    ) -> None:
        self._disk = disk
        self._run = run
        self._path = f"{directory}/{FILE}"
        self._temporary = f"{directory}/tmp/{FILE}.new"
        self.level = self._read()

    def _read(self) -> Level:
        if not self._disk.exists(self._path):
            return UP
        try:
            name = read_file(self._disk, self._path, MAX_FILE_BYTES).decode("ascii", "replace").strip()
            return LEVELS[name.upper()]
        except BarbicelError as error:
            _log.warning("%s; the status is %s", error, UP.name)
        except KeyError:
            _log.warning("%s: %r is no status; it is %s", self._path, name, UP.name)
        return UP

    def change(self, name: str, done: Callable[[Exception | None], None]) -> None:
        """`done` is called when the level counts, or with why it does not. Raises BadStatus."""
        if name.upper() == DOWN.name:
            raise BadStatus("Status forbidden.")
        level = LEVELS.get(name.upper())
        if level is None:
            raise BadStatus("Unknown status.")
        stored = self._run(partial(self._store, level))
        stored.addCallbacks(lambda _: self._apply(level, done), lambda failure: done(failure.value))

    def _store(self, level: Level) -> None:
        replace_file(self._disk, self._temporary, self._path, [f"{level.name}\n".encode("ascii")])

    def _apply(self, level: Level, done: Callable[[Exception | None], None]) -> None:
        if self.level is not DOWN:
            _log.info("the status was %s and is %s now", self.level.name, level.name)
            self.level = level
        done(None)

    def go_down(self) -> None:
        """The server stops. At its next start the level is what it was."""
        self.level = DOWN
