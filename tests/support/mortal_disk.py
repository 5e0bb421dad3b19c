"""A real disk of a process that can end: what it has open is let go, without a last word."""

from __future__ import annotations

from typing import ClassVar

from barbicel.disk import OpenMode, RealDisk, RealFile, RealLock

__all__ = ["MortalDisk"]


class MortalDisk(RealDisk):
    """Crashes that tests simulate leave files and locks behind, and the test's process goes on: in the end it
    would have thousands open. `tests/conftest.py` ends all of these disks after each test."""

    living: ClassVar[list[MortalDisk]] = []

    def __init__(self) -> None:
        self._files: list[RealFile] = []
        self._locks: list[RealLock] = []
        self.living.append(self)

    def open(self, path: str, mode: OpenMode) -> RealFile:
        file = super().open(path, mode)
        self._files.append(file)
        return file

    def lock(self, path: str) -> RealLock:
        lock = super().lock(path)
        self._locks.append(lock)
        return lock

    @classmethod
    def end_all(cls) -> None:
        while cls.living:
            cls.living.pop().end()

    def end(self) -> None:
        while self._files:
            self._files.pop().close()
        while self._locks:
            self._locks.pop().release()
