"""Which files of a directory make up which queue, and in which order: a decision over a listing, nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barbicel.kestrel_compat.journals.queue import Doubt, JournalFile

__all__ = ["FoundFile", "QueueFiles", "Selection", "import_id", "select_files"]


class FoundFile(NamedTuple):
    """One name of a listing."""

    name: str
    size: int
    modified_ms: int
    is_directory: bool = False


class QueueFiles(NamedTuple):
    """A queue and its files in the order of replay. The name is as Kestrel has it, '+' included."""

    queue: str
    files: tuple[JournalFile, ...]


class Selection(NamedTuple):
    """`queues` by name. `doubts` has every file that belongs to none of them and is no directory."""

    queues: dict[str, QueueFiles]
    doubts: list[Doubt]


def select_files(found: Iterable[FoundFile]) -> Selection:
    raise AssertionError


def import_id(files: Sequence[JournalFile]) -> str:
    """16 hex digits that are the same only for files of the same names, sizes and times of change."""
    raise AssertionError
