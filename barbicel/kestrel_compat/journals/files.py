"""Which files of a directory are which queue's, and in which order: a decision over a listing, nothing else.

    cars             what Kestrel was writing; may be missing
    cars.904         put aside at that time (milliseconds), read before `cars`, the lowest number first
    cars.950.pack    all of `cars` up to that time: cars.950 and cars.904 do not count any more
    cars~~1234       temporary

A fanout child is a queue like any other: `cars+audit`. What has no such name made Kestrel fail at its start;
here it is left out and reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

from barbicel.kestrel_compat.journals.queue import Doubt, DoubtKind, JournalFile
from barbicel.kestrel_compat.names import BadQueueName, parse_queue_name

__all__ = ["FoundFile", "QueueFiles", "Selection", "import_id", "select_files"]

_TEMPORARY = "~~"
_NAME = re.compile(r"(?P<queue>[^.]+)(?:\.(?P<time>[0-9]{1,19})(?P<pack>\.pack)?)?", re.ASCII | re.DOTALL)
_MAX_TIME_MS = 2**63 - 1
_ID_DIGITS = 16


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
    """`queues` in the order of their names. `doubts` has every file that is in none, but no directory."""

    queues: dict[str, QueueFiles]
    doubts: list[Doubt]


class _Journal(NamedTuple):
    queue: str
    file: JournalFile
    is_pack: bool


def select_files(found: Iterable[FoundFile]) -> Selection:
    doubts: list[Doubt] = []
    journals: dict[str, list[_Journal]] = {}
    for one in sorted(found):
        if one.is_directory:
            continue
        journal = _recognize(one)
        if isinstance(journal, Doubt):
            doubts.append(journal)
        else:
            journals.setdefault(journal.queue, []).append(journal)
    queues = {}
    for queue in sorted(journals):
        files, superseded = _order(journals[queue])
        queues[queue] = QueueFiles(queue, files)
        doubts += superseded
    return Selection(queues, doubts)


def import_id(files: Sequence[JournalFile]) -> str:
    """16 hex digits that are the same only for files of the same names, sizes and times of change."""
    # No name has a '/', so that no two lists give the same text.
    text = "".join(f"{file.name}/{file.size}/{file.modified_ms}/" for file in files)
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_ID_DIGITS]


def _recognize(found: FoundFile) -> _Journal | Doubt:
    if _TEMPORARY in found.name:
        return Doubt(found.name, 0, DoubtKind.TEMPORARY, "a temporary file, which Kestrel removes unread")
    match = _NAME.fullmatch(found.name)
    if match is None or int(match["time"] or 0) > _MAX_TIME_MS:
        return Doubt(found.name, 0, DoubtKind.STRAY, "not the name of a journal")
    try:
        parse_queue_name(match["queue"])
    except BadQueueName as error:
        return Doubt(found.name, 0, DoubtKind.STRAY, error.message)
    rotated_ms = None if match["time"] is None else int(match["time"])
    file = JournalFile(found.name, found.size, found.modified_ms, rotated_ms)
    return _Journal(match["queue"], file, match["pack"] is not None)


def _order(journals: Sequence[_Journal]) -> tuple[tuple[JournalFile, ...], list[Doubt]]:
    """The files of a queue in the order of replay, and those that the newest pack has made void."""
    pack = max((one for one in journals if one.is_pack), key=_time_ms, default=None)
    kept, superseded = [], []
    for one in sorted(journals, key=lambda one: (_time_ms(one), one.file.name)):
        if pack is None or one is pack or _time_ms(one) > _time_ms(pack):
            kept.append(one.file)
        else:
            what = f"{pack.file.name} has what was in it"
            superseded.append(Doubt(one.file.name, 0, DoubtKind.SUPERSEDED, what))
    return tuple(kept), superseded


def _time_ms(journal: _Journal) -> int:
    """When it ends. The file that is written ends after all others."""
    return _MAX_TIME_MS + 1 if journal.file.rotated_ms is None else journal.file.rotated_ms
