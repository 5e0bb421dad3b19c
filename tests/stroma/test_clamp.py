"""A log that is shorter than what its groups say: offsets that are used again are nobody's acks."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.stroma_events import Ack, BumpAckedUntil, Commit, Event, MarkInflight
from barbicel.errors import CorruptGroup, DiskError
from barbicel.keratin import Ack as AppendAck
from barbicel.keratin import Log, LogSettings, NewRecord
from barbicel.stroma import GroupKey, GroupStore, Storage
from barbicel.stroma.clamp import clamp_snapshot
from barbicel.stroma.directory import list_groups_of
from barbicel.stroma.layout import StoreLayout
from barbicel.stroma.state import GroupState
from tests.stroma.builders import (
    DELTA,
    HISTORY,
    KEY,
    LONG_KEY,
    NOW_MS,
    OFFSETS,
    OTHER,
    ROOT,
    SNAP,
    Calls,
    after_power_cut,
    check_goes_on,
    crash_states,
    events,
    filled,
    flipped,
    open_store,
    view_on,
)
from tests.stroma.model import View, applied, clamped, view_of
from tests.support.fault_disk import Call, Fate, FaultDisk, PowerCut

# HISTORY ends with: acked below 2, 5 and 7; 4 handed out; 9 released; a commit with metadata.
WHOLE = applied(HISTORY)
MIDDLE = 7
BELOW = clamped(WHOLE, MIDDLE)
SETTINGS = LogSettings(preallocate_max_bytes=0)


@given(st.lists(events, max_size=40), st.integers(0, OFFSETS + 1))
def test_a_clamped_state_is_what_the_model_has(history: list[Event], end: int) -> None:
    state = GroupState()
    for event in history:
        state.apply(event)
    snapshot = state.snapshot(created_ts_ms=1, tp_hash=2, group_hash=3, generation=4)
    expected = clamped(view_of(state), end)
    assert view_of(GroupState.of(clamp_snapshot(snapshot, end))) == expected
    assert state.reaches(end) == (view_of(state) != expected)


@pytest.mark.parametrize("compact_after", [None, 0, 1], ids=["delta", "both", "snapshot"])
@pytest.mark.parametrize("is_open", [False, True], ids=["in its files", "in memory"])
@pytest.mark.parametrize("end", range(12))
def test_what_lies_beyond_the_end_is_forgotten_durably(
    compact_after: int | None, is_open: bool, end: int
) -> None:
    disk = filled(HISTORY[:5], HISTORY[5:], compact_after=compact_after)
    store = open_store(disk)
    if is_open:
        store.state(KEY)
    store.clamp("topic", 0, end)
    assert view_of(store.state(KEY)) == clamped(WHOLE, end)
    assert view_on(after_power_cut(disk)) == clamped(WHOLE, end)
    check_goes_on(after_power_cut(disk), KEY, clamped(WHOLE, end))


def test_a_commit_beyond_the_end_is_one_at_the_end_with_its_metadata() -> None:
    disk = filled((Commit(100, 5, b"mine"),))
    with open_store(disk) as store:
        assert store.clamp("topic", 0, 40) == [KEY]
        assert view_of(store.state(KEY)) == View(40, is_committed=True, leader_epoch=5, metadata=b"mine")


def test_a_deadline_beyond_the_end_is_no_deadline_any_more() -> None:
    with open_store(filled((MarkInflight(20, NOW_MS + 5, 1), MarkInflight(3, NOW_MS + 50, 1)))) as store:
        list(store.recover_deadlines())
        assert store.next_deadline_ms() == NOW_MS + 5
        store.clamp("topic", 0, 20)
        assert store.next_deadline_ms() == NOW_MS + 50


class TestOnlyTheGroupsOfThePartition:
    KEYS = (
        KEY,
        OTHER,
        GroupKey("topic", 0, ""),
        GroupKey("topic", 0, "ü" * 120),
        GroupKey("topic", 0, "1_x"),
    )
    ELSEWHERE = (
        LONG_KEY,
        GroupKey("topic", 1, "group"),
        GroupKey("topic", 10, "group"),
        GroupKey("topic-0", 0, "group"),
        GroupKey("topic-0_", 0, "group"),
        GroupKey("atopic", 0, "group"),
    )

    def store(self, disk: FaultDisk) -> GroupStore:
        store = open_store(disk)
        for key in (*self.KEYS, *self.ELSEWHERE):
            store.record(key, [BumpAckedUntil(9)])
        store.commit()
        return store

    def test_are_found_by_their_names(self) -> None:
        disk = FaultDisk()
        self.store(disk)
        disk.make_directory(f"{ROOT}/topic-0_directory.delta")
        disk.put(f"{ROOT}/topic-0_a_b.delta", b"")
        assert sorted(list_groups_of(disk, StoreLayout(ROOT), "topic", 0)) == sorted(self.KEYS)
        assert list(list_groups_of(disk, StoreLayout(ROOT), "topic", 3)) == [LONG_KEY]
        assert list(list_groups_of(disk, StoreLayout(ROOT), "nobody", 0)) == []

    def test_are_clamped(self) -> None:
        disk = FaultDisk()
        store = self.store(disk)
        unwritten = GroupKey("topic", 0, "not written yet")
        store.record(unwritten, [Ack(8)])
        assert store.clamp("topic", 0, 8) == sorted((*self.KEYS, unwritten))
        assert {store.state(key).acked_until for key in self.KEYS} == {8}
        assert {store.state(key).acked_until for key in self.ELSEWHERE} == {9}
        assert view_of(store.state(unwritten)) == View()

    def test_that_say_nothing_beyond_are_not_touched(self) -> None:
        disk = FaultDisk()
        store = self.store(disk)
        store.sync(self.KEYS)
        calls = Calls(disk)
        assert store.clamp("topic", 0, 9) == []
        assert calls.take() == ["fsync groups"]


class TestInterrupted:
    @pytest.mark.parametrize("compact_after", [None, 0, 1], ids=["delta", "both", "snapshot"])
    def test_it_leaves_the_old_state_or_the_new_and_can_be_done_again(
        self, compact_after: int | None
    ) -> None:
        disk = filled(HISTORY[:5], HISTORY[5:], compact_after=compact_after)
        store = open_store(disk)
        for _, left in crash_states(disk, lambda: store.clamp("topic", 0, MIDDLE)):
            with open_store(left) as found:
                assert view_of(found.state(KEY)) in (WHOLE, BELOW)
                found.clamp("topic", 0, MIDDLE)
                assert view_on(after_power_cut(left)) == BELOW
            check_goes_on(left, KEY, BELOW)

    @pytest.mark.parametrize("compact_after", [None, 0], ids=["delta", "both"])
    def test_by_a_kill_the_next_one_is_durable_all_the_same(self, compact_after: int | None) -> None:
        """What a killed process wrote can be read, and is not on the disk."""
        for number in range(1, 40):
            disk = filled(HISTORY[:5], HISTORY[5:], compact_after=compact_after)
            if not kill_at(disk, number, lambda store: store.clamp("topic", 0, MIDDLE)):
                break
            store = open_store(disk)
            store.clamp("topic", 0, MIDDLE)
            for fate in Fate:
                assert view_on(disk.crash(fate, Random(number))) == BELOW
        assert number > 8

    def test_a_commit_backwards_that_is_not_durable_is_made_so(self) -> None:
        """Otherwise a power cut brings back what lay beyond the end."""
        disk = filled((BumpAckedUntil(9),))
        killed = open_store(disk)
        killed.record(KEY, [Commit(2, None, None)])
        killed.commit()
        killed._lock.release()  # as the kernel does it
        store = open_store(disk)
        assert store.state(KEY).acked_until == 2
        store.clamp("topic", 0, MIDDLE)
        assert view_on(after_power_cut(disk)).acked_until == 2

    def test_what_is_recorded_and_not_written_leaves_nothing_beyond(self) -> None:
        disk = filled((BumpAckedUntil(2),))
        store = open_store(disk)
        store.record(KEY, [Ack(8), Commit(3, None, None)])
        store.clamp("topic", 0, MIDDLE)

        def tear(call: Call) -> None:
            for count in range(len(call.data)):
                left = disk.crash(Fate.KEEP, Random(0), torn_append=count)
                assert view_on(left).acked == ()

        disk.observer = tear
        store.commit()
        assert view_on(disk) == View(3, is_committed=True)


def kill_at(disk: FaultDisk, number: int, run: Callable[[GroupStore], object]) -> bool:
    """Kill a process at one of its calls; what it wrote stays in the page cache. Whether it came that far."""
    store = open_store(disk)
    calls_left = number

    def kill(_: Call) -> None:
        nonlocal calls_left
        calls_left -= 1
        if not calls_left:
            raise PowerCut

    disk.observer = kill
    try:
        run(store)
    except PowerCut:
        return True
    finally:
        disk.observer = None
        store._lock.release()  # as the kernel does it
    return False


class TestAGroupThatCannotBeClamped:
    def test_is_told_after_the_others_are_clamped(self) -> None:
        disk = FaultDisk()
        store = open_store(disk)
        for key in (KEY, OTHER):
            store.record(key, [BumpAckedUntil(9)])
        store.commit()
        disk.fail("rename", errno.EIO, path_contains="group.snap")
        with pytest.raises(DiskError, match="rename"):
            store.clamp("topic", 0, 5)
        assert view_on(after_power_cut(disk), OTHER).acked_until == 5
        assert store.clamp("topic", 0, 5) == [KEY]
        assert view_on(after_power_cut(disk)).acked_until == 5

    def test_because_it_is_damaged_is_told_if_a_repair_could_bring_acks_back(self) -> None:
        disk = filled((Ack(0),), (Ack(8),), compact_after=0)
        disk.put(SNAP, flipped(disk.files()[SNAP], 80))
        with open_store(disk) as store:
            with pytest.raises(CorruptGroup):
                store.clamp("topic", 0, 8)
            assert store.clamp("topic", 0, 9) == []

    def test_because_its_delta_is_damaged_holds_nobody_up(self) -> None:
        disk = filled((BumpAckedUntil(9),))
        disk.put(DELTA, disk.files()[DELTA][:30])
        with open_store(disk) as store:
            assert store.clamp("topic", 0, 5) == []


# --- a log and its groups -------------------------------------------------------------------------


class Broker:
    """A log and a store of groups on one disk, opened as a broker does it."""

    def __init__(self, disk: FaultDisk) -> None:
        self.log = Log.open("/logs/topic-0", disk=disk, settings=SETTINGS, clock=lambda: NOW_MS)
        self.groups = open_store(disk)
        self.storage = Storage(lambda topic, partition: self.log, self.groups)
        self.clamped = self.storage.open_partition("topic", 0)

    def append(self, *payloads: bytes, ack: AppendAck = AppendAck.AFTER_FSYNC) -> None:
        self.storage.append_batch("topic", 0, [NewRecord(payload) for payload in payloads], ack)

    def available(self) -> list[bytes]:
        return [bytes(item.record.payload) for item in self.storage.fetch_available(KEY, 0, 100)]


def lost_tail() -> FaultDisk:
    """Two durable messages and two that a power cut took; the acks of all but the second one were durable."""
    disk = FaultDisk()
    broker = Broker(disk)
    broker.append(b"one", b"two")
    broker.append(b"lost", b"lost too", ack=AppendAck.AFTER_WRITE)
    broker.storage.ack(KEY, [0, 2, 3])
    broker.groups.sync([KEY])
    return after_power_cut(disk)


def test_new_messages_on_offsets_that_were_acked_are_delivered() -> None:
    broker = Broker(lost_tail())
    assert broker.log.end_offset == 2
    assert broker.clamped == [KEY]
    broker.append(b"new", b"newer")
    assert broker.available() == [b"two", b"new", b"newer"]


def test_a_crash_anywhere_between_opening_and_the_answer_hides_no_message() -> None:
    disk, brokers = lost_tail(), []

    def run() -> None:
        brokers.append(Broker(disk))
        brokers[0].append(b"new", b"newer")

    for _, left in crash_states(disk, run):
        again = Broker(left)
        kept = [bytes(record.payload) for record in again.log.scan(0)]
        assert kept[:2] == [b"one", b"two"]
        assert again.available() == kept[1:]
        again.append(b"last")
        assert again.available() == [*kept[1:], b"last"]


def test_a_damaged_log_changes_no_group() -> None:
    disk = FaultDisk()
    broker = Broker(disk)
    broker.append(b"one", b"two", b"three")
    broker.storage.ack(KEY, [0, 1, 2])
    broker.log.roll()
    broker.log.close()
    broker.groups.close()
    path = "/logs/topic-0/segments/00000000000000000000.log"
    disk.put(path, flipped(disk.files()[path], 70))
    disk.put("/logs/topic-0/manifest.bin", b"")
    again = Broker(disk)
    assert again.log.damage
    assert again.clamped == []
    assert again.groups.state(KEY).acked_until == 3
