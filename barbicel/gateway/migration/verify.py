"""Whether an import is complete: every line of the journals against what the target has stored for it.

The journals are replayed anew and compared item by item, in order: data, time of adding, expiry. Nothing that
the import noted is believed but which records are its own. Complete is a line whose items are all there, in
order, and of which none was read yet: only then nobody can have got what another one should have.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any

from barbicel.errors import BarbicelError
from barbicel.gateway.migration.marks import StoredItem, imported_items
from barbicel.gateway.migration.records import storable_expiry, storable_time
from barbicel.gateway.migration.source import Family, JournalLine, JournalSource
from barbicel.gateway.migration.target import (
    Completed,
    Reading,
    Target,
    TargetGone,
    TargetQueue,
    check_here,
    check_topic,
)
from barbicel.gateway.migration.watch import Watch
from barbicel.kestrel_compat.journals.queue import Doubt, JournalItem, LargeItem, ReplayedQueue

__all__ = ["FamilyVerdict", "LineVerdict", "Verdict", "verify_family"]

_HEAD = struct.Struct(
    ">"
    "q"  # time of adding
    "q"  # expiry, 0 is never
    "Q"  # bytes of data
)


class Verdict(StrEnum):
    COMPLETE = "complete"
    # All of it was imported, and some of it has been read or has expired since.
    READ = "read since"
    INCOMPLETE = "not complete"


@dataclass(slots=True)
class LineVerdict:
    queue: str
    verdict: Verdict = Verdict.INCOMPLETE
    journal_items: int = 0
    target_items: int = 0
    journal_digest: str = ""
    target_digest: str = ""
    read_items: int = 0
    # The first one; None if there is none.
    difference: str | None = None


@dataclass(slots=True)
class FamilyVerdict:
    master: str
    import_id: str
    verdict: Verdict = Verdict.INCOMPLETE
    lines: list[LineVerdict] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    problem: str | None = None


def verify_family(
    source: JournalSource, family: Family, target: Target, completed: Sequence[Completed], watch: Watch
) -> FamilyVerdict:
    """What goes wrong is in the answer."""
    result = FamilyVerdict(family.master, family.import_id)
    try:
        _verify(source, family, target, completed, watch, result)
    except BarbicelError as error:
        result.problem = str(error)
        target.is_gone |= isinstance(error, TargetGone)
    if result.problem is None and result.lines:
        result.verdict = max((line.verdict for line in result.lines), key=list(Verdict).index)
    return result


def _verify(
    source: JournalSource,
    family: Family,
    target: Target,
    completed: Sequence[Completed],
    watch: Watch,
    result: FamilyVerdict,
) -> None:
    check_topic(family.topic)
    check_here(target)
    watch.replaying(family.master, family.size_bytes)
    lines = [source.replay(line, watch.replayed) for line in family.lines]
    for replayed in lines:
        result.doubts += replayed.doubts
    queue = target.find(family.topic)
    if queue is None:
        result.problem = "the target has no such queue"
        return
    with queue:
        topic_id = target.topic_id(family.topic)
        entries = [entry for entry in completed if (entry.topic, entry.topic_id) == (family.topic, topic_id)]
        first_offset = _first_offset(queue, family, entries, result)
        if first_offset is None:
            return
        watch.importing(family.master, sum(len(line.items) for line in lines))
        result.lines = _compare(queue, family, lines, first_offset, result, watch)


def _first_offset(
    queue: TargetQueue, family: Family, entries: Sequence[Completed], result: FamilyVerdict
) -> int | None:
    """Where the import's records begin; None and a problem if there is no complete import."""
    own = [entry for entry in entries if entry.import_id == family.import_id]
    begun = queue.begun()
    if not own:
        if begun is not None and begun.import_id == family.import_id:
            result.problem = "the import is not complete: run it again"
        elif entries or begun is not None:
            result.problem = "what was imported are other journals than these, or these before they changed"
        else:
            result.problem = "nothing was imported into this queue"
        return None
    if queue.start_offset > own[-1].first_offset:
        result.problem = (
            "imported records are not in the log any more: they were read by everybody and given up, deleted,"
            " or moved to an object store, which only a running gateway reads: nothing to compare with"
        )
        return None
    return own[-1].first_offset


# --- lines ----------------------------------------------------------------------------------------------


class _Comparison:
    """One line: the journal's items on one side, the target's on the other."""

    def __init__(self, line: JournalLine, replayed: ReplayedQueue, reading: Reading | None) -> None:
        self.group = line.name.group
        self.result = LineVerdict(line.name.text)
        self._reading = reading
        # Items of the line, whoever has put them there, that are not known to be read.
        self._unread = 0
        self._expected: Iterator[JournalItem] = iter(replayed.items)
        self._journal_hash, self._target_hash = sha256(), sha256()

    @property
    def counts_from(self) -> int | None:
        """Where the items begin that must be counted; None if that is not needed."""
        reading = self._reading
        return None if reading is None or reading.count_taken is None else reading.acked_until

    def count(self, stored: StoredItem) -> None:
        if self._reading is not None and stored.is_for(self.group):
            self._unread += not self._reading.is_acked(stored.offset)

    def compare(self, stored: StoredItem) -> None:
        result = self.result
        _digest(self._target_hash, stored.data, stored.added_ms, stored.expiry_ms)
        result.target_items += 1
        if self._reading is not None and self._reading.is_acked(stored.offset):
            result.read_items += 1
        item = self._next()
        if result.difference is None:
            result.difference = _difference(item, stored, result.target_items)

    def _next(self) -> JournalItem | None:
        item = next(self._expected, None)
        while isinstance(item, LargeItem):
            self.result.journal_items += 1
            what = f"item {self.result.journal_items} ({_place(item)}) is too large and was not imported"
            self.result.difference = self.result.difference or what
            item = next(self._expected, None)
        if item is not None:
            self.result.journal_items += 1
            added_ms = storable_time(item.added_ms)
            _digest(self._journal_hash, item.data, added_ms, storable_expiry(item.expiry_ms))
        return item

    def finish(self, end_offset: int) -> LineVerdict:
        result = self.result
        while (item := self._next()) is not None:
            if result.difference is None:
                result.difference = f"item {result.journal_items} ({_place(item)}) is not in the target"
        result.journal_digest, result.target_digest = (
            digest.hexdigest() for digest in (self._journal_hash, self._target_hash)
        )
        if self._reading is None:
            result.difference = result.difference or "the target has no such line"
        elif self._reading.count_taken is not None:
            taken = self._reading.count_taken(self._unread, end_offset)
            result.read_items = min(result.read_items + taken, result.target_items)
        if result.difference is None and result.journal_digest == result.target_digest:
            result.verdict = Verdict.READ if result.read_items else Verdict.COMPLETE
        return result


def _compare(
    queue: TargetQueue,
    family: Family,
    lines: Sequence[ReplayedQueue],
    first_offset: int,
    result: FamilyVerdict,
    watch: Watch,
) -> list[LineVerdict]:
    def repeated(offset: int) -> None:
        result.problem = result.problem or f"what ends at offset {offset} was stored before, too"

    comparisons = [
        _Comparison(line, replayed, queue.reading(line.name.group))
        for line, replayed in zip(family.lines, lines, strict=True)
    ]
    end_offset = queue.end_offset
    found = _counted(queue, comparisons, first_offset, end_offset)
    for stored in imported_items(found, family.import_id, repeated):
        for comparison in comparisons:
            if stored.is_for(comparison.group):
                comparison.compare(stored)
                watch.imported(1)
    return [comparison.finish(end_offset) for comparison in comparisons]


def _counted(
    queue: TargetQueue, comparisons: Sequence[_Comparison], first_offset: int, end_offset: int
) -> Iterable[StoredItem]:
    """What the import may have stored; on the way, all that lines have is counted where it must be."""
    starts = [one.counts_from for one in comparisons if one.counts_from is not None]
    if not starts:
        return queue.scan(first_offset)
    return _counting(queue.scan(min(first_offset, *starts)), comparisons, first_offset, end_offset)


def _counting(
    stored: Iterable[StoredItem], comparisons: Sequence[_Comparison], first_offset: int, end_offset: int
) -> Iterator[StoredItem]:
    for item in stored:
        for comparison in comparisons if item.offset < end_offset else ():
            comparison.count(item)
        if item.offset >= first_offset:
            yield item


def _digest(digest: Any, data: bytes, added_ms: int, expiry_ms: int | None) -> None:
    digest.update(_HEAD.pack(added_ms, expiry_ms or 0, len(data)))
    digest.update(data)


def _difference(item: JournalItem | None, stored: StoredItem, number: int) -> str | None:
    where = f"item {number} (offset {stored.offset})"
    if item is None:
        return f"{where} is not in the journals"
    for what, expected, found in (
        ("data", item.data, stored.data),
        ("time of adding", storable_time(item.added_ms), stored.added_ms),
        ("expiry", storable_expiry(item.expiry_ms), stored.expiry_ms),
    ):
        if expected != found:
            return f"{where} has another {what} than the journal ({_place(item)})"
    return None


def _place(item: JournalItem) -> str:
    return f"{item.file} at byte {item.position}"
