"""A disk that refuses: only the group that it hits stops, nobody is told a lie, and the next use recovers."""

from __future__ import annotations

import errno
from random import Random

import pytest

from barbicel.codecs.stroma_events import Ack, BumpAckedUntil, MarkInflight
from barbicel.errors import BarbicelError, DiskError
from barbicel.stroma import GroupKey, SyncPolicy
from barbicel.stroma.failures import RETRY_MS
from tests.keratin.builders import ManualClock
from tests.stroma.builders import (
    KEY,
    LONG_KEY,
    NOW_MS,
    OTHER,
    ROOT,
    Calls,
    OpenFiles,
    after_power_cut,
    filled,
    open_store,
    plan_on,
    view_on,
)
from tests.stroma.model import View, view_of
from tests.support.fault_disk import Call, Fate, FaultDisk, Operation

DELTA_NAME = "topic-0_group.delta"
# What a compaction of KEY calls, in this order.
COMPACTION: list[tuple[Operation, str]] = [
    ("open", "group.snap.new"),
    ("write", "group.snap.new"),
    ("fdatasync", "group.snap.new"),
    ("rename", "group.snap.new"),
    ("fsync", ROOT),
    ("open", "group.delta.new"),
    ("write", "group.delta.new"),
    ("fdatasync", "group.delta.new"),
    ("rename", "group.delta.new"),
]


class Bench:
    """Two groups that have acked offset 0, durably; KEY is the one that is hurt."""

    def __init__(self, policy: SyncPolicy = SyncPolicy.INTERVAL, max_open_groups: int = 1000) -> None:
        self.disk = FaultDisk()
        self.files = OpenFiles(self.disk)
        self.clock = ManualClock(NOW_MS)
        self.store = open_store(
            self.disk, clock=self.clock, sync_policy=policy, max_open_groups=max_open_groups
        )
        for key in (KEY, OTHER):
            self.store.record(key, [Ack(0)])
        self.store.sync([KEY, OTHER])

    def record(self) -> None:
        """Offset 1 in both."""
        for key in (KEY, OTHER):
            self.store.record(key, [Ack(1)])

    def due(self) -> None:
        self.clock.now_ms += 1000

    def check_recovered(self, acked_until: int, failed_opens: int = 0) -> None:
        """The state is what the files say, what comes next survives a power cut, nothing is left open."""
        assert self.store.state(KEY).acked_until == acked_until
        assert view_on(self.disk, KEY).acked_until == acked_until
        self.store.record(KEY, [MarkInflight(5, NOW_MS, 1)])
        self.store.sync([KEY, OTHER])
        found = view_on(after_power_cut(self.disk), KEY)
        assert (found.acked_until, len(found.inflight)) == (acked_until, 1)
        assert view_on(after_power_cut(self.disk), OTHER) == View(acked_until=2)
        self.store.close()
        if self.disk.observer is self.files:
            assert self.files.count == failed_opens  # which nobody closes


@pytest.mark.parametrize("policy", SyncPolicy)
@pytest.mark.parametrize("partial", [0, 1, 12, 23, 24], ids=lambda count: f"{count} bytes")
def test_a_failed_write_is_told_and_concerns_one_group(policy: SyncPolicy, partial: int) -> None:
    bench = Bench(policy)
    bench.record()
    bench.disk.fail("write", errno.EIO, path_contains=DELTA_NAME, partial=partial)
    failures = bench.store.commit()
    assert list(failures) == [KEY]
    assert "write failed: Input/output error" in str(failures[KEY])
    # A kill at this moment finds what was answered, and at most what was not.
    assert view_on(bench.disk.crash(Fate.KEEP, Random(0))).acked_until in (1, 2)
    bench.check_recovered(1)


@pytest.mark.parametrize("operation", ["create", "write", "fdatasync", "rename", "fsync", "open"])
@pytest.mark.parametrize("key", [GroupKey("new", 0, "group"), LONG_KEY], ids=["plain", "hashed"])
def test_a_group_whose_files_cannot_be_made_is_told_and_can_be_made_later(
    key: GroupKey, operation: Operation
) -> None:
    disk = FaultDisk()
    store = open_store(disk, sync_policy=SyncPolicy.ALWAYS)
    store.record(key, [Ack(0)])
    store.record(OTHER, [Ack(0)])
    disk.fail("open" if operation == "create" else operation, errno.ENOSPC)
    assert list(store.commit()) == [key]
    assert view_on(disk, OTHER).acked_until == 1
    # What was written and not synced may still be there: a failed turn promises nothing.
    assert store.state(key).acked_until in (0, 1 if operation in ("fdatasync", "rename", "fsync") else 0)
    store.record(key, [Ack(0)])
    store.sync([key])
    assert view_on(after_power_cut(disk), key).acked_until == 1


def test_a_full_disk_is_told_and_over_when_there_is_room() -> None:
    bench = Bench()
    bench.disk.capacity_bytes = sum(map(len, bench.disk.files().values())) + 24
    bench.record()
    failures = bench.store.commit()
    assert len(failures) == 1
    assert "the disk is full" in str(next(iter(failures.values())))
    hurt = next(iter(failures))
    for _ in range(2):
        assert bench.store.state(hurt).acked_until == 1  # reading goes on
        with pytest.raises(DiskError, match="the disk is full"):
            bench.store.record(hurt, [Ack(1)])
    bench.disk.capacity_bytes = None
    bench.store.record(hurt, [Ack(1)])
    assert bench.store.commit() == {}
    bench.check_recovered(2)


class TestAFailedSync:
    """The page cache lies: the events can be read, count as clean, and are not on the disk."""

    def test_of_always_is_told_before_the_answer(self) -> None:
        bench = Bench(SyncPolicy.ALWAYS)
        bench.record()
        bench.disk.fail("fdatasync", errno.EIO, path_contains=DELTA_NAME)
        assert list(bench.store.commit()) == [KEY]
        bench.check_recovered(bench.store.state(KEY).acked_until)

    def test_that_was_demanded_is_raised(self) -> None:
        bench = Bench()
        bench.record()
        bench.disk.fail("fdatasync", errno.EIO, path_contains=DELTA_NAME)
        with pytest.raises(DiskError, match="fdatasync failed"):
            bench.store.sync([KEY, OTHER])
        assert view_on(after_power_cut(bench.disk)).acked_until == 1
        bench.check_recovered(2)

    def test_in_the_background_does_not_stop_the_others(self) -> None:
        bench = Bench()
        bench.record()
        bench.store.commit()
        bench.due()
        bench.disk.fail("fdatasync", errno.EIO, path_contains=DELTA_NAME)
        bench.store.maintain()
        assert view_on(after_power_cut(bench.disk), OTHER).acked_until == 2
        bench.check_recovered(2)

    def test_in_the_background_is_made_good_by_a_demanded_one(self) -> None:
        """Nothing else was done with the group in between."""
        bench = Bench()
        bench.record()
        bench.store.commit()
        bench.due()
        bench.disk.fail("fdatasync", errno.EIO, path_contains=DELTA_NAME)
        bench.store.maintain()
        bench.store.sync([KEY])
        assert view_on(after_power_cut(bench.disk)).acked_until == 2

    def test_of_an_eviction_loses_nothing(self) -> None:
        bench = Bench(max_open_groups=2)
        bench.record()
        bench.store.commit()
        bench.disk.fail("fdatasync", errno.EIO, path_contains=DELTA_NAME)
        bench.store.state(LONG_KEY)
        bench.check_recovered(2)

    def test_is_not_tried_again_on_that_file(self) -> None:
        bench = Bench()
        bench.record()
        bench.disk.fail("fdatasync", errno.EIO, path_contains=DELTA_NAME)
        with pytest.raises(DiskError):
            bench.store.sync([KEY])
        calls = Calls(bench.disk)
        bench.store.record(KEY, [Ack(2)])
        bench.store.sync([KEY])
        made = calls.take()
        # A snapshot and a new delta take its place first.
        assert made.index("rename topic-0_group.snap.new") < made.index(f"rename {DELTA_NAME}.new")
        touched = [f"write {DELTA_NAME}", f"fdatasync {DELTA_NAME}"]
        assert [made.index(call) > made.index(f"rename {DELTA_NAME}.new") for call in touched] == [True] * 2
        assert view_on(after_power_cut(bench.disk)).acked_until == 3


class TestAFailedCompaction:
    @pytest.mark.parametrize(("operation", "path"), COMPACTION)
    def test_wherever_it_fails_nothing_that_was_answered_is_lost(
        self, operation: Operation, path: str
    ) -> None:
        bench = Bench()
        bench.record()
        bench.store.commit()
        bench.store.record(KEY, [Ack(2)])
        bench.disk.fail(operation, errno.EIO, path_contains=path)
        with pytest.raises(DiskError):
            bench.store.compact(KEY)
        told = KEY in bench.store.commit()
        # The snapshot may be there all the same, with what nobody was answered.
        kept = bench.store.state(KEY).is_acked(2)
        assert told or kept
        bench.check_recovered(3 if kept else 2, failed_opens=int(operation == "open"))

    def test_that_cannot_write_the_turn_first_is_told(self) -> None:
        bench = Bench()
        bench.store.record(KEY, [Ack(1)])
        bench.disk.fail("write", errno.EIO, path_contains=DELTA_NAME)
        with pytest.raises(DiskError):
            bench.store.compact(KEY)
        assert list(bench.store.commit()) == [KEY]
        assert bench.store.commit() == {}
        assert bench.store.state(KEY).acked_until == 1

    def test_in_the_background_leaves_the_group_as_it_was_and_is_tried_again(self) -> None:
        disk, clock = FaultDisk(), ManualClock(NOW_MS)
        store = open_store(disk, clock=clock, compact_bytes=0)
        store.record(KEY, [Ack(0)])
        store.commit()
        store.record(KEY, [Ack(1)])
        disk.fail("write", errno.EIO, path_contains=".snap")
        with pytest.raises(DiskError, match=r"snap\.new"):
            store.maintain()
        assert (store.commit(), store.failures) == ({}, {})
        assert store.state(KEY).acked_until == 2
        store.maintain()  # too soon
        assert not disk.exists(f"{ROOT}/topic-0_group.snap")
        clock.now_ms += RETRY_MS
        store.maintain()
        assert disk.exists(f"{ROOT}/topic-0_group.snap")
        assert view_on(after_power_cut(disk)).acked_until == 2


class TestAFirstWriteThatFails:
    """Whatever it leaves, the group's header among it, is no damage."""

    @pytest.mark.parametrize("partial", [0, 1, 59, 60, 61, 83, 84])
    def test_of_a_new_group_leaves_none(self, partial: int) -> None:
        disk = FaultDisk()
        store = open_store(disk)
        store.record(KEY, [Ack(0)])
        disk.fail("write", errno.ENOSPC, path_contains=DELTA_NAME, partial=partial)
        assert list(store.commit()) == [KEY]
        assert not store.exists(KEY)
        store.record(KEY, [Ack(0)])
        store.sync([KEY])
        assert view_on(after_power_cut(disk)).acked_until == 1

    @pytest.mark.parametrize("partial", [0, 1, 59, 60, 61, 83, 84])
    def test_that_cannot_even_be_taken_back_is_kept_aside(self, partial: int) -> None:
        disk = FaultDisk()
        store = open_store(disk)
        store.record(KEY, [Ack(0)])
        disk.fail("write", errno.EIO, path_contains=DELTA_NAME, partial=partial)
        disk.fail("unlink", errno.EIO)
        assert list(store.commit()) == [KEY]
        assert store.state(KEY).acked_until in (0, 1)
        store.record(KEY, [Ack(0)])
        store.sync([KEY])
        assert view_on(after_power_cut(disk)).acked_until == 1

    @pytest.mark.parametrize("is_void", [True, False], ids=["void", "missing"])
    @pytest.mark.parametrize("partial", [0, 5, 24])
    def test_of_a_group_whose_delta_is_made_anew_leaves_what_the_snapshot_says(
        self, partial: int, is_void: bool
    ) -> None:
        disk = filled((BumpAckedUntil(1000),))
        old = disk.files()[f"{ROOT}/{DELTA_NAME}"]
        with open_store(disk) as store:
            store.compact(KEY)
        if is_void:
            disk.put(f"{ROOT}/{DELTA_NAME}", old)
        else:
            disk.unlink(f"{ROOT}/{DELTA_NAME}")
        store = open_store(disk)
        store.record(KEY, [Ack(1000)])
        disk.fail("write", errno.ENOSPC, path_contains=f"{ROOT}/{DELTA_NAME}", partial=partial)
        assert list(store.commit()) == [KEY]
        assert view_on(disk).acked_until == 1000
        assert plan_on(disk).actions == ()
        assert store.state(KEY).acked_until == 1000


class TestNobodyIsToldALie:
    def test_one_groups_sync_does_not_hide_that_anothers_write_failed(self) -> None:
        bench = Bench()
        bench.record()
        bench.disk.fail("write", errno.EIO, path_contains=DELTA_NAME)
        bench.store.sync([OTHER])
        assert list(bench.store.commit()) == [KEY]
        assert bench.store.commit() == {}
        bench.check_recovered(1)

    def test_a_sync_of_both_tells_of_both(self) -> None:
        bench = Bench()
        bench.record()
        bench.disk.fail("write", errno.EIO, path_contains=".delta", times=2)
        with pytest.raises(DiskError):
            bench.store.sync([KEY, OTHER])
        assert len(bench.store.commit()) == 1
        assert [bench.store.state(key).acked_until for key in (KEY, OTHER)] == [1, 1]

    @pytest.mark.parametrize("operation", ["write", "fdatasync"])
    def test_a_close_that_fails_says_so_and_syncs_the_others(self, operation: Operation) -> None:
        bench = Bench()
        bench.record()
        bench.disk.fail(operation, errno.EIO, path_contains=DELTA_NAME)
        with pytest.raises(BarbicelError, match=f"{operation} failed"):
            bench.store.close()
        assert view_on(after_power_cut(bench.disk), OTHER).acked_until == 2
        assert bench.files.count == 0
        with open_store(bench.disk) as store:
            assert store.state(KEY).acked_until in (1, 2)

    def test_an_event_recorded_before_a_background_sync_fails_is_kept_or_told(self) -> None:
        bench = Bench()
        bench.record()
        bench.store.commit()
        bench.due()
        bench.store.record(KEY, [Ack(2)])
        bench.disk.fail("fdatasync", errno.EIO, path_contains=DELTA_NAME)
        bench.store.maintain()
        told = KEY in bench.store.commit()
        assert told != bench.store.state(KEY).is_acked(2)

    def test_an_event_written_while_a_sync_fails_is_kept_or_told(self) -> None:
        """Whatever is done about the failed sync must not take back what another thread was answered."""
        bench = Bench()
        bench.record()
        bench.store.commit()
        bench.due()
        bench.store.record(KEY, [Ack(2)])
        told: dict[GroupKey, BarbicelError] = {}

        def commit_before_a_cut(call: Call) -> None:
            if call.operation == "truncate":
                bench.disk.observer = None
                told.update(bench.store.commit())

        bench.disk.observer = commit_before_a_cut
        bench.disk.fail("fdatasync", errno.EIO, path_contains=DELTA_NAME)
        bench.store.maintain()
        bench.disk.observer = None
        told.update(bench.store.commit())
        assert (KEY in told) != bench.store.state(KEY).is_acked(2)


class TestAfterAFailure:
    def test_a_group_that_was_never_written_does_not_come_into_being(self) -> None:
        disk = FaultDisk()
        store = open_store(disk)
        store.record(KEY, [Ack(0)])
        disk.fail("open", errno.EMFILE)
        assert list(store.commit()) == [KEY]
        assert view_of(store.state(KEY)) == View()
        assert not store.exists(KEY)

    def test_a_group_that_is_deleted_stays_deleted(self) -> None:
        bench = Bench()
        bench.record()
        bench.disk.fail("write", errno.EIO, path_contains=DELTA_NAME)
        bench.store.commit()
        bench.store.delete(KEY)
        assert view_of(bench.store.state(KEY)) == View()
        assert not bench.store.exists(KEY)
