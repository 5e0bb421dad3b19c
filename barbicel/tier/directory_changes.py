"""Who may change a directory of objects, and where new content waits until it is whole.

Owns `.barbicel/LOCK` and `.barbicel/writers`. Its invariant: what lies in a writer's directory is no object's
yet, and is removed only by its writer, or by another one once that is dead: its lock tells.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from uuid import uuid4

from barbicel.clock import steady_clock_ms
from barbicel.disk import Bytes, Disk, Lock, remove_tree
from barbicel.errors import DiskError, LogLocked, StoreError

__all__ = ["METADATA_ENDING", "Changes"]

METADATA_ENDING = ".metadata"
LOCK_WAIT_MS = 30_000
LOCK_PAUSE_SECONDS = 0.005


class Changes:
    """Of one open store. Nothing is made on the disk before the first change."""

    def __init__(self, own: str, *, disk: Disk, sleep: Callable[[float], None]) -> None:
        """`own` is the directory in the store that holds no objects."""
        self._own = own
        self._disk = disk
        self._sleep = sleep
        self._mutex = threading.Lock()
        self._writer: tuple[str, Lock] | None = None
        self._numbers = count()
        # Temporaries that are done with, and perhaps there.
        self._left: list[str] = []

    @contextmanager
    def temporary(
        self, appends: Iterable[Sequence[Bytes]], head: Callable[[], Bytes] = bytes
    ) -> Iterator[str]:
        """A file with all pieces, durable, and gone in the end unless it was renamed.

        `head` is asked after the last piece: it goes over the first bytes.
        """
        path = f"{self._begun()}/{next(self._numbers)}"
        self._remove_left()
        file = self._disk.open(path, "create")
        try:
            try:
                for pieces in appends:
                    file.append(pieces)
                if first := head():
                    file.pwrite(first, 0)
                file.fdatasync()
            finally:
                file.close()
            yield path
        finally:
            self._left += [path, f"{path}{METADATA_ENDING}"]
            self._remove_left()

    def _remove_left(self) -> None:
        """What cannot be removed now does not hide what went wrong before; it is tried again."""
        with self._mutex:
            left, self._left = self._left, []
        for path in left:
            try:
                if self._disk.exists(path):
                    self._disk.unlink(path)
            except DiskError:
                with self._mutex:
                    self._left.append(path)

    def _begun(self) -> str:
        """This writer's directory, made at its first write, when those of dead writers go."""
        with self._mutex:
            if self._writer is not None and not self._disk.exists(self._writer[0]):
                self._writer[1].release()
                self._writer = None
            if self._writer is None:
                with self._locked():
                    self._remove_dead_writers()
                    directory = f"{self._own}/writers/{uuid4().hex}"
                    self._disk.make_directory(directory)
                    self._writer = directory, self._disk.lock(f"{directory}/LOCK")
            return self._writer[0]

    def _remove_dead_writers(self) -> None:
        if not self._disk.exists(f"{self._own}/writers"):
            return
        for name, _, is_directory in self._disk.list(f"{self._own}/writers"):
            directory = f"{self._own}/writers/{name}"
            with suppress(DiskError):  # what cannot be removed does not keep anybody from writing
                if is_directory and self._disk.lock_holder(f"{directory}/LOCK") is None:
                    remove_tree(self._disk, directory)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Alone among all threads and processes that write this store."""
        with self._mutex, self._locked():
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Among processes; within this one the mutex is held."""
        self._disk.make_directory(self._own)
        lock = self._take_lock()
        try:
            yield
        finally:
            lock.release()

    def _take_lock(self) -> Lock:
        deadline_ms = steady_clock_ms() + LOCK_WAIT_MS
        while True:
            try:
                return self._disk.lock(f"{self._own}/LOCK")
            except LogLocked as error:
                if steady_clock_ms() > deadline_ms:
                    raise StoreError(f"it is {error}", path=self._own, is_passing=True) from error
                self._sleep(LOCK_PAUSE_SECONDS)

    def close(self) -> None:
        with self._mutex:
            if self._writer is None:
                return
            directory, lock = self._writer
            self._writer = None
            # What cannot be removed now, the next writer removes.
            with suppress(DiskError, StoreError), self._locked():
                remove_tree(self._disk, directory)
            lock.release()
