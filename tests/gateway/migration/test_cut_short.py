"""An import that ends anywhere: at every call to the disk, by a kill or a power cut, and then goes on."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.gateway.migration import importing, marks
from barbicel.gateway.migration.directory_queue import DirectoryQueue
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.importing import ImportRules, Outcome
from barbicel.gateway.migration.target import NOT_NUMBERED, Numbers, TargetRefused
from barbicel.gateway.migration.verify import Verdict
from barbicel.stroma import GroupKey
from tests.gateway.migration.support import (
    DATA,
    NOW_MS,
    Kept,
    disk_with,
    fixed_clock,
    line,
    run_import,
    run_verify,
    stored,
)
from tests.golden.kestrel.writer import addx, reserve
from tests.support.fault_disk import Call, Fate, FaultDisk

QUEUES = {
    "q": [*(addx(b"item %d" % number, 1000 + number) for number in range(20)), reserve(3)],
    "q+audit": [addx(b"item %d" % number, 1000 + number) for number in range(10, 25)],
}
KEEP_OPEN = ImportRules(keep_open_until_ms=NOW_MS + 1)


append = DirectoryQueue.append


def append_and_settle(
    queue: DirectoryQueue, batch: Sequence[NewRecord], numbers: Numbers = NOT_NUMBERED
) -> None:
    """Or the writer would take all batches at once, and there would be nothing in between."""
    append(queue, batch, numbers)
    queue.settle()


def ends_of_an_import(fate: Fate) -> list[FaultDisk]:
    """The disk as the next process would find it, before each call of an import that goes through."""
    disk = disk_with(QUEUES)
    random = Random(6)
    found: list[FaultDisk] = []

    def look(call: Call) -> None:
        found.append(disk.crash(fate, random))

    disk.observer = look
    run_import(disk, KEEP_OPEN)
    disk.observer = None
    return [*found, disk.crash(fate, random)]


@pytest.mark.parametrize("fate", list(Fate))
def test_it_goes_on_behind_what_is_there(fate: Fate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "MAX_BATCH_RECORDS", 3)
    monkeypatch.setattr(DirectoryQueue, "append", append_and_settle)
    ends = ends_of_an_import(fate)
    resumed = 0
    for disk in ends:
        (outcome,) = run_import(disk, KEEP_OPEN)
        assert outcome.outcome in (Outcome.IMPORTED, Outcome.ALREADY)
        resumed += 0 < outcome.records_before < 25
        (verdict,) = run_verify(disk)
        assert verdict.verdict is Verdict.COMPLETE, verdict
        assert line(disk, "q") == [Kept(b"item %d" % number, 1000 + number, None) for number in range(20)]
        assert len(stored(disk, "q")) == 25
    assert len(ends) > 50
    assert resumed > 5


def cut_short(monkeypatch: pytest.MonkeyPatch) -> FaultDisk:
    """An import that has stored its first records and no more."""
    monkeypatch.setattr(marks, "MAX_BATCH_RECORDS", 3)
    disk = disk_with(QUEUES)
    with pytest.MonkeyPatch.context() as patch:
        left = [2]

        def append_some(queue: DirectoryQueue, batch: Sequence[NewRecord], numbers: Numbers) -> None:
            if not left[0]:
                raise TargetRefused("enough")
            left[0] -= 1
            append_and_settle(queue, batch, numbers)

        patch.setattr(DirectoryQueue, "append", append_some)
        assert [one.outcome for one in run_import(disk)] == [Outcome.FAILED]
    return disk


def delete_lines(disk: FaultDisk, *groups: str) -> None:
    """As the gateway does. The log stays if somebody else has a position in it."""
    with DirectoryTarget.open(disk, DATA, clock=fixed_clock) as target:
        for group in groups:
            target.store.delete(GroupKey("q", 0, group))


def test_lines_that_were_deleted_meanwhile_get_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """New ones begin at the log's end, behind what was stored: so does the import."""
    before = cut_short(monkeypatch)
    delete_lines(before, "kestrel", "kestrel+audit")
    monkeypatch.setattr(DirectoryQueue, "append", append_and_settle)
    ends = [before.crash(Fate.DROP, Random(1))]

    def look(call: Call) -> None:
        ends.append(before.crash(Fate.DROP, Random(1)))

    before.observer = look
    run_import(before)
    before.observer = None
    assert len(ends) > 50
    for disk in ends:
        (outcome,) = run_import(disk)
        assert outcome.outcome in (Outcome.IMPORTED, Outcome.ALREADY)
        assert not outcome.doubts
        assert [item.data for item in line(disk, "q")] == [b"item %d" % number for number in range(20)]
        assert len(line(disk, "q+audit")) == 15
        assert [one.verdict for one in run_verify(disk)] == [Verdict.COMPLETE]


def test_one_line_of_several_that_was_deleted_meanwhile_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = cut_short(monkeypatch)
    delete_lines(disk, "kestrel+audit")
    (outcome,) = run_import(disk)
    assert outcome.outcome is Outcome.IMPORTED
    assert [(doubt.file, str(doubt.kind)) for doubt in outcome.doubts] == [("q+audit", "line-deleted")]
    assert outcome.is_in_doubt
    assert len(line(disk, "q")) == 20


def test_lines_that_another_import_makes_at_this_moment_are_not_taken_for_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They were not there when this one looked, and they get everything."""
    disk = cut_short(monkeypatch)
    monkeypatch.setattr(importing, "_lines_there", lambda target, family: frozenset())
    (outcome,) = run_import(disk)
    assert (outcome.outcome, outcome.doubts) == (Outcome.IMPORTED, [])
    assert (len(line(disk, "q")), len(line(disk, "q+audit"))) == (20, 15)


def test_lines_that_were_deleted_when_all_was_imported_are_not_there_already() -> None:
    """Their log is, if a Kafka group has a position in it."""
    disk = disk_with(QUEUES)
    run_import(disk)
    delete_lines(disk, "kestrel", "kestrel+audit")
    (outcome,) = run_import(disk)
    assert outcome.outcome is Outcome.REFUSED
    assert "deleted since" in (outcome.problem or "")
    assert [one.outcome for one in run_import(disk, ImportRules(again=True))] == [Outcome.IMPORTED]
    assert (len(line(disk, "q")), len(line(disk, "q+audit"))) == (20, 15)
    assert [one.verdict for one in run_verify(disk)] == [Verdict.COMPLETE]


def test_one_line_that_was_deleted_when_all_was_imported_is_told() -> None:
    disk = disk_with(QUEUES)
    run_import(disk)
    delete_lines(disk, "kestrel+audit")
    for rules in (ImportRules(), ImportRules(again=True)):
        (outcome,) = run_import(disk, rules)
        assert outcome.outcome is Outcome.REFUSED
        assert "q+audit is not there any more" in (outcome.problem or "")
    assert len(line(disk, "q")) == 20
