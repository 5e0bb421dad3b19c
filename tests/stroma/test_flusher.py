"""The thread behind a store: in time, hard to kill, and never in the way of those who write meanwhile."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from barbicel.clock import wall_clock_ms
from barbicel.codecs.stroma_events import Ack, BumpAckedUntil
from barbicel.errors import BarbicelError
from barbicel.stroma import Flusher, GroupKey, GroupStore
from barbicel.stroma.group import Group
from tests.keratin.builders import DEADLINE_S, Crew, ManualClock, wait_until
from tests.stroma.builders import (
    KEY,
    NOW_MS,
    OTHER,
    Halt,
    OpenFiles,
    after_power_cut,
    key_number,
    open_store,
    random_event,
    view_on,
)
from tests.stroma.model import PlainGroup, View, view_of
from tests.support.fault_disk import FaultDisk

THREADS = 4
TURNS = 150


def is_durable(disk: FaultDisk, key: GroupKey, acked_until: int) -> Callable[[], bool]:
    return lambda: view_on(after_power_cut(disk), key).acked_until == acked_until


class TestTheThread:
    def test_syncs_what_was_written(self) -> None:
        disk = FaultDisk()
        with open_store(disk, clock=wall_clock_ms, sync_interval_ms=20) as store, Flusher(store, 20):
            for count in range(1, 4):
                store.record(KEY, [Ack(count - 1)])
                store.commit()
                wait_until(is_durable(disk, KEY, count), "the sync")
                wait_until(lambda: store.sync_lag_ms == 0, "the lag's end")

    def test_compacts_and_evicts(self) -> None:
        disk = FaultDisk()
        with open_store(disk, clock=wall_clock_ms, compact_bytes=0, idle_ms=30) as store, Flusher(store, 10):
            store.record(KEY, [Ack(0)])
            store.commit()
            wait_until(lambda: store.open_groups == 0, "the eviction")
            assert any(path.endswith(".snap") for path in disk.files())
            assert store.state(KEY).acked_until == 1

    @pytest.mark.parametrize("compact_bytes", [1 << 20, 0], ids=["sync", "compaction"])
    def test_survives_an_error(self, compact_bytes: int) -> None:
        disk = FaultDisk()
        hurt = "group.delta" if compact_bytes else "group.snap.new"
        store = open_store(
            disk,
            clock=wall_clock_ms,
            sync_interval_ms=20,
            compact_bytes=compact_bytes,
            compact_ratio=0,
            compact_min_bytes=compact_bytes,
        )
        with store, Flusher(store, 10):
            store.record(KEY, [Ack(0)])
            store.commit()
            wait_until(is_durable(disk, KEY, 1), "the first sync")
            struck = threading.Event()
            disk.observer = lambda call: (
                struck.set() if call.operation == "fdatasync" and hurt in call.path else None
            )
            disk.fail("fdatasync", errno.EIO, path_contains=hurt)
            store.record(KEY, [Ack(1)])
            store.commit()
            assert struck.wait(DEADLINE_S)
            for count in (1, 2):
                store.record(OTHER, [Ack(count - 1)])
                assert store.commit() == {}
                wait_until(is_durable(disk, OTHER, count), "the sync of the other group")
            store.sync([KEY])
            assert is_durable(disk, KEY, store.state(KEY).acked_until)()

    def test_ends_when_it_is_closed(self) -> None:
        before = threading.active_count()
        with open_store(FaultDisk()) as store:
            flusher = Flusher(store, 60_000, threads=3)
            assert threading.active_count() == before + 3
            flusher.close()
            assert threading.active_count() == before


class TestManyThreads:
    @pytest.mark.parametrize("max_open_groups", [2, 1000], ids=["few open", "all open"])
    def test_each_with_its_groups_while_the_flusher_works(self, max_open_groups: int) -> None:
        disk = FaultDisk()
        files = OpenFiles(disk)
        models: dict[GroupKey, PlainGroup] = {key_number(number): PlainGroup() for number in range(8)}
        store = open_store(
            disk,
            clock=wall_clock_ms,
            sync_interval_ms=2,
            compact_bytes=400,
            max_open_groups=max_open_groups,
            idle_ms=5,
        )

        def work(seed: int) -> None:
            random = Random(seed)
            own = list(models)[seed::THREADS]
            for turn in range(TURNS):
                key = random.choice(own)
                made = [random_event(random, NOW_MS) for _ in range(random.randrange(1, 5))]
                store.record(key, made)
                for event in made:
                    models[key].apply(event)
                assert store.commit() == {}
                if turn % 10 == 0:
                    store.sync([key])
                    assert view_on(after_power_cut(disk), key) == models[key].view()
                if turn % 25 == 0:
                    store.compact(key)
                assert view_of(store.state(key)) == models[key].view()

        with Flusher(store, 1):
            crew = Crew()
            for seed in range(THREADS):
                crew.start(partial(work, seed))
            crew.join()
        store.close()
        assert files.count == 0
        for key, model in models.items():
            assert view_on(after_power_cut(disk), key) == model.view()


class TestBesideASync:
    """Stopped in the middle of a background sync; what others do then must hold all the same."""

    def halted(self) -> tuple[FaultDisk, GroupStore, Halt]:
        """Offset 0 is written and its sync is due."""
        disk, clock = FaultDisk(), ManualClock(NOW_MS)
        halt = Halt(disk)
        store = open_store(disk, clock=clock)
        store.record(KEY, [Ack(0)])
        store.commit()
        clock.now_ms += 1000
        return disk, store, halt

    def test_a_demanded_sync_answers_when_it_is_durable(self) -> None:
        disk, store, halt = self.halted()
        found: list[View] = []

        def demand() -> None:
            store.sync([KEY])
            found.append(view_on(after_power_cut(disk)))

        halt.run_beside(store.maintain, demand)
        assert [view.acked_until for view in found] == [1]

    def test_a_demanded_sync_does_not_pass_over_that_the_other_failed(self) -> None:
        """The second fdatasync of a file whose first one failed would say that all is well."""
        disk, store, halt = self.halted()
        disk.fail("fdatasync", errno.EIO, path_contains="group.delta")
        found: list[View | BarbicelError] = []

        def demand() -> None:
            try:
                store.sync([KEY])
                found.append(view_on(after_power_cut(disk)))
            except BarbicelError as error:
                found.append(error)

        halt.run_beside(store.maintain, demand)
        assert isinstance(found[0], BarbicelError) or found[0].acked_until == 1

    def test_others_write_without_waiting(self) -> None:
        disk, store, halt = self.halted()
        durable_then: list[int] = []

        def write() -> None:
            for key in (KEY, OTHER):
                store.record(key, [BumpAckedUntil(5)])
            assert store.commit() == {}
            durable_then.append(view_on(after_power_cut(disk)).acked_until)

        halt.patience_s = DEADLINE_S
        halt.run_beside(store.maintain, write)
        assert durable_then == [0]  # the sync had not come back yet
        assert view_on(disk) == view_of(store.state(KEY))
        store.sync([KEY, OTHER])
        assert [view_on(after_power_cut(disk), key).acked_until for key in (KEY, OTHER)] == [5, 5]

    def test_a_compaction_loses_nothing(self) -> None:
        disk, store, halt = self.halted()

        def compact() -> None:
            store.compact(KEY)
            store.record(KEY, [Ack(1)])

        halt.run_beside(store.maintain, compact)
        assert store.commit() == {}  # nothing is wrong with the disk
        assert store.state(KEY).acked_until == 2
        store.close()
        assert view_on(after_power_cut(disk)).acked_until == 2
        assert halt.count == 0

    def test_a_deleted_group_stays_deleted_and_a_new_one_is_its_own(self) -> None:
        disk, store, halt = self.halted()

        def replace() -> None:
            store.delete(KEY)
            store.record(KEY, [Ack(7)])
            assert store.commit() == {}

        halt.run_beside(store.maintain, replace)
        assert view_of(store.state(KEY)) == View(acked=((7, 8),))
        store.close()
        assert view_on(after_power_cut(disk)) == View(acked=((7, 8),))
        assert halt.count == 0

    def test_a_failure_of_the_old_group_does_not_take_the_new_one(self) -> None:
        disk, store, halt = self.halted()
        disk.fail("fdatasync", errno.EIO, path_contains="group.delta")

        def replace() -> None:
            store.delete(KEY)
            store.record(KEY, [Ack(7)])

        halt.run_beside(store.maintain, replace)
        told = KEY in store.commit()
        assert told != store.state(KEY).is_acked(7)

    def test_a_close_waits_for_it(self) -> None:
        disk, store, halt = self.halted()
        found: list[View] = []

        def close() -> None:
            store.close()
            found.append(view_on(after_power_cut(disk)))

        halt.run_beside(store.maintain, close)
        assert [view.acked_until for view in found] == [1]


def test_a_write_just_before_a_sync_holds_up_no_other_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sync takes it along: the group must not stay at the head of those that wait."""
    disk, clock = FaultDisk(), ManualClock(NOW_MS)
    store = open_store(disk, clock=clock)
    store.record(KEY, [Ack(0)])
    store.commit()
    clock.now_ms += 1000
    plain = Group.sync_data

    def write_first(group: Group) -> int | None:
        monkeypatch.setattr(Group, "sync_data", plain)
        store.record(KEY, [Ack(1)])
        store.commit()
        return plain(group)

    monkeypatch.setattr(Group, "sync_data", write_first)
    store.maintain()
    store.record(OTHER, [Ack(0)])
    store.commit()
    clock.now_ms += 1000
    store.maintain()
    assert is_durable(disk, OTHER, 1)()
    assert is_durable(disk, KEY, 2)()
    assert store.sync_lag_ms == 0


def test_an_error_of_one_group_is_no_error_of_the_flusher() -> None:
    """`maintain` may raise for one group; the next call goes on with the others."""
    disk, clock = FaultDisk(), ManualClock(NOW_MS)
    store = open_store(disk, clock=clock, compact_bytes=0)
    for key in (KEY, OTHER):
        store.record(key, [Ack(0)])
    store.commit()
    disk.fail("rename", errno.EIO, path_contains="group.snap.new")
    for _ in range(2):
        try:
            store.maintain()
        except BarbicelError as error:
            assert "rename" in str(error)
    assert {path for path in disk.files() if path.endswith("other.snap")}
    assert store.state(KEY).acked_until == 1
