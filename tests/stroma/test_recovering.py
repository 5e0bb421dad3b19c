"""After a failure in the background: it is told for as long as it lasts, and maintenance alone ends it."""

from __future__ import annotations

import errno

import pytest

from barbicel.codecs.stroma_events import Ack
from barbicel.errors import BarbicelError, DiskError
from barbicel.stroma import GroupStore
from barbicel.stroma.failures import RETRY_MS
from barbicel.stroma.layout import StoreLayout
from barbicel.stroma.names import render_full_name
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
    crash_states,
    filled,
    open_store,
    view_on,
)
from tests.support.fault_disk import FaultDisk

DELTA_NAME = "topic-0_group.delta"


class Bench:
    """A group with a written event whose background sync is due, and will fail."""

    def __init__(self) -> None:
        self.disk = FaultDisk()
        self.clock = ManualClock(NOW_MS)
        self.store = open_store(self.disk, clock=self.clock)
        self.store.record(KEY, [Ack(0)])
        self.store.commit()
        self.clock.now_ms += 100
        self.disk.fail("fdatasync", errno.EIO, path_contains=DELTA_NAME)

    def break_the_disk(self) -> None:
        self.disk.fail("open", errno.EIO, path_contains=".snap.new", times=1 << 30)

    def maintain_after(self, elapsed_ms: int) -> None:
        self.clock.now_ms += elapsed_ms
        self.store.maintain()


class TestAFailedBackgroundSync:
    def test_is_made_good_by_maintenance_alone(self) -> None:
        bench = Bench()
        bench.store.maintain()
        assert view_on(after_power_cut(bench.disk)).acked_until == 1
        assert bench.store.failures == {}
        assert bench.store.sync_lag_ms == 0

    def test_is_told_for_as_long_as_it_lasts(self) -> None:
        bench = Bench()
        bench.break_the_disk()
        bench.store.maintain()
        assert view_on(after_power_cut(bench.disk)).acked_until == 0
        for elapsed_ms in (0, 700, 700):
            bench.maintain_after(elapsed_ms)
            assert bench.store.sync_lag_ms == bench.clock.now_ms - NOW_MS
            assert list(bench.store.failures) == [KEY]
            assert isinstance(bench.store.failures[KEY], DiskError)

    def test_is_tried_again_now_and_then_and_ends_with_its_cause(self) -> None:
        bench = Bench()
        bench.disk.fail("open", errno.EIO, path_contains=".snap.new", times=2)
        calls = Calls(bench.disk)
        bench.store.maintain()
        bench.maintain_after(RETRY_MS - 1)
        assert calls.take("create", path_contains=".snap.new") == ["topic-0_group.snap.new"]
        bench.maintain_after(1)
        assert list(bench.store.failures) == [KEY]
        bench.maintain_after(RETRY_MS)
        assert bench.store.failures == {}
        assert bench.store.sync_lag_ms == 0
        assert view_on(after_power_cut(bench.disk)).acked_until == 1

    def test_is_not_tried_again_on_that_file(self) -> None:
        bench = Bench()
        calls = Calls(bench.disk)
        bench.store.maintain()
        made = [call for call in calls.take() if DELTA_NAME in call]
        assert made == [
            f"fdatasync {DELTA_NAME}.begun",
            f"create {DELTA_NAME}.new",
            f"write {DELTA_NAME}.new",
            f"fdatasync {DELTA_NAME}.new",
            f"rename {DELTA_NAME}.new",
            f"unlink {DELTA_NAME}.begun",
        ]

    def test_holds_up_no_other_group(self) -> None:
        bench = Bench()
        bench.break_the_disk()
        bench.store.maintain()
        bench.store.record(OTHER, [Ack(0)])
        bench.store.commit()
        bench.maintain_after(100)
        assert view_on(after_power_cut(bench.disk), OTHER).acked_until == 1

    def test_is_over_when_the_group_is_deleted(self) -> None:
        bench = Bench()
        bench.break_the_disk()
        bench.store.maintain()
        bench.store.delete(KEY)
        assert (bench.store.failures, bench.store.sync_lag_ms) == ({}, 0)

    def test_is_made_good_by_a_close(self) -> None:
        bench = Bench()
        bench.disk.fail("open", errno.EIO, path_contains=".snap.new")
        bench.store.maintain()
        bench.store.close()
        assert view_on(after_power_cut(bench.disk)).acked_until == 1

    def test_is_raised_by_a_close_that_cannot_make_it_good(self) -> None:
        bench = Bench()
        bench.break_the_disk()
        bench.store.maintain()
        with pytest.raises(BarbicelError, match=r"snap\.new"):
            bench.store.close()


def test_a_failed_write_leaves_nothing_in_doubt() -> None:
    """Who recorded is told; there is no written event that waits for anything."""
    disk, clock = filled((Ack(0),), compact_after=0), ManualClock(NOW_MS)
    store = open_store(disk, clock=clock)
    store.record(KEY, [Ack(1)])
    disk.fail("write", errno.EIO, path_contains=DELTA_NAME)
    assert list(store.commit()) == [KEY]
    assert list(store.failures) == [KEY]
    clock.now_ms += 500
    assert store.sync_lag_ms == 0
    store.maintain()
    assert store.failures == {}


def test_a_torn_delta_whose_cut_fails_leaves_no_file_open_and_is_cut_again() -> None:
    disk = filled((Ack(0),))
    path = f"{ROOT}/{DELTA_NAME}"
    disk.put(path, disk.files()[path] + b"KE torn")
    files = OpenFiles(disk)
    store = open_store(disk)
    disk.fail("fdatasync", errno.EIO, path_contains=DELTA_NAME, after=1)  # the first is the evidence's
    assert store.state(KEY).acked_until == 1  # as its files say
    assert files.count == 0
    assert list(store.failures) == [KEY]
    store.maintain()
    assert store.failures == {}
    assert view_on(after_power_cut(disk)).acked_until == 1


# --- the names of groups whose files have hashes for names ----------------------------------------


class TestADamagedName:
    NAME = StoreLayout(ROOT).files(LONG_KEY).name
    RIGHT = render_full_name(LONG_KEY).encode()

    @pytest.mark.parametrize("wrong", [b"", b"x", RIGHT[:-1], RIGHT + b"x", b"\xff" * 300], ids=repr)
    @pytest.mark.parametrize("compact_after", [None, 0], ids=["delta", "snapshot"])
    def test_is_mended_by_who_knows_the_group(self, wrong: bytes, compact_after: int | None) -> None:
        disk = filled((Ack(0),), compact_after=compact_after, key=LONG_KEY)
        disk.put(self.NAME, wrong)
        with open_store(disk) as store:
            assert list(store.groups()) == []
            assert store.state(LONG_KEY).acked_until == 1
            assert list(store.groups()) == [LONG_KEY]
        left = after_power_cut(disk).files()
        assert left[self.NAME] == self.RIGHT
        assert [data for path, data in left.items() if ".name.corrupt-" in path] == [wrong]

    def test_that_is_missing_is_written(self) -> None:
        disk = filled((Ack(0),), key=LONG_KEY)
        disk.unlink(self.NAME)
        with open_store(disk) as store:
            store.state(LONG_KEY)
        assert after_power_cut(disk).files()[self.NAME] == self.RIGHT

    def test_that_is_right_is_left_alone(self) -> None:
        disk = filled((Ack(0),), key=LONG_KEY)
        calls = Calls(disk)
        with open_store(disk) as store:
            store.state(LONG_KEY)
        assert calls.take("create", "rename", path_contains=".name") == []

    def test_can_be_mended_after_a_crash_anywhere(self) -> None:
        disk = filled((Ack(0),), key=LONG_KEY)
        disk.put(self.NAME, b"wrong")
        store = open_store(disk)
        for _, left in crash_states(disk, lambda: store.state(LONG_KEY)):
            with open_store(left) as again:
                check_found(again)


def check_found(store: GroupStore) -> None:
    assert store.state(LONG_KEY).acked_until == 1
    assert list(store.groups()) == [LONG_KEY]
