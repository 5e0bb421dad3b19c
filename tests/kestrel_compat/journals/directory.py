"""A directory of journals in memory, listed and opened as the real one would be."""

from __future__ import annotations

from collections.abc import Mapping

from barbicel.disk import File
from barbicel.kestrel_compat.journals.files import FoundFile, Selection, select_files
from barbicel.kestrel_compat.journals.queue import JournalFile, ReplayedQueue
from barbicel.kestrel_compat.journals.replay import replay
from tests.golden.kestrel.journals import MODIFIED_MS
from tests.support.fault_disk import FaultDisk

__all__ = ["JournalDirectory"]


class JournalDirectory:
    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.disk = FaultDisk()
        self.contents = dict(contents)
        for name, content in contents.items():
            self.disk.put(f"/journals/{name}", content)

    def open(self, name: str) -> File:
        return self.disk.open(f"/journals/{name}", "read")

    def select(self) -> Selection:
        return select_files(FoundFile(name, len(raw), MODIFIED_MS) for name, raw in self.contents.items())

    def replay(self) -> ReplayedQueue:
        """All files, in the order of `contents`."""
        return replay(
            [JournalFile(name, len(raw), MODIFIED_MS) for name, raw in self.contents.items()], self.open
        )
