"""All groups of a directory: a turn's one write, when it is durable, how few are open, how they go."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest

from barbicel.codecs.stroma_events import Ack, BumpAckedUntil, Commit, Event, MarkInflight
from barbicel.errors import LogClosed, LogLocked
from barbicel.stroma import GroupFileSizes, GroupKey, GroupStore, SyncPolicy
from tests.keratin.builders import ManualClock
from tests.stroma.builders import (
    KEY,
    NOW_MS,
    OTHER,
    ROOT,
    Calls,
    SettingsChanges,
    after_power_cut,
    open_store,
    view_on,
)
from tests.stroma.model import EMPTY, View, view_of
from tests.support.fault_disk import Fate, FaultDisk

DELTAS = ["topic-0_group.delta", "topic-0_other.delta"]


@pytest.fixture
def disk() -> FaultDisk:
    """Two groups with their files; the store that made them is closed."""
    disk = FaultDisk()
    with open_store(disk) as store:
        for key in (KEY, OTHER):
            store.record(key, [Ack(0)])
    return disk


class TestATurn:
    def test_is_one_write_a_group_however_many_events(self, disk: FaultDisk) -> None:
        store = open_store(disk)
        calls = Calls(disk)
        for offset in range(1, 101):
            store.record(KEY, [MarkInflight(offset, NOW_MS, 1), Ack(offset)])
            store.record(OTHER, [Ack(offset)])
        assert calls.take() == []
        assert store.commit() == {}
        assert calls.take() == [f"write {name}" for name in DELTAS]
        assert store.commit() == {}
        assert calls.take() == []
        for key in (KEY, OTHER):
            assert view_on(disk, key) == View(acked_until=101)

    def test_is_seen_at_once_and_on_the_disk_when_it_ends(self, disk: FaultDisk) -> None:
        store = open_store(disk)
        assert store.record(KEY, [Ack(1)]).acked_until == store.state(KEY).acked_until == 2
        assert view_on(disk.crash(Fate.KEEP, Random(0))).acked_until == 1
        store.commit()
        assert view_on(disk.crash(Fate.KEEP, Random(0))).acked_until == 2

    def test_the_first_of_a_group_makes_its_files_durably(self) -> None:
        disk = FaultDisk()
        store = open_store(disk, sync_policy=SyncPolicy.ALWAYS)
        assert not store.exists(KEY)
        store.record(KEY, [Ack(0)])
        assert store.exists(KEY)
        assert list(store.groups()) == []
        store.commit()
        assert list(open_store(after_power_cut(disk)).groups()) == [KEY]
        assert view_on(after_power_cut(disk)).acked_until == 1

    def test_looking_makes_no_files(self) -> None:
        disk = FaultDisk()
        store = open_store(disk)
        calls = Calls(disk)
        assert view_of(store.state(KEY)) == EMPTY
        store.record(KEY, [])
        store.commit()
        store.close()
        assert calls.take() == []

    @pytest.mark.parametrize(
        "refused",
        [Commit(1, None, b"x" * 65_535), Ack((1 << 64) - 1), Ack(1 << 64), Ack(-1)],
        ids=["metadata", "last offset", "too large", "negative"],
    )
    def test_an_event_that_cannot_be_written_changes_nothing_for_the_others(
        self, disk: FaultDisk, refused: Event
    ) -> None:
        store = open_store(disk)
        store.record(OTHER, [Ack(1)])
        with pytest.raises(ValueError, match="allowed|offset"):
            store.record(KEY, [Ack(1), refused, Ack(2)])
        assert store.commit() == {}
        assert view_on(disk) == view_of(store.state(KEY))
        assert view_on(disk, OTHER).acked_until == 2
        store.record(KEY, [BumpAckedUntil(9)])
        store.commit()
        assert view_on(disk).acked_until == 9


class TestWhenItIsDurable:
    """The order of calls, with the answer among them."""

    def turn(self, store: GroupStore, calls: Calls) -> list[str]:
        calls.take()
        store.record(KEY, [Ack(1)])
        assert store.commit() == {}
        return [*calls.take(), "answer"]

    def test_always_is_before_the_answer(self, disk: FaultDisk) -> None:
        store = open_store(disk, sync_policy=SyncPolicy.ALWAYS)
        store.state(KEY)
        made = self.turn(store, Calls(disk))
        assert made == [f"write {DELTAS[0]}", f"fdatasync {DELTAS[0]}", "answer"]
        assert view_on(after_power_cut(disk)).acked_until == 2

    def test_interval_is_within_the_interval(self, disk: FaultDisk) -> None:
        clock = ManualClock(NOW_MS)
        store = open_store(disk, clock=clock, sync_interval_ms=100)
        store.state(KEY)
        store.sync([KEY])
        calls = Calls(disk)
        assert self.turn(store, calls) == [f"write {DELTAS[0]}", "answer"]
        store.maintain()
        assert calls.take() == []
        clock.now_ms += 100
        store.maintain()
        store.maintain()
        assert calls.take() == [f"fdatasync {DELTAS[0]}"]
        assert view_on(after_power_cut(disk)).acked_until == 2

    def test_never_is_when_somebody_demands_it(self, disk: FaultDisk) -> None:
        clock = ManualClock(NOW_MS)
        store = open_store(disk, clock=clock, sync_policy=SyncPolicy.NEVER)
        store.state(KEY)
        calls = Calls(disk)
        assert self.turn(store, calls) == [f"write {DELTAS[0]}", "answer"]
        clock.now_ms += 10_000
        store.maintain()
        assert calls.take() == []
        store.sync([KEY])
        assert calls.take() == [f"fdatasync {DELTAS[0]}"]

    @pytest.mark.parametrize("policy", SyncPolicy)
    def test_a_demanded_sync_writes_what_is_recorded_and_syncs_whom_it_names(
        self, disk: FaultDisk, policy: SyncPolicy
    ) -> None:
        store = open_store(disk, sync_policy=policy)
        store.record(KEY, [Ack(1)])
        store.record(OTHER, [Ack(1)])
        calls = Calls(disk)
        store.sync([KEY, GroupKey("topic", 9, "nobody")])
        assert f"fdatasync {DELTAS[0]}" in calls.take()
        assert view_on(after_power_cut(disk)).acked_until == 2
        assert view_on(disk, OTHER).acked_until == 2
        assert view_on(after_power_cut(disk), OTHER).acked_until == (2 if policy is SyncPolicy.ALWAYS else 1)
        assert not store.exists(GroupKey("topic", 9, "nobody"))

    @pytest.mark.parametrize("policy", SyncPolicy)
    def test_a_demanded_sync_reaches_a_group_that_was_evicted(
        self, disk: FaultDisk, policy: SyncPolicy
    ) -> None:
        store = open_store(disk, sync_policy=policy, max_open_groups=1)
        store.record(KEY, [Ack(1)])
        store.commit()
        store.state(OTHER)
        store.sync([KEY])
        assert view_on(after_power_cut(disk)).acked_until == 2

    def test_what_a_killed_process_wrote_is_synced_by_the_next(self, disk: FaultDisk) -> None:
        """The kernel still has it, the disk has not: a power cut may come after the restart."""
        killed = open_store(disk)
        killed.record(KEY, [Ack(1)])
        killed.record(OTHER, [Ack(1)])
        killed.commit()
        killed._lock.release()
        clock = ManualClock(NOW_MS)
        store = open_store(disk, clock=clock)
        assert store.state(KEY).acked_until == store.state(OTHER).acked_until == 2
        store.sync([KEY])
        assert view_on(after_power_cut(disk)).acked_until == 2
        clock.now_ms += 100
        store.maintain()
        assert view_on(after_power_cut(disk), OTHER).acked_until == 2

    def test_the_lag_is_that_of_the_longest_waiting(self, disk: FaultDisk) -> None:
        clock = ManualClock(NOW_MS)
        store = open_store(disk, clock=clock, sync_interval_ms=100)
        store.sync([KEY, OTHER])
        assert store.sync_lag_ms == 0
        store.record(KEY, [Ack(1)])
        store.commit()
        clock.now_ms += 30
        for key in (KEY, OTHER):
            store.record(key, [Ack(2)])
            store.commit()
        clock.now_ms += 40
        assert store.sync_lag_ms == 70
        store.maintain()
        # Only the one that was due: the syncs of many groups are spread.
        assert store.sync_lag_ms == 40
        store.sync([OTHER])
        assert store.sync_lag_ms == 0

    def test_a_clock_that_is_set_back_makes_no_event_wait(self, disk: FaultDisk) -> None:
        clock = ManualClock(NOW_MS)
        store = open_store(disk, clock=clock, sync_interval_ms=100)
        store.record(KEY, [Ack(1)])
        store.commit()
        clock.now_ms -= 3_600_000
        for _ in range(3):
            clock.now_ms += 100
            store.maintain()
        assert view_on(after_power_cut(disk)).acked_until == 2

    def test_a_closed_store_has_synced_everything(self, disk: FaultDisk) -> None:
        store = open_store(disk, sync_policy=SyncPolicy.NEVER)
        store.record(KEY, [Ack(1)])
        store.commit()
        store.record(OTHER, [Ack(1)])
        store.close()
        for key in (KEY, OTHER):
            assert view_on(after_power_cut(disk), key).acked_until == 2

    @pytest.mark.parametrize(
        ("compact_bytes", "compact_ratio", "largest"),
        [(400, 100, 400), (1 << 20, 3, 500), (1 << 20, 100, 4000)],
        ids=["by size", "by ratio", "not yet"],
    )
    def test_a_delta_is_compacted_when_it_has_grown(
        self, disk: FaultDisk, compact_bytes: int, compact_ratio: int, largest: int
    ) -> None:
        store = open_store(
            disk, compact_bytes=compact_bytes, compact_min_bytes=500, compact_ratio=compact_ratio
        )
        store.compact(KEY)
        sizes = []
        for offset in range(1, 151):
            store.record(KEY, [Ack(offset)])
            store.commit()
            store.maintain()
            sizes.append(len(disk.files()[f"{ROOT}/{DELTAS[0]}"]))
        assert largest - 24 < max(sizes) <= largest or max(sizes) == sizes[-1] < largest
        assert view_on(disk) == View(acked_until=151)


USES: list[Callable[[GroupStore], object]] = [
    lambda store: store.state(KEY),
    lambda store: store.available(KEY, 0, 1, 1),
    lambda store: store.lag(KEY, 1),
    lambda store: store.exists(KEY),
    lambda store: store.groups(),
    lambda store: store.delete(KEY),
    lambda store: store.clamp("topic", 0, 1),
    lambda store: store.record(KEY, [Ack(1)]),
    lambda store: store.commit(),
    lambda store: store.sync([KEY]),
    lambda store: store.pop_expired(NOW_MS),
    lambda store: list(store.recover_deadlines()),
    lambda store: store.maintain(),
    lambda store: store.compact(KEY),
]


class TestOneOwner:
    def test_a_forked_child_is_refused_and_changes_nothing(
        self, disk: FaultDisk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = open_store(disk)
        store.record(KEY, [Ack(1)])
        parent = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: parent + 1)
        calls = Calls(disk)
        for use in USES:
            with pytest.raises(LogClosed, match=f"opened by process {parent}, which forked this one"):
                use(store)
        store.close()
        assert calls.take() == []
        monkeypatch.undo()
        with pytest.raises(LogLocked):
            open_store(disk)
        store.close()
        assert view_on(after_power_cut(disk)).acked_until == 2

    def test_a_second_opener_is_refused(self, disk: FaultDisk) -> None:
        store = open_store(disk)
        with pytest.raises(LogLocked, match="already open by process .* a directory of groups"):
            open_store(disk)
        store.close()
        open_store(disk).close()

    def test_a_closed_store_writes_nothing_beside_the_next_owner(self, disk: FaultDisk) -> None:
        closed = open_store(disk)
        closed.close()
        closed.close()
        with open_store(disk):
            calls = Calls(disk)
            for use in USES:
                with pytest.raises(LogClosed, match="closed"):
                    use(closed)
            assert calls.take() == []


@pytest.mark.parametrize(
    "changes",
    [{"sync_interval_ms": -1}, {"compact_bytes": -1}, {"idle_ms": -1}, {"max_open_groups": 0}],
    ids=lambda changes: next(iter(changes)),
)
def test_settings_that_make_no_sense_are_refused(changes: SettingsChanges) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        open_store(FaultDisk(), **changes)


def test_sizes_of_files_tell_what_was_written_since_the_snapshots(disk: FaultDisk) -> None:
    clock = ManualClock(NOW_MS)
    with open_store(disk, clock=clock) as store:
        assert store.file_sizes() == GroupFileSizes()
        store.record(KEY, [Ack(1)])
        store.commit()
        first = store.file_sizes()
        store.record(OTHER, [Ack(offset) for offset in range(1, 100)])
        store.commit()
        both = store.file_sizes()
        assert both.delta_bytes > both.longest_delta_bytes > first.delta_bytes > 0
        assert both.snapshot_age_ms is None
        store.compact(OTHER)
        clock.now_ms += 5_000
        after = store.file_sizes()
        assert after.snapshot_age_ms == 5_000
        assert after.delta_bytes < both.delta_bytes
