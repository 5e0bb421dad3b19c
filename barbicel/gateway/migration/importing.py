"""Importing: family by family, each exactly once, whatever stopped an earlier try.

Everything that decides lies in the target (see target.py), nothing in memory: a run looks at what is there
and goes on behind it. A family that cannot be imported is told of, and the others are imported all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from barbicel.clock import Clock, wall_clock_ms
from barbicel.errors import BarbicelError
from barbicel.gateway.migration.marks import cut_batches, imported_items, last_count
from barbicel.gateway.migration.records import Audiences, Skipped, new_records, storable_records
from barbicel.gateway.migration.source import Family, JournalSource
from barbicel.gateway.migration.target import (
    Begun,
    Completed,
    Target,
    TargetGone,
    TargetQueue,
    TargetRefused,
    check_here,
    check_topic,
)
from barbicel.gateway.migration.watch import Watch
from barbicel.kestrel_compat.journals.queue import Doubt, DoubtKind, ReplayedQueue

__all__ = [
    "FamilyOutcome",
    "ImportRules",
    "LineCount",
    "Outcome",
    "import_family",
    "plan_family",
]


class Outcome(StrEnum):
    PLANNED = "planned"  # a dry run
    IMPORTED = "imported"
    ALREADY = "already imported"
    REFUSED = "refused"  # something else was imported from these journals before
    FAILED = "failed"


class LineCount(NamedTuple):
    queue: str
    items: int
    open_reads: int
    operations: int
    bytes: int


@dataclass(slots=True)
class FamilyOutcome:
    """What became of a queue and its children."""

    master: str
    import_id: str
    outcome: Outcome
    lines: list[LineCount] = field(default_factory=list)
    # In the log, after lines have shared what they can; how many of them an earlier run had stored.
    records: int = 0
    records_before: int = 0
    doubts: list[Doubt] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    problem: str | None = None

    @property
    def is_in_doubt(self) -> bool:
        return bool(self.skipped) or any(not doubt.is_harmless for doubt in self.doubts)


class ImportRules(NamedTuple):
    # What is open stays so until then; None puts it back to the head.
    keep_open_until_ms: int | None = None
    # Import though other journals of the same queues were imported before.
    again: bool = False


def import_family(
    source: JournalSource,
    family: Family,
    target: Target,
    completed: Sequence[Completed],
    rules: ImportRules,
    watch: Watch,
    clock: Clock = wall_clock_ms,
) -> FamilyOutcome:
    """Bring a family over. What goes wrong with it is in the answer; nothing is raised for that."""
    result = FamilyOutcome(family.master, family.import_id, Outcome.IMPORTED)
    try:
        check_topic(family.topic)
        check_here(target)
        known = {(entry.topic_id, entry.import_id) for entry in completed if entry.topic == family.topic}
        there = _lines_there(target, family)
        is_complete = (target.topic_id(family.topic), family.import_id) in known
        # A log outlives its lines if a Kafka group or another line reads it, too.
        if is_complete and there == _groups(family):
            _clear_guard(target, family)
            result.outcome = Outcome.ALREADY
        elif is_complete and there:
            result.outcome, result.problem = Outcome.REFUSED, _missing(family, there)
        elif known and not rules.again:
            is_deleted = any(import_id == family.import_id for _, import_id in known)
            result.outcome, result.problem = Outcome.REFUSED, _DELETED if is_deleted else _CHANGED
        else:
            _import(source, family, target, rules, watch, clock, result, there)
    except BarbicelError as error:
        result.outcome, result.problem = Outcome.FAILED, str(error)
        target.is_gone |= isinstance(error, TargetGone)
        # Of what was sent nobody knows how much is there; the next run will look.
        result.records = result.records_before
    return result


_CHANGED = (
    "other journals of this queue were imported before: --again would add all that is in these to what is"
    " there; to begin anew, delete the queue and its children from the target first"
)
_DELETED = (
    "these journals were imported before, into a queue that was deleted since: --again imports them once more"
)
_MISSING = (
    "these journals were imported before, and {} not there any more; to begin anew, delete the queue and its"
    " children from the target, and give --again"
)
_UNDER_WAY = (
    "an import of other journals of this queue is not complete: go on with those, or give --again to leave it"
    " as it is and add all that is in these"
)


_MARKS_GONE = (
    "this import is under way since offset {}, and the log begins at {}: what it has stored was deleted, or"
    " is in an object store only, so nobody knows where to go on (if the store has it, import into the"
    " running gateway; else delete the queue and its children from the target and begin anew)"
)


def _groups(family: Family) -> frozenset[str]:
    return frozenset(line.name.group for line in family.lines)


def _missing(family: Family, there: frozenset[str]) -> str:
    gone = [line.name.text for line in family.lines if line.name.group not in there]
    return _MISSING.format(f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'}")


def _lines_there(target: Target, family: Family) -> frozenset[str]:
    """The groups of the lines that the target has already.

    If it has none of an import that is under way, they were deleted since it was begun, and what it stored is
    lost to them: they are made where the log ends. So the import begins there, too, before they are made.
    """
    queue = target.find(family.topic)
    if queue is None:
        return frozenset()
    with queue:
        there = queue.groups & _groups(family)
        begun = queue.begun()
        if not there and begun is not None and begun.import_id == family.import_id:
            queue.begin(family.import_id, is_again=True)
    return there


def _clear_guard(target: Target, family: Family) -> None:
    """A run may have been killed right after its entry in the ledger."""
    queue = target.find(family.topic)
    if queue is not None:
        with queue:
            begun = queue.begun()
            if begun is not None and begun.import_id == family.import_id:
                queue.end()


def _import(
    source: JournalSource,
    family: Family,
    target: Target,
    rules: ImportRules,
    watch: Watch,
    clock: Clock,
    result: FamilyOutcome,
    lines_before: frozenset[str],
) -> None:
    lines = _replay(source, family, watch, result)
    with target.make([line.name for line in family.lines]) as queue:
        begun = queue.begun()
        if begun is not None and begun.import_id != family.import_id and not rules.again:
            result.outcome, result.problem = Outcome.REFUSED, _UNDER_WAY
            return
        if begun is None or begun.import_id != family.import_id:
            begun = queue.begin(family.import_id, is_again=rules.again)
        result.records_before = last_count(queue.scan(begun.first_offset), family.import_id)
        result.records = result.records_before
        if not result.records and queue.start_offset > begun.first_offset:
            raise TargetRefused(_MARKS_GONE.format(begun.first_offset, queue.start_offset))
        if result.records:
            made = (queue.groups & _groups(family)) - lines_before
            result.doubts += _deleted(family, _begun_late(queue, made, begun.first_offset))
        _append(queue, begun, family, lines, result, watch)
        known = {(doubt.file, doubt.kind) for doubt in result.doubts}
        result.doubts += (one for one in source.changed(family) if (one.file, one.kind) not in known)
        if rules.keep_open_until_ms is not None:
            open_counts = _open_counts(family, lines, result.skipped)
            _keep_open(queue, family, open_counts, begun.first_offset, rules.keep_open_until_ms)
        topic_id = target.topic_id(family.topic) or ""
        target.note_completed(
            Completed(family.topic, topic_id, family.import_id, begun.first_offset, result.records, clock())
        )
        queue.end()


def _begun_late(queue: TargetQueue, made: frozenset[str], first_offset: int) -> frozenset[str]:
    """Of lines that were not there a moment ago, those that do not get all. Another import that stores the
    same items at this moment makes them where it begins."""
    readings = {group: queue.reading(group) for group in made}
    return frozenset(
        group for group, reading in readings.items() if reading is None or reading.acked_until > first_offset
    )


def _deleted(family: Family, made: frozenset[str]) -> list[Doubt]:
    what = "was deleted while its import was under way: it gets only what was not stored before"
    return [
        Doubt(line.files[0].name, 0, DoubtKind.LINE_DELETED, f"{line.name.text} {what}")
        for line in family.lines
        if line.name.group in made
    ]


def _replay(
    source: JournalSource, family: Family, watch: Watch, result: FamilyOutcome
) -> list[ReplayedQueue]:
    watch.replaying(family.master, family.size_bytes)
    lines = [source.replay(line, watch.replayed) for line in family.lines]
    for line, replayed in zip(family.lines, lines, strict=True):
        result.lines.append(
            LineCount(
                line.name.text,
                len(replayed.items),
                len(replayed.open),
                replayed.operations,
                line.size_bytes,
            )
        )
        result.doubts += replayed.doubts
    return lines


# --- records --------------------------------------------------------------------------------------------


def _append(
    queue: TargetQueue,
    begun: Begun,
    family: Family,
    lines: Sequence[ReplayedQueue],
    result: FamilyOutcome,
    watch: Watch,
) -> None:
    """Append what is not there yet; on return all is durable. `result.records` are those sent so far."""
    watch.importing(family.master, sum(len(line.items) for line in lines))
    groups = [line.name.group for line in family.lines]
    audiences = Audiences(groups, queue.groups)
    records = new_records(lines, audiences, result.records, result.skipped.append)
    watch.imported(audiences.take_count())
    for batch in cut_batches(records, family.import_id, result.records):
        queue.append(batch, begun.numbers(result.records))
        result.records += len(batch)
        watch.imported(audiences.take_count())
    queue.settle()


def _open_counts(
    family: Family, lines: Sequence[ReplayedQueue], skipped: Sequence[Skipped]
) -> dict[str, int]:
    """How many of the first items of a line were open, of those that were stored."""
    left_out = {(one.file, one.position) for one in skipped}
    return {
        line.name.group: sum((one.file, one.position) not in left_out for one in replayed.open)
        for line, replayed in zip(family.lines, lines, strict=True)
        if replayed.open
    }


def _keep_open(
    queue: TargetQueue, family: Family, wanted: dict[str, int], first_offset: int, deadline_ms: int
) -> None:
    """What was open in a line are its first items; the log says which offsets these have."""
    found: dict[str, list[int]] = {group: [] for group in wanted}
    for item in imported_items(queue.scan(first_offset), family.import_id) if wanted else ():
        for group, offsets in found.items():
            if len(offsets) < wanted[group] and item.is_for(group):
                offsets.append(item.offset)
        if all(len(offsets) == wanted[group] for group, offsets in found.items()):
            break
    for group, offsets in found.items():
        queue.keep_open(group, offsets, deadline_ms)


# --- a dry run ------------------------------------------------------------------------------------------


def plan_family(source: JournalSource, family: Family, watch: Watch) -> FamilyOutcome:
    """What an import into an empty target would store. Nothing is changed, and no target is looked at."""
    result = FamilyOutcome(family.master, family.import_id, Outcome.PLANNED)
    try:
        check_topic(family.topic)
        lines = _replay(source, family, watch, result)
        watch.importing(family.master, sum(len(line.items) for line in lines))
        for one in storable_records(lines, result.skipped.append):
            result.records += 1
            watch.imported(len(one.lines))
    except BarbicelError as error:
        result.outcome, result.problem = Outcome.FAILED, str(error)
    return result
