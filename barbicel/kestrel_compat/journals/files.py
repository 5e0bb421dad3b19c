"""Which files of a directory are which queue's, and in which order: a decision over a listing, nothing else.

    cars             what Kestrel was writing; may be missing
    cars.904         put aside at that time (milliseconds), read before `cars`, the lowest number first
    cars.950.pack    all of `cars` up to that time: cars.950 and cars.904 do not count any more
    cars.904.bak     is cars.904 to Kestrel, which looks no further than the number
    cars~~1234       temporary

A fanout child is a queue like any other: `cars+audit`. What has no such name made Kestrel fail at its start;
here it is left out and reported. So is a queue whose name is possible there and not here, and its items are
missing then: that is told apart from what is no journal. A copy beside its original made Kestrel give all
that is in it twice; here it is left out and reported, too.
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
_NAME = re.compile(r"(?P<queue>[^.]+)(?:\.(?P<time>[0-9]{1,19})(?P<tail>\..*)?)?", re.ASCII | re.DOTALL)
# Names that Kestrel itself refuses to whoever puts an item. Any other name may be of a queue with items.
_NOBODYS = re.compile(r"~|^\++$")
_PACK = ".pack"
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
    """`queues` in the order of their names. `doubts` has every file that is in none, but no directory, and
    those that are in one by an odd name."""

    queues: dict[str, QueueFiles]
    doubts: list[Doubt]


class _Journal(NamedTuple):
    queue: str
    file: JournalFile
    # Behind the time.
    tail: str | None

    @property
    def is_pack(self) -> bool:
        return self.tail == _PACK

    @property
    def is_named_oddly(self) -> bool:
        return self.tail not in (None, _PACK)


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
        files, doubtful = _order(journals[queue])
        doubts += doubtful
        if files:
            queues[queue] = QueueFiles(queue, files)
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
        kind = DoubtKind.STRAY if _NOBODYS.search(match["queue"]) else DoubtKind.NO_QUEUE
        return Doubt(found.name, 0, kind, error.message)
    rotated_ms = None if match["time"] is None else int(match["time"])
    file = JournalFile(found.name, found.size, found.modified_ms, rotated_ms)
    return _Journal(match["queue"], file, match["tail"])


def _order(journals: Sequence[_Journal]) -> tuple[tuple[JournalFile, ...], list[Doubt]]:
    """The files of a queue in the order of replay, and what is to be said of all that has such a name."""
    pack = max((one for one in journals if one.is_pack), key=_time_ms, default=None)
    kept: list[JournalFile] = []
    doubts = []
    for one in sorted(journals, key=lambda one: (_time_ms(one), one.is_named_oddly, one.file.name)):
        if pack is not None and one is not pack and _time_ms(one) <= _time_ms(pack):
            what = f"{pack.file.name} has what was in it"
            doubts.append(Doubt(one.file.name, 0, DoubtKind.SUPERSEDED, what))
        elif one.is_named_oddly and kept and kept[-1].rotated_ms == one.file.rotated_ms:
            what = f"taken for a copy of {kept[-1].name}; Kestrel reads both"
            doubts.append(Doubt(one.file.name, 0, DoubtKind.STRAY, what))
        else:
            kept.append(one.file)
            if one.is_named_oddly:
                what = f"read as {one.queue}.{one.file.rotated_ms}, as Kestrel does"
                doubts.append(Doubt(one.file.name, 0, DoubtKind.ODD_NAME, what))
    return tuple(kept), doubts


def _time_ms(journal: _Journal) -> int:
    """When it ends. The file that is written ends after all others."""
    return _MAX_TIME_MS + 1 if journal.file.rotated_ms is None else journal.file.rotated_ms
