"""The first events of a group: answered without a sync, durable with the next one, no damage in between."""

from __future__ import annotations

import errno
from random import Random

import pytest

from barbicel.codecs.stroma_events import DELTA_HEADER_BYTES, Ack, Event
from barbicel.stroma import GroupKey, SyncPolicy
from barbicel.stroma.directory import list_groups_of
from barbicel.stroma.layout import StoreLayout
from tests.keratin.builders import ManualClock
from tests.stroma.builders import (
    DELTA,
    HISTORY,
    KEY,
    LONG_KEY,
    NOW_MS,
    ROOT,
    Calls,
    after_power_cut,
    check_goes_on,
    crash_states,
    filled,
    key_number,
    open_store,
    plan_on,
    view_on,
)
from tests.stroma.model import EMPTY, applied, view_of
from tests.support.fault_disk import Fate, FaultDisk

BEGUN = f"{DELTA}.begun"
FEW = 40


def begun(events: tuple[Event, ...] = HISTORY, key: GroupKey = KEY) -> FaultDisk:
    """A group whose first turn was answered, and whose process was killed then."""
    disk = FaultDisk()
    store = open_store(disk)
    store.record(key, events)
    assert store.commit() == {}
    return disk.crash(Fate.KEEP, Random(0))


class TestTheFirstTurn:
    def test_syncs_nothing(self) -> None:
        disk = FaultDisk()
        store = open_store(disk)
        calls = Calls(disk)
        store.record(KEY, HISTORY)
        store.commit()
        assert calls.take() == ["create topic-0_group.delta.begun", "write topic-0_group.delta.begun"]
        assert view_on(disk.crash(Fate.KEEP, Random(0))) == applied(HISTORY)

    @pytest.mark.parametrize("key", [KEY, LONG_KEY], ids=["plain name", "hashed name"])
    def test_is_durable_with_the_next_sync(self, key: GroupKey) -> None:
        disk, clock = FaultDisk(), ManualClock(NOW_MS)
        store = open_store(disk, clock=clock)
        store.record(key, HISTORY)
        store.commit()
        assert view_on(after_power_cut(disk), key) == EMPTY
        clock.now_ms += 100
        store.maintain()
        assert view_on(after_power_cut(disk), key) == applied(HISTORY)
        assert not [path for path in disk.files() if path.endswith(".begun")]
        assert store.sync_lag_ms == 0

    @pytest.mark.parametrize("policy", SyncPolicy)
    def test_is_durable_at_once_if_that_is_demanded(self, policy: SyncPolicy) -> None:
        disk = FaultDisk()
        store = open_store(disk, sync_policy=policy)
        store.record(KEY, HISTORY)
        store.commit() if policy is SyncPolicy.ALWAYS else store.sync([KEY])
        assert view_on(after_power_cut(disk)) == applied(HISTORY)

    def test_of_many_groups_shares_one_sync_of_the_directory(self) -> None:
        disk, clock = FaultDisk(), ManualClock(NOW_MS)
        store = open_store(disk, clock=clock)
        for number in range(FEW):
            store.record(key_number(number), [Ack(0)])
        store.commit()
        clock.now_ms += 100
        calls = Calls(disk)
        store.maintain()
        assert calls.take("fsync") == ["groups"]
        found = after_power_cut(disk)
        assert all(view_on(found, key_number(number)).acked_until == 1 for number in range(FEW))

    def test_of_more_groups_than_may_be_open_shares_syncs_too(self) -> None:
        disk = FaultDisk()
        store = open_store(disk, max_open_groups=FEW * 16)
        calls = Calls(disk)
        for number in range(FEW * 20):
            store.record(key_number(number), [Ack(0)])
            store.commit()
        assert store.open_groups <= FEW * 16
        assert len(calls.take("fsync")) <= 4
        store.close()
        found = after_power_cut(disk)
        assert all(view_on(found, key_number(number)).acked_until == 1 for number in range(FEW * 20))

    def test_whose_name_cannot_be_synced_is_told_until_it_is(self) -> None:
        disk, clock = FaultDisk(), ManualClock(NOW_MS)
        store = open_store(disk, clock=clock)
        store.record(KEY, HISTORY)
        store.commit()
        clock.now_ms += 100
        disk.fail("fsync", errno.EIO)
        disk.fail("open", errno.EIO, path_contains=".snap.new")
        store.maintain()
        assert list(store.failures) == [KEY]
        assert store.sync_lag_ms == 100
        clock.now_ms += 1000
        store.maintain()
        assert (store.failures, store.sync_lag_ms) == ({}, 0)
        assert view_on(after_power_cut(disk)) == applied(HISTORY)


class TestAfterACrash:
    @pytest.mark.parametrize("key", [KEY, LONG_KEY], ids=["plain name", "hashed name"])
    def test_anywhere_it_is_there_or_it_is_not(self, key: GroupKey) -> None:
        disk = FaultDisk()
        store = open_store(disk)

        def turns() -> None:
            store.record(key, HISTORY[:4])
            store.commit()
            store.record(key, HISTORY[4:])
            store.sync([key])

        possible = {applied(HISTORY[:count]) for count in range(len(HISTORY) + 1)}
        for _, left in crash_states(disk, turns):
            assert plan_on(left, key).damage is None
            found = view_on(left, key)
            assert found in possible
            check_goes_on(left, key, found)

    @pytest.mark.parametrize("key", [KEY, LONG_KEY], ids=["plain name", "hashed name"])
    def test_a_killed_process_s_group_is_found_and_goes_on(self, key: GroupKey) -> None:
        disk = begun(key=key)
        assert list(list_groups_of(disk, StoreLayout(ROOT), key.topic, key.partition)) == [key]
        with open_store(disk) as store:
            assert list(store.groups()) == [key]
            assert store.exists(key)
            list(store.recover_deadlines())
            assert store.next_deadline_ms() == NOW_MS + 90
        check_goes_on(begun(key=key), key, applied(HISTORY))

    @pytest.mark.parametrize("size", [0, 1, DELTA_HEADER_BYTES - 1])
    def test_one_without_its_header_is_none_and_its_bytes_are_kept(self, size: int) -> None:
        disk = begun()
        disk.put(BEGUN, disk.files()[BEGUN][:size])
        plan = plan_on(disk)
        assert (plan.exists, plan.damage) == (False, None)
        with open_store(disk) as store:
            assert view_of(store.state(KEY)) == EMPTY
            store.record(KEY, [Ack(0)])
        assert disk.files()[f"{DELTA}.torn-{NOW_MS}"] == begun().files()[BEGUN][:size]
        assert view_on(after_power_cut(disk)).acked_until == 1

    def test_one_with_zeros_for_a_header_is_none(self) -> None:
        disk = begun()
        disk.put(BEGUN, bytes(DELTA_HEADER_BYTES) + disk.files()[BEGUN][DELTA_HEADER_BYTES:])
        torn = plan_on(disk).torn
        assert torn is not None
        assert (torn.position, torn.whole_events) == (0, len(HISTORY))
        assert view_of(open_store(disk).state(KEY)) == EMPTY

    def test_once_it_was_synced_a_lost_header_is_damage(self) -> None:
        """Then the name says that it was whole."""
        disk = filled(HISTORY)
        assert BEGUN not in disk.files()
        disk.put(DELTA, b"")
        assert plan_on(disk).damage is not None

    def test_a_torn_end_is_cut(self) -> None:
        disk = begun()
        disk.put(BEGUN, disk.files()[BEGUN] + b"KE torn")
        with open_store(disk) as store:
            assert view_of(store.state(KEY)) == applied(HISTORY)
        assert disk.files()[f"{DELTA}.torn-{NOW_MS}"] == b"KE torn"
        assert view_on(after_power_cut(disk)) == applied(HISTORY)

    def test_a_left_over_one_counts_no_more_and_goes(self) -> None:
        disk = filled(HISTORY)
        disk.put(BEGUN, begun((Ack(20),)).files()[BEGUN])
        assert view_on(disk) == applied(HISTORY)
        with open_store(disk) as store:
            store.state(KEY)
            assert BEGUN not in disk.files()

    @pytest.mark.parametrize("compacted", [False, True])
    def test_a_deletion_of_it_brings_back_nothing(self, compacted: bool) -> None:
        disk = begun()
        if compacted:
            disk = filled(HISTORY, compact_after=0)
            disk.put(BEGUN, begun((Ack(20),)).files()[BEGUN])
        store = open_store(disk)
        for _, left in crash_states(disk, lambda: store.delete(KEY)):
            assert view_on(left) in (applied(HISTORY), EMPTY)
        assert list(store.groups()) == []
