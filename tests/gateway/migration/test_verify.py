"""Verification says "complete" only when it is, and names the first difference."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.gateway.migration.directory_queue import DirectoryQueue
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.marks import cut_batches
from barbicel.gateway.migration.source import open_source
from barbicel.gateway.migration.target import Completed
from barbicel.gateway.migration.verify import FamilyVerdict, Verdict
from barbicel.kestrel_compat.items import new_record
from barbicel.kestrel_compat.names import parse_queue_name
from barbicel.stroma import Ack, GroupKey
from tests.gateway.migration.support import DATA, disk_with, fixed_clock, run_import, run_verify
from tests.golden.kestrel.writer import addx, join
from tests.support.fault_disk import FaultDisk

STEPS = [addx(b"a", 1), addx(b"b", 2, 50), addx(b"c", 3)]
GOOD = [
    new_record(b"a", 0, None, None, 1),
    new_record(b"b", 0, 50, None, 2),
    new_record(b"c", 0, None, None, 3),
]


def verify_against(records: list[NewRecord]) -> FamilyVerdict:
    """A target whose ledger claims that these records are a complete import."""
    disk = disk_with({"q": STEPS})
    (family,) = open_source(disk, "/journals").families
    with DirectoryTarget.open(disk, DATA, clock=fixed_clock) as target:
        with target.make([parse_queue_name("q")]) as queue:
            for batch in cut_batches(records, family.import_id):
                queue.append(batch)
            queue.settle()
        topic_id = target.topic_id("q")
        assert topic_id is not None
        target.note_completed(Completed("q", topic_id, family.import_id, 0, len(records), 0))
    (verdict,) = run_verify(disk)
    return verdict


def test_what_is_right_is_complete() -> None:
    verdict = verify_against(GOOD)
    (line,) = verdict.lines
    assert (verdict.verdict, line.difference) == (Verdict.COMPLETE, None)
    assert (line.journal_items, line.target_items, line.read_items) == (3, 3, 0)
    assert line.journal_digest == line.target_digest


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda good: good[:2], "item 3 (q at byte 44) is not in the target"),
        (lambda good: [*good, good[0]], "item 4 (offset 3) is not in the journals"),
        (lambda good: [good[1], good[0], good[2]], "item 1 (offset 0) has another data"),
        (lambda good: [good[0]._replace(value=b"A"), *good[1:]], "item 1 (offset 0) has another data"),
        (lambda good: [good[0]._replace(timestamp_ms=9), *good[1:]], "another time of adding"),
        (
            lambda good: [good[0], good[1]._replace(headers=()), good[2]],
            "item 2 (offset 1) has another expiry",
        ),
        (lambda good: [], "item 1 (q at byte 0) is not in the target"),
    ],
)
def test_a_difference_is_named(change: Callable[[list[NewRecord]], list[NewRecord]], difference: str) -> None:
    verdict = verify_against(change(list(GOOD)))
    assert verdict.verdict is Verdict.INCOMPLETE
    assert difference in (verdict.lines[0].difference or "")
    assert verdict.lines[0].journal_digest != verdict.lines[0].target_digest


def test_a_batch_that_is_there_twice_is_found() -> None:
    disk = disk_with({"q": STEPS})
    run_import(disk)
    (family,) = open_source(disk, "/journals").families

    def repeat(_: DirectoryTarget, queue: DirectoryQueue) -> None:
        for batch in cut_batches(GOOD, family.import_id):
            queue.append(batch)
        queue.settle()

    with_queue(disk, repeat)
    (verdict,) = run_verify(disk)
    assert verdict.verdict is Verdict.INCOMPLETE
    assert verdict.problem == "what ends at offset 5 was stored before, too"


def with_queue(disk: FaultDisk, change: Callable[[DirectoryTarget, DirectoryQueue], object]) -> None:
    with DirectoryTarget.open(disk, DATA, clock=fixed_clock) as target:
        queue = target.find("q")
        assert queue is not None
        with queue:
            change(target, queue)


def test_what_was_read_since_is_told() -> None:
    disk = disk_with({"q": STEPS})
    run_import(disk)
    with_queue(disk, lambda target, _: target.store.record(GroupKey("q", 0, "kestrel"), [Ack(1)]))
    (verdict,) = run_verify(disk)
    assert (verdict.verdict, verdict.lines[0].read_items) == (Verdict.READ, 1)


def test_a_line_that_is_gone_is_missed() -> None:
    disk = disk_with({"q": STEPS, "q+a": STEPS})
    run_import(disk)
    with_queue(disk, lambda target, _: target.store.delete(GroupKey("q", 0, "kestrel+a")))
    (verdict,) = run_verify(disk)
    assert [line.verdict for line in verdict.lines] == [Verdict.COMPLETE, Verdict.INCOMPLETE]
    assert verdict.verdict is Verdict.INCOMPLETE
    assert verdict.lines[1].difference == "the target has no such line"


def test_what_others_append_is_not_counted() -> None:
    disk = disk_with({"q": STEPS})
    run_import(disk)

    def put(_: DirectoryTarget, queue: DirectoryQueue) -> None:
        queue.append([NewRecord(7, None, b"new")])
        queue.settle()

    with_queue(disk, put)
    assert [one.verdict for one in run_verify(disk)] == [Verdict.COMPLETE]


@pytest.mark.parametrize(
    ("prepare", "problem"),
    [
        (lambda target: None, "the target has no such queue"),
        (lambda target: target.make([parse_queue_name("q")]).close(), "nothing was imported"),
        (lambda target: _begin(target, "0123456789abcdef"), "other journals"),
        (lambda target: target.note_completed(Completed("q", "", "f" * 16, 0, 0, 0)), "no such queue"),
    ],
)
def test_without_an_import_it_says_so(prepare: Callable[[DirectoryTarget], None], problem: str) -> None:
    disk = disk_with({"q": STEPS})
    with DirectoryTarget.open(disk, DATA, clock=fixed_clock) as target:
        prepare(target)
    (verdict,) = run_verify(disk)
    assert verdict.verdict is Verdict.INCOMPLETE
    assert problem in (verdict.problem or "")


def _begin(target: DirectoryTarget, import_id: str) -> None:
    with target.make([parse_queue_name("q")]) as queue:
        queue.begin(import_id)


def test_an_import_that_is_under_way_is_not_complete() -> None:
    disk = disk_with({"q": STEPS})
    (family,) = open_source(disk, "/journals").families
    with DirectoryTarget.open(disk, DATA, clock=fixed_clock) as target:
        _begin(target, family.import_id)
    (verdict,) = run_verify(disk)
    assert verdict.problem == "the import is not complete: run it again"


def test_journals_that_changed_since_are_told() -> None:
    disk = disk_with({"q": STEPS})
    run_import(disk)
    disk.put("/journals/q", join(STEPS[:2]))
    (verdict,) = run_verify(disk)
    assert verdict.verdict is Verdict.INCOMPLETE
    assert "before they changed" in (verdict.problem or "")
