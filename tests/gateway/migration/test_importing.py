"""Imports into a data directory: what is unread for whom, what is stored once, and what is not done twice."""

from __future__ import annotations

import errno

import pytest

from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.gateway.migration import source as source_module
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.importing import ImportRules, Outcome, plan_family
from barbicel.gateway.migration.source import NoSuchQueue, open_source
from barbicel.gateway.migration.target import LEDGER_TOPIC, TargetRefused
from barbicel.gateway.migration.verify import Verdict
from barbicel.gateway.migration.watch import Quiet
from barbicel.kestrel_compat.names import guard_group, parse_queue_name
from barbicel.stroma import Ack, GroupKey
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
from tests.golden.kestrel.writer import Step, addx, remove, reserve
from tests.support.fault_disk import FaultDisk

AGAIN = ImportRules(again=True)


def items(*numbers: int) -> list[Step]:
    return [addx(b"item %d" % number, 1000 + number) for number in numbers]


def kept(*numbers: int) -> list[Kept]:
    return [Kept(b"item %d" % number, 1000 + number, None) for number in numbers]


def open_target(disk: FaultDisk) -> DirectoryTarget:
    return DirectoryTarget.open(disk, DATA, clock=fixed_clock)


def test_items_keep_their_order_time_and_expiry() -> None:
    disk = disk_with({"q": [*items(1, 2), addx(b"late", 5, 9_999_999_999_999), addx(b"past", 6, -7)]})
    (outcome,) = run_import(disk)
    assert (outcome.outcome, outcome.records, outcome.lines[0].items) == (Outcome.IMPORTED, 4, 4)
    assert line(disk, "q") == [*kept(1, 2), Kept(b"late", 5, 9_999_999_999_999), Kept(b"past", 6, 1)]


def test_children_share_what_they_have_in_common() -> None:
    disk = disk_with(
        {
            "q": [*items(1, 2, 3, 4), remove(), remove()],
            "q+audit": [*items(2, 3, 4), addx(b"own", 2000)],
            "q+empty": [*items(1), remove()],
        }
    )
    run_import(disk)
    assert line(disk, "q") == kept(3, 4)
    assert line(disk, "q+audit") == [*kept(2, 3, 4), Kept(b"own", 2000, None)]
    assert line(disk, "q+empty") == []
    assert stored(disk, "q") == [b"item 2", b"item 3", b"item 4", b"own"]


def test_a_record_for_all_lines_has_no_audience() -> None:
    disk = disk_with({"q": items(1, 2), "q+a": items(2)})
    run_import(disk)
    with open_target(disk) as target, target.make([parse_queue_name("q")]) as queue:
        assert [item.audience for item in queue.scan(0)] == [frozenset({"kestrel"}), None]


def test_lines_that_only_the_target_has_get_nothing() -> None:
    disk = disk_with({"q": items(1)})
    with open_target(disk) as target:
        target.make([parse_queue_name("q+here")]).close()
    run_import(disk)
    assert line(disk, "q") == kept(1)
    assert line(disk, "q+here") == []


def test_what_is_there_comes_first() -> None:
    disk = disk_with({"q": items(1)})
    with open_target(disk) as target, target.make([parse_queue_name("q")]) as queue:
        queue.append([NewRecord(7, None, b"before")])
        queue.settle()
    run_import(disk)
    assert line(disk, "q") == [Kept(b"before", 7, None), *kept(1)]
    assert [one.verdict for one in run_verify(disk)] == [Verdict.COMPLETE]


def test_open_reads_are_at_the_head() -> None:
    disk = disk_with({"q": [*items(1, 2, 3), reserve(7), reserve(5)]})
    run_import(disk)
    assert line(disk, "q") == kept(2, 1, 3)


def test_open_reads_can_stay_open() -> None:
    disk = disk_with({"q": [*items(1, 2, 3), reserve(7), reserve(5)], "q+a": [*items(1, 3), reserve(1)]})
    run_import(disk, ImportRules(keep_open_until_ms=NOW_MS + 5))
    with open_target(disk) as target:
        queue = target.find("q")
        assert queue is not None
        with queue:
            for group, expected in (("kestrel", [b"item 2", b"item 1"]), ("kestrel+a", [b"item 1"])):
                state = queue.state(group)
                assert state is not None
                held = [item.data for item in queue.scan(0) if item.offset in state.inflight]
                assert sorted(held) == sorted(expected)
                assert {entry.deadline_ts_ms for entry in state.inflight.values()} == {NOW_MS + 5}
    assert [one.verdict for one in run_verify(disk)] == [Verdict.COMPLETE]


def test_a_second_run_does_nothing() -> None:
    disk = disk_with({"q": items(1, 2), "other": items(3)})
    assert {one.outcome for one in run_import(disk)} == {Outcome.IMPORTED}
    assert {one.outcome for one in run_import(disk)} == {Outcome.ALREADY}
    assert line(disk, "q") == kept(1, 2)


def test_a_second_run_does_nothing_though_all_was_read_and_dropped() -> None:
    disk = disk_with({"q": items(1, 2)})
    run_import(disk)
    with open_target(disk) as target:
        queue = target.find("q")
        assert queue is not None
        with queue:
            target.store.record(GroupKey("q", 0, "kestrel"), [Ack(0), Ack(1)])
            queue._log.truncate_before(2)
    assert [one.outcome for one in run_import(disk)] == [Outcome.ALREADY]
    assert line(disk, "q") == []
    (verdict,) = run_verify(disk)
    assert verdict.verdict is Verdict.INCOMPLETE
    assert verdict.problem is not None
    assert "given up" in verdict.problem


def test_journals_that_changed_are_refused() -> None:
    disk = disk_with({"q": items(1, 2)})
    run_import(disk)
    changed = b"".join(step.raw for step in items(1, 2, 3))
    disk.put("/journals/q", changed)
    (outcome,) = run_import(disk)
    assert outcome.outcome is Outcome.REFUSED
    assert outcome.problem is not None
    assert "--again" in outcome.problem
    assert line(disk, "q") == kept(1, 2)
    assert [one.outcome for one in run_import(disk, AGAIN)] == [Outcome.IMPORTED]
    assert line(disk, "q") == kept(1, 2, 1, 2, 3)
    assert [one.outcome for one in run_import(disk, AGAIN)] == [Outcome.ALREADY]


def test_a_queue_that_was_deleted_can_be_imported_again() -> None:
    disk = disk_with({"q": items(1, 2)})
    run_import(disk)
    with open_target(disk) as target:
        target.store.delete(GroupKey("q", 0, "kestrel"))
        target.catalogue.delete("q")
    (outcome,) = run_import(disk)
    assert outcome.outcome is Outcome.REFUSED
    assert "deleted since" in (outcome.problem or "")
    assert [one.outcome for one in run_import(disk, AGAIN)] == [Outcome.IMPORTED]
    assert [one.outcome for one in run_import(disk, AGAIN)] == [Outcome.ALREADY]
    assert line(disk, "q") == kept(1, 2)
    assert [one.verdict for one in run_verify(disk)] == [Verdict.COMPLETE]


def test_the_same_size_with_another_end_is_a_change() -> None:
    disk = disk_with({"q": items(1)})
    run_import(disk)
    disk.put("/journals/q", items(2)[0].raw)
    assert [one.outcome for one in run_import(disk)] == [Outcome.REFUSED]


def test_an_import_under_way_is_not_mixed_with_another() -> None:
    disk = disk_with({"q": items(1)})
    with open_target(disk) as target, target.make([parse_queue_name("q")]) as queue:
        queue.begin("0123456789abcdef")
    (outcome,) = run_import(disk)
    assert outcome.outcome is Outcome.REFUSED
    assert [one.outcome for one in run_import(disk, AGAIN)] == [Outcome.IMPORTED]


def test_readers_that_are_faster_do_not_free_the_log_of_an_import_under_way() -> None:
    """The gateway drops what every group is past."""
    disk = FaultDisk()
    with open_target(disk) as target, target.make([parse_queue_name("q")]) as queue:
        queue.append([NewRecord(7, None, b"before")])
        queue.settle()
        queue.begin("0123456789abcdef")
        queue.append([NewRecord(8, None, b"imported")])
        queue.settle()
        target.store.record(GroupKey("q", 0, "kestrel"), [Ack(0), Ack(1)])
        assert min(target.store.state(key).acked_until for key in target.store.groups()) == 1


def test_nothing_is_left_under_way() -> None:
    disk = disk_with({"q": items(1)})
    run_import(disk)
    with open_target(disk) as target:
        assert not target.store.exists(GroupKey("q", 0, guard_group("q")))
        assert [topic.name for topic in target.catalogue] == [LEDGER_TOPIC, "q"]


def test_an_item_that_no_log_takes_is_skipped_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "MAX_ITEM_BYTES", 6)
    disk = disk_with({"q": [addx(b"small"), addx(b"far too large"), addx(b"tiny")], "q+a": [addx(b"tiny")]})
    (outcome,) = run_import(disk)
    assert [(one.file, one.position) for one in outcome.skipped] == [("q", len(addx(b"small").raw))]
    assert outcome.is_in_doubt
    assert [item.data for item in line(disk, "q")] == [b"small", b"tiny"]
    (verdict,) = run_verify(disk)
    assert verdict.lines[0].verdict is Verdict.INCOMPLETE
    assert verdict.lines[0].difference == "item 2 (q at byte 26) is too large and was not imported"
    assert verdict.lines[0].journal_items == 3


def test_one_queue_that_cannot_be_read_does_not_stop_the_others() -> None:
    disk = disk_with({"bad": items(1), "q": items(2)})
    disk.fail("open", errno.EACCES, path_contains="/journals/bad", times=100)
    bad, good = run_import(disk)
    assert (bad.outcome, good.outcome) == (Outcome.FAILED, Outcome.IMPORTED)
    assert bad.problem is not None
    assert "/journals/bad" in bad.problem
    assert line(disk, "q") == kept(2)


def test_a_dry_run_counts_and_changes_nothing() -> None:
    disk = disk_with({"q": items(1, 2), "q+a": items(2, 3)})
    before = disk.files()
    source = open_source(disk, "/journals")
    outcome = plan_family(source, source.families[0], Quiet())
    assert (outcome.outcome, outcome.records) == (Outcome.PLANNED, 3)
    assert [(one.queue, one.items) for one in outcome.lines] == [("q", 2), ("q+a", 2)]
    assert disk.files() == before


def test_queues_are_chosen_with_their_children() -> None:
    disk = disk_with({"q": items(1), "q+a": items(1), "other": items(2)})
    assert [one.master for one in open_source(disk, "/journals", ["q+a"]).families] == ["q"]
    with pytest.raises(NoSuchQueue):
        open_source(disk, "/journals", ["nobody"])


def test_a_directory_that_is_in_use_is_refused() -> None:
    disk = disk_with({"q": items(1)})
    with open_target(disk), pytest.raises(TargetRefused, match="a server uses"):
        open_target(disk)


def test_a_topic_with_partitions_is_no_queue() -> None:
    disk = disk_with({"q": items(1)})
    with open_target(disk) as target:
        target.catalogue.create("q", 3, {})
    (outcome,) = run_import(disk)
    assert outcome.outcome is Outcome.FAILED
    assert outcome.problem is not None
    assert "3 partitions" in outcome.problem
