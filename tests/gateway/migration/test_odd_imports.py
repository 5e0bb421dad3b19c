"""Imports of odd journals, and into odd targets: topics that Kafka made, items that nobody can store."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.disk import RealDisk
from barbicel.gateway.migration import source as source_module
from barbicel.gateway.migration.directory_queue import DirectoryQueue
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.importing import ImportRules, Outcome, import_family, plan_family
from barbicel.gateway.migration.source import open_source
from barbicel.gateway.migration.target import LEDGER_TOPIC
from barbicel.gateway.migration.verify import Verdict
from barbicel.gateway.migration.watch import Quiet
from barbicel.kestrel_compat.names import parse_queue_name
from tests.gateway.migration.support import NOW_MS, Kept, disk_with, line, run_import, run_verify
from tests.gateway.migration.test_importing import items, kept, open_target
from tests.golden.kestrel.writer import addx, i32, i64, join, reserve


def found(target: DirectoryTarget) -> DirectoryQueue:
    queue = target.find("q")
    assert queue is not None
    return queue


def test_what_was_open_and_is_too_large_leaves_no_other_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "MAX_ITEM_BYTES", 6)
    steps = [addx(b"far too large"), addx(b"small"), addx(b"tiny"), reserve(1), reserve(2)]
    disk = disk_with({"q": steps})
    run_import(disk, ImportRules(keep_open_until_ms=NOW_MS + 1))
    with open_target(disk) as target, found(target) as queue:
        state = queue.state("kestrel")
        assert state is not None
        assert sorted(state.inflight) == [0]


def test_an_item_of_two_gigabytes_is_not_read(tmp_path: Path) -> None:
    """Which the disk does not really have."""
    (tmp_path / "journals").mkdir()
    with (tmp_path / "journals" / "q").open("wb") as file:
        file.write(addx(b"before").raw)
        file.write(b"\x02" + i32(2**31 - 1) + i64(1) + i64(0))
        file.seek(2**31 - 17, os.SEEK_CUR)
        file.write(addx(b"behind").raw)
    source, data = str(tmp_path / "journals"), str(tmp_path / "data")
    tracemalloc.start()
    try:
        (outcome,) = run_import(RealDisk(), source=source, data=data)
        (verdict,) = run_verify(RealDisk(), source=source, data=data)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert [one.what.split(",")[0] for one in outcome.skipped] == ["an item of 2"]
    assert "too large" in (verdict.lines[0].difference or "")
    assert [item.data for item in line(RealDisk(), "q", data=data)] == [b"before", b"behind"]


def test_journals_that_change_meanwhile_are_told() -> None:
    disk = disk_with({"q": items(1, 2)})
    whole = join(items(1, 2))

    class Changing(Quiet):
        def importing(self, queue: str, total_items: int) -> None:
            disk.put("/journals/q", whole + join(items(3)))

    journals = open_source(disk, "/journals")
    with open_target(disk) as target:
        outcome = import_family(journals, journals.families[0], target, [], ImportRules(), Changing())
    assert outcome.outcome is Outcome.IMPORTED
    assert [(doubt.file, doubt.position, str(doubt.kind)) for doubt in outcome.doubts] == [
        ("q", len(whole), "changed")
    ]
    assert outcome.is_in_doubt


@pytest.mark.parametrize("now", [b"", join(items(7, 8, 9)), join(items(7))])
def test_journals_that_are_replaced_meanwhile_are_not_complete(now: bytes) -> None:
    """As by a Kestrel that runs and rotates: under the old name there are other items at the old places."""
    disk = disk_with({"q": items(1, 2)})

    class Replacing(Quiet):
        def importing(self, queue: str, total_items: int) -> None:
            disk.put("/journals/q", now)

    journals = open_source(disk, "/journals")
    with open_target(disk) as target:
        outcome = import_family(journals, journals.families[0], target, [], ImportRules(), Replacing())
        assert outcome.outcome is Outcome.FAILED
        assert not target.completed()
    assert [one.outcome for one in run_import(disk)] == [Outcome.REFUSED]


def test_the_ledger_is_no_queue_in_a_dry_run_and_for_a_verification_either() -> None:
    disk = disk_with({LEDGER_TOPIC: items(1)})
    journals = open_source(disk, "/journals")
    planned = plan_family(journals, journals.families[0], Quiet())
    assert planned.outcome is Outcome.FAILED
    run_import(disk)
    (verdict,) = run_verify(disk)
    assert verdict.verdict is Verdict.INCOMPLETE
    assert "where imports are noted" in (verdict.problem or "")
    assert planned.problem == verdict.problem


def test_the_ledger_is_no_queue() -> None:
    disk = disk_with({LEDGER_TOPIC: items(1), "q": items(2)})
    ledger, other = run_import(disk)
    assert (ledger.outcome, other.outcome) == (Outcome.FAILED, Outcome.IMPORTED)
    assert "where imports are noted" in (ledger.problem or "")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "retention.ms=604800000"),
        ({"retention.ms": "-1", "retention.bytes": "5"}, "retention.bytes=5"),
        ({"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}, "its own time"),
    ],
)
def test_a_topic_that_would_lose_items_is_refused(settings: dict[str, str], problem: str) -> None:
    disk = disk_with({"q": items(1)})
    with open_target(disk) as target:
        target.catalogue.create("q", 1, settings)
    (outcome,) = run_import(disk)
    assert outcome.outcome is Outcome.FAILED
    assert problem in (outcome.problem or "")


def test_a_topic_that_kafka_made_is_read_from_its_start() -> None:
    """As by the first Kestrel client that asks for it."""
    disk = disk_with({"q": items(1), "q+a": items(1)})
    with open_target(disk) as target:
        target.catalogue.create("q", 1, {"retention.ms": "-1"})
        with found(target) as queue:
            queue.append([NewRecord(7, None, b"before")])
            queue.settle()
    run_import(disk)
    assert [item.data for item in line(disk, "q")] == [b"before", kept(1)[0].data]
    assert line(disk, "q+a") == kept(1)


def _noting(looks: list[str], look: Callable[[str], object]) -> Callable[[str], object]:
    def noted(path: str) -> object:
        looks.append(path)
        return look(path)

    return noted


def test_all_groups_are_looked_up_once_and_not_for_each_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hundred thousand queues each look takes a tenth of a second."""
    disk = disk_with({name: items(1) for name in ("q", "q+a", "r", "s", "t", "u")})
    looks: list[str] = []
    for method in ("list", "names"):
        monkeypatch.setattr(disk, method, _noting(looks, getattr(disk, method)))
    run_import(disk)
    assert looks.count("/data/groups") <= 2  # the store itself looks when it is opened
    assert [one.outcome for one in run_import(disk)] == [Outcome.ALREADY] * 5


def test_times_before_1970_are_0() -> None:
    disk = disk_with({"q": [addx(b"a", -5), addx(b"b", -6, -7)], "q+c": [addx(b"b", -6, -7)]})
    run_import(disk)
    assert line(disk, "q") == [Kept(b"a", 0, None), Kept(b"b", 0, 1)]
    assert [one.verdict for one in run_verify(disk)] == [Verdict.COMPLETE]


def test_an_import_that_was_given_up_can_be_begun_again() -> None:
    """Its first records are there already, and come once more: that is what --again says."""
    disk = disk_with({"q": items(1, 2)})
    (family,) = open_source(disk, "/journals").families
    with open_target(disk) as target, target.make([parse_queue_name("q")]) as queue:
        first = queue.begin(family.import_id)
        second = queue.begin("0123456789abcdef", is_again=True)
        third = queue.begin(family.import_id, is_again=True)
        assert queue.begun() == third
    assert len({begun.numbers(0).producer_id for begun in (first, second, third)}) == 3
