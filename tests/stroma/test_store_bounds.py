"""How few groups are open however many there are, what they are called, and how they go for good."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from barbicel.codecs.stroma_events import Ack, MarkInflight
from barbicel.disk import RealDisk
from barbicel.errors import DiskError
from barbicel.stroma import GroupKey, GroupStore, StoreSettings
from tests.keratin.builders import ManualClock
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
    OpenFiles,
    after_power_cut,
    check_goes_on,
    crash_states,
    filled,
    flipped,
    key_number,
    open_store,
    plan_on,
    view_on,
)
from tests.stroma.model import EMPTY, applied, view_of
from tests.support.fault_disk import Fate, FaultDisk

MANY = 2_000
FEW = 50


@pytest.fixture
def disk() -> FaultDisk:
    """Two groups with their files; the store that made them is closed."""
    disk = FaultDisk()
    with open_store(disk) as store:
        for key in (KEY, OTHER):
            store.record(key, [Ack(0)])
    return disk


class TestFewAreOpen:
    def test_of_two_thousand_groups_fifty(self) -> None:
        disk = FaultDisk()
        files = OpenFiles(disk)
        store = open_store(disk, max_open_groups=FEW)
        for number in range(MANY):
            store.record(key_number(number), [Ack(number), MarkInflight(number + 1, NOW_MS, 1)])
            store.commit()
            assert store.open_groups <= FEW
            assert files.count <= FEW
        for number in Random(1).sample(range(MANY), MANY // 4):
            state = store.state(key_number(number))
            assert view_of(state) == applied([Ack(number), MarkInflight(number + 1, NOW_MS, 1)])
            assert files.count <= FEW
        store.close()
        assert files.count == 0
        with open_store(after_power_cut(disk)) as store:
            assert set(store.groups()) == {key_number(number) for number in range(MANY)}

    def test_with_as_few_descriptors(self, tmp_path: Path) -> None:
        settings = StoreSettings(max_open_groups=5)

        def descriptors() -> int:
            """Of this store: other tests' threads have theirs in the same process."""
            found = 0
            for number in os.listdir("/proc/self/fd"):
                with suppress(FileNotFoundError):  # closed meanwhile
                    found += os.readlink(f"/proc/self/fd/{number}").startswith(str(tmp_path))
            return found

        with GroupStore.open(f"{tmp_path}/groups", disk=RealDisk(), settings=settings) as store:
            for number in range(40):
                store.record(key_number(number), [Ack(number)])
                store.commit()
                # The lock's is one more.
                assert 1 < descriptors() <= 5 + 1
            for number in range(40):
                assert store.state(key_number(number)).is_acked(number)
                assert descriptors() <= 5 + 1
        assert descriptors() == 0

    def test_the_least_recently_used_goes_first(self) -> None:
        disk = FaultDisk()
        store = open_store(disk, max_open_groups=3)
        for number in (0, 1, 2, 0, 3):
            store.record(key_number(number), [Ack(0)])
            store.commit()
        calls = Calls(disk)
        for number in (0, 2, 3):
            store.state(key_number(number))
        assert calls.take("open") == []
        store.state(key_number(1))
        assert len(calls.take("open", path_contains="group%201.delta")) >= 1

    def test_one_that_waits_for_its_write_does_not_keep_the_others_open(self) -> None:
        store = open_store(FaultDisk(), max_open_groups=3)
        store.record(KEY, [Ack(0)])
        for number in range(20):
            store.state(key_number(number))
            assert store.open_groups <= 4
        store.commit()
        assert store.state(KEY).acked_until == 1

    def test_a_turn_of_many_groups_ends_with_few(self) -> None:
        store = open_store(FaultDisk(), max_open_groups=3)
        for number in range(20):
            store.record(key_number(number), [Ack(number)])
        assert store.commit() == {}
        store.maintain()
        assert store.open_groups <= 3
        assert all(store.state(key_number(number)).is_acked(number) for number in range(20))

    def test_the_idle_go_back_to_their_files(self, disk: FaultDisk) -> None:
        clock = ManualClock(NOW_MS)
        files = OpenFiles(disk)
        store = open_store(disk, clock=clock, idle_ms=1000)
        store.record(KEY, [Ack(1)])
        store.commit()
        clock.now_ms += 600
        store.record(OTHER, [Ack(1)])
        clock.now_ms += 500
        store.maintain()
        assert (store.open_groups, files.count) == (1, 1)
        assert view_on(after_power_cut(disk)).acked_until == 2
        clock.now_ms += 600
        store.maintain()
        assert store.open_groups == 1  # what it recorded is not written yet
        store.commit()
        store.maintain()
        assert (store.open_groups, files.count) == (0, 0)
        assert store.state(KEY).acked_until == store.state(OTHER).acked_until == 2


class TestNames:
    def test_every_group_is_listed_by_its_name(self) -> None:
        keys = {
            KEY,
            LONG_KEY,
            GroupKey("topic", 2_147_483_647, "a/b\\c d%20_e"),
            GroupKey("under_score-7", 1, "_"),
            GroupKey("topic", 0, "g" * 5_000),
            GroupKey("topic", 0, "g" * 5_001),
            GroupKey("ä" * 300, 5, ""),
        }
        disk = FaultDisk()
        store = open_store(disk)
        for key in keys:
            store.record(key, [Ack(0)])
            store.commit()
            store.compact(key)
        listed = list(store.groups())
        assert sorted(listed) == sorted(keys)
        assert all(view_on(disk, key).acked_until == 1 for key in keys)

    def test_what_is_no_groups_is_passed_over(self, disk: FaultDisk) -> None:
        for name in (
            "notes.txt",
            "x.delta",
            "topic-0_group.delta.torn-5",
            "h-" + "0" * 32 + ".snap",
            ".snap",
        ):
            disk.put(f"{ROOT}/{name}", b"")
        disk.make_directory(f"{ROOT}/topic-1_group.delta")
        assert sorted(open_store(disk).groups()) == [KEY, OTHER]


class TestDelete:
    @pytest.mark.parametrize("key", [KEY, LONG_KEY], ids=["plain name", "hashed name"])
    def test_is_durable_and_the_next_one_starts_empty(self, key: GroupKey) -> None:
        disk = filled(HISTORY[:5], HISTORY[5:], compact_after=0, key=key)
        store = open_store(disk)
        store.record(key, [Ack(20)])
        store.delete(key)
        assert not store.exists(key)
        assert list(store.groups()) == []
        assert set(after_power_cut(disk).files()) <= {f"{ROOT}/LOCK"}
        assert store.commit() == {}
        assert view_of(store.state(key)) == EMPTY
        store.record(key, [Ack(1)])
        store.sync([key])
        assert view_on(after_power_cut(disk), key) == applied([Ack(1)])

    @pytest.mark.parametrize("key", [KEY, LONG_KEY], ids=["plain name", "hashed name"])
    @pytest.mark.parametrize("compact_after", [None, 0, 1], ids=["delta", "both", "snapshot"])
    def test_interrupted_it_leaves_the_group_or_an_empty_one_or_none(
        self, key: GroupKey, compact_after: int | None
    ) -> None:
        """Never the snapshot without what followed: that would be an older state."""
        disk = filled(HISTORY[:5], HISTORY[5:], compact_after=compact_after, key=key)
        store = open_store(disk)
        for _, left in crash_states(disk, lambda: store.delete(key)):
            found = view_on(left, key)
            assert found in (applied(HISTORY), EMPTY)
            with open_store(left) as again:
                assert set(again.groups()) <= {key}
            check_goes_on(left, key, found)
            with open_store(left.crash(Fate.KEEP, Random(0))) as again:
                again.delete(key)
                assert list(again.groups()) == []

    @pytest.mark.parametrize("hurt", [SNAP, DELTA])
    @pytest.mark.parametrize("position", [0, 20, 100], ids=["magic", "header", "content"])
    def test_of_a_damaged_group_brings_back_nothing(self, hurt: str, position: int) -> None:
        disk = filled(HISTORY[:5], HISTORY[5:], compact_after=0)
        disk.put(hurt, flipped(disk.files()[hurt], position))
        before = plan_on(disk)
        store = open_store(disk)
        for _, left in crash_states(disk, lambda: store.delete(KEY)):
            plan = plan_on(left)
            assert plan.damage is not None or view_of(plan.state()) in (view_of(before.state()), EMPTY)
        assert list(store.groups()) == []

    def test_of_many_is_as_safe_and_shares_the_syncs(self) -> None:
        disk = filled(HISTORY[:5], HISTORY[5:], compact_after=0)
        with open_store(disk) as store:
            for number in range(5):
                store.record(key_number(number), [Ack(0)])
        store = open_store(disk)
        keys = [KEY, *map(key_number, range(5))]
        calls = Calls(disk)
        assert store.delete_all(keys) == {}
        syncs = [name for name in calls.take("fsync") if name == ROOT.rpartition("/")[2]]
        assert list(store.groups()) == []
        assert set(after_power_cut(disk).files()) <= {f"{ROOT}/LOCK"}
        assert len(syncs) == 5  # one of them for the delta that says Reset

    def test_of_many_is_interrupted_as_each_alone_would_be(self) -> None:
        disk = filled(HISTORY[:5], HISTORY[5:], compact_after=0)
        with open_store(disk) as store:
            store.record(OTHER, [Ack(0)])
        store = open_store(disk)
        for _, left in crash_states(disk, lambda: store.delete_all([KEY, OTHER])):
            assert view_on(left, KEY) in (applied(HISTORY), EMPTY)
            assert view_on(left, OTHER) in (applied([Ack(0)]), EMPTY)

    def test_of_many_tells_which_are_left(self) -> None:
        disk = filled(HISTORY[:5], HISTORY[5:], compact_after=0)
        with open_store(disk) as store:
            store.record(OTHER, [Ack(0)])
        store = open_store(disk)
        disk.fail("unlink", errno.EIO, path_contains="_other")
        (failed,) = store.delete_all([KEY, OTHER]).items()
        assert failed[0] == OTHER
        assert isinstance(failed[1], DiskError)
        assert list(store.groups()) == [OTHER]
        assert store.delete_all([OTHER]) == {}

    def test_of_many_fails_for_all_without_its_sync(self) -> None:
        disk = filled(HISTORY)
        store = open_store(disk)
        disk.fail("fsync", errno.EIO)
        assert set(store.delete_all([KEY, OTHER])) == {KEY, OTHER}

    def test_that_fails_forgets_no_deadline(self) -> None:
        disk = filled(HISTORY)
        store = open_store(disk)
        list(store.recover_deadlines())
        disk.fail("unlink", errno.EIO)
        with pytest.raises(DiskError):
            store.delete(KEY)
        assert store.next_deadline_ms() == NOW_MS + 90

    def test_of_what_does_not_exist_changes_nothing(self, disk: FaultDisk) -> None:
        before = disk.files()
        with open_store(disk) as store:
            store.delete(LONG_KEY)
        assert disk.files().keys() == before.keys()
