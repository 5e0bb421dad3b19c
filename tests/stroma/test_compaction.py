"""A snapshot in the place of a long delta, while others go on writing: nobody waits, nothing is lost."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest

from barbicel.codecs.stroma_events import Ack, BumpAckedUntil, Commit, Event
from barbicel.errors import DiskError
from barbicel.stroma import GroupStore, SyncPolicy
from barbicel.stroma import recovery as recovery_module
from tests.keratin.builders import DEADLINE_S, Crew, ManualClock
from tests.stroma.builders import (
    DELTA,
    HISTORY,
    KEY,
    LONG_KEY,
    NOW_MS,
    OTHER,
    PATIENCE_S,
    SNAP,
    Calls,
    after_power_cut,
    check_goes_on,
    crash_states,
    filled,
    open_store,
    plan_on,
    view_on,
)
from tests.stroma.model import View, applied, clamped, view_of
from tests.support.fault_disk import Call, FaultDisk

# Backwards: applied twice, or without the snapshot, it gives something else.
TAIL: tuple[Event, ...] = (Ack(8), Commit(1, 9, b"tail"), Ack(6))


def beside_snapshot(disk: FaultDisk, run: Callable[[], object]) -> None:
    """Have it run while a snapshot is being written."""

    def observe(call: Call) -> None:
        if call.operation == "fdatasync" and call.path.endswith(".snap.new"):
            disk.observer = None
            run()

    disk.observer = observe


def turn(store: GroupStore, events: tuple[Event, ...] = TAIL) -> None:
    store.record(KEY, events)
    assert store.commit() == {}


class TestWhatIsWrittenMeanwhile:
    @pytest.mark.parametrize("policy", SyncPolicy)
    @pytest.mark.parametrize("compacted_before", [False, True])
    def test_is_in_the_new_delta(self, policy: SyncPolicy, compacted_before: bool) -> None:
        disk = filled(HISTORY, compact_after=0 if compacted_before else None)
        store = open_store(disk, sync_policy=policy)
        store.state(KEY)
        beside_snapshot(disk, lambda: turn(store))
        store.compact(KEY)
        assert plan_on(disk).events == TAIL
        assert view_on(after_power_cut(disk)) == view_of(store.state(KEY)) == applied((*HISTORY, *TAIL))

    def test_survives_a_crash_anywhere(self) -> None:
        disk = filled(HISTORY)
        store = open_store(disk, sync_policy=SyncPolicy.ALWAYS)
        store.state(KEY)
        is_answered = False
        states: list[tuple[bool, FaultDisk]] = []

        def answer() -> None:
            nonlocal is_answered
            store.record(KEY, TAIL)
            assert store.commit() == {}
            is_answered = True

        def observe(call: Call) -> None:
            states.append((is_answered, after_power_cut(disk)))
            if call.operation == "fdatasync" and call.path.endswith(".snap.new") and not is_answered:
                answer()

        disk.observer = observe
        store.compact(KEY)
        disk.observer = None
        assert sum(answered for answered, _ in states) > 5
        whole = [applied((*HISTORY, *TAIL[:count])) for count in range(len(TAIL) + 1)]
        for answered, left in states:
            assert plan_on(left).damage is None
            found = view_on(left)
            assert found == whole[-1] if answered else found in whole
            check_goes_on(left, KEY, found)

    def test_of_a_crash_between_snapshot_and_delta_is_found_behind_the_position(self) -> None:
        disk = filled(HISTORY)
        old = disk.files()[DELTA]
        store = open_store(disk)
        beside_snapshot(disk, lambda: turn(store))
        store.compact(KEY)
        tail = disk.files()[DELTA][60:]
        disk.put(DELTA, old + tail + b"KE torn")
        store.close()
        disk.put(DELTA, old + tail + b"KE torn")
        plan = plan_on(disk)
        assert plan.events == TAIL
        assert plan.torn is not None
        assert plan.torn.position == len(old + tail)
        for _, left in crash_states(disk, lambda: open_store(disk).state(KEY)):
            assert view_on(left) == applied((*HISTORY, *TAIL))
            check_goes_on(left, KEY, applied((*HISTORY, *TAIL)))

    def test_if_the_old_delta_lost_its_end_the_snapshot_counts(self) -> None:
        """A power cut takes what was not synced, also what the snapshot has."""
        disk = filled(HISTORY)
        old = disk.files()[DELTA]
        with open_store(disk) as store:
            store.compact(KEY)
        for size in range(60, len(old) + 1):
            disk.put(DELTA, old[:size])
            assert view_on(disk) == applied(HISTORY)

    def test_that_fails_is_told_and_the_snapshot_does_no_harm(self) -> None:
        disk = filled(HISTORY)
        store = open_store(disk)
        store.state(KEY)
        told: list[object] = []

        def fail() -> None:
            disk.fail("write", errno.EIO, path_contains=DELTA, partial=30)
            store.record(KEY, TAIL)
            told.extend(store.commit())

        beside_snapshot(disk, fail)
        store.compact(KEY)
        assert told == [KEY]
        assert view_of(store.state(KEY)) == applied(HISTORY)
        check_goes_on(after_power_cut(disk), KEY, applied(HISTORY))

    @pytest.mark.parametrize(
        ("use", "expected"),
        [
            (lambda store: store.delete(KEY), View()),
            (lambda store: store.clamp("topic", 0, 6), clamped(applied(HISTORY), 6)),
        ],
        ids=["deletion", "clamp"],
    )
    def test_a_deletion_or_a_clamp_waits(self, use: Callable[[GroupStore], object], expected: View) -> None:
        disk = filled(HISTORY)
        store = open_store(disk)
        crew = Crew()
        beside_snapshot(disk, lambda: crew.start(lambda: use(store)))
        store.compact(KEY)
        crew.join()
        assert view_on(after_power_cut(disk)) == view_of(store.state(KEY)) == expected

    def test_a_close_waits(self) -> None:
        disk = filled(HISTORY)
        store = open_store(disk)
        crew = Crew()
        beside_snapshot(disk, lambda: crew.start(store.close))
        store.compact(KEY)
        crew.join()
        open_store(disk).close()  # nobody holds the lock
        assert view_on(after_power_cut(disk)) == applied(HISTORY)


class TestAGroupThatIsDroppedMeanwhile:
    """A turn fails while the snapshot is being written: the group is read anew, but not before that ended."""

    def dropped(
        self, beside: Callable[[GroupStore], object], then: Callable[[], object] = lambda: None
    ) -> tuple[FaultDisk, GroupStore]:
        """`beside` runs in another thread, to its end or to where it waits; then the snapshot goes on."""
        disk = filled(HISTORY)
        store = open_store(disk)
        store.sync([KEY])
        crew, done = Crew(), threading.Event()

        def run() -> None:
            try:
                beside(store)
            finally:
                done.set()

        def fail() -> None:
            disk.fail("write", errno.EIO, path_contains=DELTA)
            store.record(KEY, TAIL)
            assert list(store.commit()) == [KEY]
            crew.start(run)
            done.wait(PATIENCE_S)
            then()

        beside_snapshot(disk, fail)
        store.compact(KEY)
        crew.join()
        return disk, store

    def test_is_not_written_to_by_two(self) -> None:
        disk, store = self.dropped(lambda store: store.record(KEY, TAIL))
        store.sync([KEY])
        assert view_on(after_power_cut(disk)) == view_of(store.state(KEY)) == applied((*HISTORY, *TAIL))

    def test_keeps_the_lock_of_a_store_that_is_closed(self) -> None:
        """Another process could begin to write while this one is still at it."""
        order: list[str] = []

        def close(store: GroupStore) -> None:
            store.close()
            order.append("closed")

        disk, _ = self.dropped(close, lambda: order.append("snapshot written"))
        assert order == ["snapshot written", "closed"]
        open_store(disk).close()


def test_a_sync_that_is_under_way_keeps_its_file() -> None:
    """It began while the snapshot was being written, on the delta that is to be replaced."""
    disk, clock = filled(HISTORY), ManualClock(NOW_MS)
    store = open_store(disk, clock=clock)
    store.sync([KEY])
    crew, syncing, go_on = Crew(), threading.Event(), threading.Event()

    snapshots = 0

    def observe(call: Call) -> None:
        nonlocal snapshots
        if call.operation != "fdatasync":
            return
        if call.path.endswith(".snap.new"):
            snapshots += 1
            turn(store)
            clock.now_ms += 1000
            crew.start(store.maintain)
            assert syncing.wait(DEADLINE_S)
        elif call.path == DELTA and not syncing.is_set():
            syncing.set()
            go_on.wait(PATIENCE_S)

    disk.observer = observe
    store.compact(KEY)
    crew.join()
    assert snapshots == 1  # another one would be the recovery from a failed sync
    assert view_on(after_power_cut(disk)) == applied((*HISTORY, *TAIL))


def test_that_fails_before_a_new_group_has_events_leaves_no_half_a_file() -> None:
    disk = FaultDisk()
    store = open_store(disk)
    disk.fail("open", errno.EIO, path_contains=".snap.new")
    with pytest.raises(DiskError):
        store.compact(KEY)
    store.sync([KEY])
    assert plan_on(after_power_cut(disk)).damage is None


def test_others_do_not_wait_for_a_snapshot() -> None:
    """Another thread ends turns of this and of other groups while the snapshot is on its way to the disk."""
    disk = filled(HISTORY)
    store = open_store(disk)
    arrived, done = threading.Event(), threading.Event()

    def wait() -> None:
        arrived.set()
        assert done.wait(DEADLINE_S)

    beside_snapshot(disk, wait)
    crew = Crew()
    crew.start(lambda: store.compact(KEY))
    assert arrived.wait(DEADLINE_S)
    for key in (KEY, OTHER, LONG_KEY):
        store.record(key, TAIL)
    assert store.commit() == {}
    assert store.state(KEY).metadata == b"tail"
    done.set()
    crew.join()
    store.close()
    assert view_on(after_power_cut(disk)) == applied((*HISTORY, *TAIL))


class TestWhenItIsTime:
    def test_a_large_snapshot_is_not_written_anew_for_little(self) -> None:
        """Of a thousand ranges the snapshot has 16 KB: the delta may have as much, whatever compact_bytes."""
        disk = FaultDisk()
        store = open_store(disk, compact_bytes=400, compact_min_bytes=100, compact_ratio=4)
        store.record(KEY, [Ack(2 * number + 1) for number in range(1000)])
        store.compact(KEY)
        large = len(disk.files()[SNAP])
        calls, written = Calls(disk), 0
        while not calls.take("create", path_contains=".snap.new"):
            store.record(KEY, [Ack(2001 + 2 * written)])
            store.commit()
            written += 24
            store.maintain()
            assert written < 2 * large
        assert written > large - 100

    def test_a_turn_that_makes_the_delta_too_long_ends_with_a_snapshot(self) -> None:
        """Also if nobody maintains the store."""
        disk = FaultDisk()
        store = open_store(disk, max_delta_bytes=500)
        for number in range(200):
            store.record(KEY, [Ack(number)])
            assert store.commit() == {}
            assert len(next(data for path, data in disk.files().items() if ".delta" in path)) <= 500
        assert view_on(disk).acked_until == 200
        store.record(KEY, [BumpAckedUntil(number) for number in range(300)])
        assert store.commit() == {}
        assert view_on(after_power_cut(disk)).acked_until == 299

    def test_a_state_too_large_to_be_read_again_is_refused_and_told(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        disk = FaultDisk()
        store = open_store(disk, max_delta_bytes=500)
        monkeypatch.setattr(recovery_module, "MAX_FILE_BYTES", 1000)
        failures = {}
        for number in range(100):
            store.record(KEY, [Ack(2 * number + 1)])
            failures = store.commit()
            if failures:
                break
        assert "File too large" in str(failures[KEY])
        assert plan_on(disk).damage is None
        assert view_on(disk).acked == tuple((2 * i + 1, 2 * i + 2) for i in range(number))

    def test_a_snapshot_that_cannot_be_written_stops_nobody(self) -> None:
        disk = filled(HISTORY)
        store = open_store(disk)
        disk.fail("open", errno.ENOSPC, path_contains=".snap.new")
        with pytest.raises(DiskError):
            store.compact(KEY)
        turn(store)
        assert store.failures == {}
        store.compact(KEY)
        assert view_on(after_power_cut(disk)) == applied((*HISTORY, *TAIL))
