"""Files, names and clocks that nobody expects: one of them is no reason to give up on all the others."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest
from crc32c import crc32c

from barbicel.codecs.stroma_events import (
    Ack,
    BumpAckedUntil,
    Commit,
    DeltaHeader,
    MarkInflight,
    Reset,
    encode_delta_header,
    encode_event,
)
from barbicel.codecs.stroma_format import MAX_OFFSET
from barbicel.disk import RealDisk
from barbicel.errors import CorruptGroup, DiskError
from barbicel.stroma import Flusher, GroupKey, GroupStore
from barbicel.stroma import recovery as recovery_module
from barbicel.stroma.deadlines import Deadlines
from barbicel.stroma.names import MAX_NAME_BYTES
from barbicel.stroma.repair import rebuild_group, rebuilt_state
from tests.keratin.builders import ManualClock, wait_until
from tests.stroma.builders import (
    DELTA,
    HISTORY,
    KEY,
    LONG_KEY,
    NOW_MS,
    OTHER,
    ROOT,
    SNAP,
    Calls,
    after_power_cut,
    filled,
    flipped,
    open_store,
    plan_on,
    put_disk,
    view_on,
)
from tests.stroma.model import View, applied, view_of
from tests.support.fault_disk import Call, FaultDisk, Operation, PowerCut

LATER = NOW_MS + 1000
NAME = next(path for path in filled(HISTORY, key=LONG_KEY).files() if path.endswith(".name"))


def three_groups() -> FaultDisk:
    disk = FaultDisk()
    with open_store(disk) as store:
        for number, key in enumerate((KEY, OTHER, LONG_KEY)):
            store.record(key, [MarkInflight(0, LATER + number, 1)])
    return disk


class TestANameThatCannotBeRead:
    """Another group with a hash for a name is the first in the directory."""

    def disk(self) -> FaultDisk:
        disk = three_groups()
        other = GroupKey("topic", 3, "ö" * 120)
        with open_store(disk) as store:
            store.record(other, [Ack(0)])
        return disk

    def test_as_it_is_a_directory_hides_no_other_group(self) -> None:
        disk = three_groups()
        disk.unlink(NAME)
        disk.make_directory(NAME)
        store = open_store(disk)
        assert sorted(store.groups()) == [KEY, OTHER]
        assert sorted(store.recover_deadlines()) == [KEY, OTHER]
        assert store.next_deadline_ms() == LATER
        assert store.clamp("topic", 0, 100) == []

    def test_as_the_group_is_just_deleted_is_none(self) -> None:
        disk = three_groups()
        disk.fail("open", errno.ENOENT, path_contains=".name")
        assert sorted(open_store(disk).groups()) == [KEY, OTHER]

    def test_for_now_is_told_after_all_other_groups(self) -> None:
        disk = self.disk()
        disk.fail("open", errno.EMFILE, path_contains=".name")
        store = open_store(disk)
        steps = store.recover_deadlines()
        assert len({next(steps) for _ in range(3)}) == 3
        with pytest.raises(DiskError, match="too many open files"):
            next(steps)
        assert len(set(store.recover_deadlines())) == 4

    def test_for_now_is_no_reason_to_append_to_its_log(self) -> None:
        disk = three_groups()
        disk.fail("open", errno.EMFILE, path_contains=".name")
        with pytest.raises(DiskError):
            open_store(disk).clamp("topic", 3, 0)


def test_a_deadline_that_cannot_be_read_for_now_is_found_later() -> None:
    disk, clock = three_groups(), ManualClock(NOW_MS)
    store = open_store(disk, clock=clock)
    disk.fail("open", errno.EMFILE, path_contains="topic-0_group.delta")
    assert sorted(store.recover_deadlines()) == sorted([KEY, OTHER, LONG_KEY])
    assert [item.key for item in store.pop_expired(LATER + 5000)] == [KEY, OTHER, LONG_KEY]


class TestTooLarge:
    @pytest.mark.parametrize("path", [SNAP, DELTA])
    def test_a_file_is_not_read_before_it_is_refused(
        self, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        disk = filled(HISTORY, compact_after=0)
        monkeypatch.setattr(recovery_module, "MAX_FILE_BYTES", 10_000)
        disk.put(path, disk.files()[path] + bytes(10_000))
        calls = Calls(disk)
        with pytest.raises(CorruptGroup, match="bytes, less than 10000 are possible"):
            open_store(disk).state(KEY)
        assert path.rpartition("/")[2] not in calls.take("read")

    def test_a_name_is_refused_before_anything_is_written(self) -> None:
        disk = FaultDisk()
        store = open_store(disk)
        longest = GroupKey("t", 0, "g" * (MAX_NAME_BYTES - 4))
        store.record(longest, [Ack(0)])
        for group in (f"{longest.group}g", "ü" * MAX_NAME_BYTES, "\udcff"):
            with pytest.raises(ValueError, match="too long|surrogates"):
                store.record(GroupKey("t", 0, group), [Ack(0)])
        assert store.commit() == {}
        assert list(store.groups()) == [longest]

    def test_the_last_offset_survives_a_compaction(self) -> None:
        disk = FaultDisk()
        with open_store(disk) as store:
            with pytest.raises(ValueError, match="an offset is 0 to"):
                store.record(KEY, [Ack(MAX_OFFSET)])
            store.record(KEY, [Ack(MAX_OFFSET - 1), MarkInflight(MAX_OFFSET - 2, NOW_MS, 1)])
            store.compact(KEY)
        found = view_on(disk)
        assert found.acked == ((MAX_OFFSET - 1, MAX_OFFSET),)
        with open_store(disk) as store:
            store.record(KEY, [BumpAckedUntil(MAX_OFFSET)])
            store.compact(KEY)
        assert view_on(disk) == View(acked_until=MAX_OFFSET)


class TestAGenerationThatNobodyCountsUpTo:
    HEADER = encode_delta_header(DeltaHeader(NOW_MS, (1 << 64) - 1))

    def test_is_damage_that_a_repair_mends(self) -> None:
        disk = put_disk({DELTA: self.HEADER + encode_event(Ack(0))})
        with pytest.raises(CorruptGroup, match="generation"):
            open_store(disk).state(KEY)
        rebuild_group(disk, plan_on(disk), 0, NOW_MS)
        assert view_on(after_power_cut(disk)) == View(acked_until=1, is_committed=True)

    def test_in_a_snapshot_is_damage_that_a_repair_mends(self) -> None:
        disk = filled(HISTORY, compact_after=0)
        data = bytearray(disk.files()[SNAP])
        data[40:48] = b"\xff" * 8
        data[72:76] = crc32c(bytes(data[:72])).to_bytes(4, "big")
        disk.put(SNAP, bytes(data))
        with pytest.raises(CorruptGroup, match="generation"):
            open_store(disk).state(KEY)
        rebuild_group(disk, plan_on(disk), 0, NOW_MS)
        assert view_on(after_power_cut(disk)) == View(is_committed=True)


class TestARepair:
    def test_of_a_group_with_an_older_snapshot_does_not_believe_it(self) -> None:
        """A restored snapshot says 1000; a commit backwards and another snapshot had followed."""
        disk = filled((BumpAckedUntil(1000),), compact_after=0)
        older = disk.files()[SNAP]
        with open_store(disk) as store:
            store.record(KEY, [Commit(0, None, None)])
            store.compact(KEY)
            store.record(KEY, [Ack(0)])
        disk.put(SNAP, older)
        plan = plan_on(disk)
        assert plan.damage is not None
        assert plan.snapshot is None
        rebuild_group(disk, plan, 0, NOW_MS)
        assert view_on(after_power_cut(disk)) == View(acked_until=1, is_committed=True)

    @pytest.mark.parametrize("hurt", ["snapshot", "snapshot gone", "delta"])
    def test_leaves_a_position_that_counts_as_committed(self, hurt: str) -> None:
        """Without one a consumer may begin at the log's end: what lies before would be lost to it."""
        disk = filled((Commit(1000, 5, b"x"),), (Ack(1000),), compact_after=0)
        if hurt == "snapshot":
            disk.put(SNAP, flipped(disk.files()[SNAP], 80))
        elif hurt == "snapshot gone":
            disk.unlink(SNAP)
        else:
            disk.put(DELTA, b"")
        state = rebuilt_state(plan_on(disk), 7)
        assert (state.acked_until, state.is_committed) == (7, True)

    def test_of_a_group_that_was_reset_since_leaves_it_without(self) -> None:
        disk = filled((Commit(1000, 5, b"x"),), (Reset(), Ack(0)), compact_after=0)
        disk.unlink(SNAP)
        state = rebuilt_state(plan_on(disk), 7)
        assert (state.acked_until, state.is_committed) == (1, False)


class TestATornDeltaThatCannotBeCut:
    def disk(self) -> FaultDisk:
        disk = filled(HISTORY)
        disk.put(DELTA, disk.files()[DELTA] + b"KE torn")
        return disk

    @pytest.mark.parametrize(
        ("operation", "path", "copies"),
        [("write", ".torn", 0), ("fdatasync", ".torn", 0), ("rename", ".torn", 0), ("truncate", ".delta", 1)],
    )
    def test_leaves_one_copy_however_often_it_is_tried(
        self, operation: Operation, path: str, copies: int
    ) -> None:
        disk, clock = self.disk(), ManualClock(NOW_MS)
        store = open_store(disk, clock=clock)
        disk.fail(operation, errno.EIO, path_contains=path, times=5)
        for _ in range(5):
            with pytest.raises(DiskError):
                store.record(KEY, [])
            clock.now_ms += 2000
        kept = [name for name in disk.files() if ".torn-" in name]
        assert len(kept) == copies
        store.record(KEY, [Ack(20)])
        store.close()
        assert view_on(disk) == applied([*HISTORY, Ack(20)])
        assert [data for name, data in disk.files().items() if ".torn-" in name] == [b"KE torn"]


class TestTime:
    def test_a_clock_that_is_set_back_stops_no_eviction(self) -> None:
        clock = ManualClock(NOW_MS)
        store = open_store(FaultDisk(), clock=clock, idle_ms=1000)
        clock.now_ms += 10**9
        store.record(KEY, [Ack(0)])
        store.commit()
        clock.now_ms -= 10**9
        store.record(OTHER, [Ack(0)])
        store.commit()
        for _ in range(3):
            clock.now_ms += 600
            store.maintain()
        assert store.open_groups == 0

    def test_expiry_costs_what_it_finds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """However much else is due."""
        store = open_store(FaultDisk())
        store.record(KEY, [MarkInflight(offset, LATER, 1) for offset in range(4_000)])
        store.commit()
        popped, plain = 0, Deadlines.pop

        def pop(deadlines: Deadlines[int], now_ms: int) -> int | None:
            nonlocal popped
            popped += 1
            return plain(deadlines, now_ms)

        monkeypatch.setattr(Deadlines, "pop", pop)
        found = 0
        while batch := store.pop_expired(LATER, 100):
            found += len(batch)
            store.commit()
        assert found == 4_000
        assert popped <= 3 * 4_000


class TestADemandedSync:
    def test_reaches_what_a_killed_process_wrote(self) -> None:
        disk = filled((Ack(0),))
        killed = open_store(disk)
        killed.record(KEY, [Ack(1)])
        killed.commit()
        killed._lock.release()
        store = open_store(disk)
        store.sync([KEY])
        assert view_on(after_power_cut(disk)).acked_until == 2

    def test_of_a_new_group_reaches_what_a_killed_process_wrote(self) -> None:
        disk = FaultDisk()
        killed = open_store(disk)
        killed.record(KEY, [Ack(0)])
        killed.commit()
        killed._lock.release()
        store = open_store(disk)
        store.sync([KEY])
        assert view_on(after_power_cut(disk)).acked_until == 1

    def test_of_a_new_group_reaches_a_name_that_a_killed_process_gave_it(self) -> None:
        """Killed between the rename and the sync of the directory."""
        disk = FaultDisk()
        killed = open_store(disk)
        killed.record(KEY, [Ack(0)])

        def kill(call: Call) -> None:
            if call.operation == "fsync":
                raise PowerCut

        disk.observer = kill
        with pytest.raises(PowerCut):
            killed.sync([KEY])
        disk.observer = None
        killed._lock.release()
        assert DELTA in disk.files()
        assert view_on(after_power_cut(disk)).acked_until == 0
        open_store(disk).sync([KEY])
        assert view_on(after_power_cut(disk)).acked_until == 1


def test_no_error_ends_the_flusher(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultDisk()
    with GroupStore.open(ROOT, disk=disk) as store:
        calls = 0

        def run_long() -> None:
            nonlocal calls
            calls += 1
            if calls < 20:
                raise RuntimeError("nobody thought of this")

        monkeypatch.setattr(store._compactions, "run_long", run_long)
        with caplog.at_level(logging.ERROR), Flusher(store, 4, threads=2):
            wait_until(lambda: calls > 5, "the first errors")
            store.record(KEY, [Ack(0)])
            store.commit()
            wait_until(lambda: view_on(after_power_cut(disk)).acked_until == 1, "the sync beside them")
            wait_until(lambda: calls > 25, "their end")
        assert [record.message for record in caplog.records] == [
            "groups are not maintained as they should be: RuntimeError: nobody thought of this"
        ]


def test_a_flusher_ends_with_its_store() -> None:
    store = open_store(FaultDisk())
    with Flusher(store, 2, threads=1) as flusher:
        store.close()
        wait_until(lambda: not flusher._threads[0].is_alive(), "the thread's end")


def test_a_forked_child_cannot_write_over_its_parents_events(tmp_path: Path) -> None:
    path = f"{tmp_path}/groups"
    store = GroupStore.open(path, disk=RealDisk())
    store.record(KEY, [Ack(0)])
    store.commit()
    child = os.fork()
    if child == 0:
        try:
            store.record(KEY, [Ack(7)])
        except BaseException as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.record(KEY, [Ack(1)])
    store.close()
    with GroupStore.open(path) as store:
        assert view_of(store.state(KEY)) == View(acked_until=2)
