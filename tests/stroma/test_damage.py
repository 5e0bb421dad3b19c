"""A torn delta is cut, a damaged group rebuilt: redelivery where something is not known, never loss."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.stroma_events import Ack, Commit, Event, encode_event
from barbicel.stroma import GroupStore
from barbicel.stroma.repair import rebuild_group, rebuilt_state
from tests.stroma.builders import (
    DELTA,
    HISTORY,
    KEY,
    NOW_MS,
    OFFSETS,
    ROOT,
    SNAP,
    after_power_cut,
    check_goes_on,
    crash_states,
    events,
    filled,
    flipped,
    open_store,
    plan_on,
    put_disk,
    view_on,
)
from tests.stroma.model import PlainGroup, View, applied, view_of
from tests.support.fault_disk import FaultDisk

histories = st.lists(events, min_size=1, max_size=20)

_UNKNOWN = b"\0\1\0\x63" + b"\0" * 6
UNKNOWN_EVENT = b"KE" + _UNKNOWN + crc32c(_UNKNOWN).to_bytes(4, "big")


class TestTornDelta:
    def torn(self, tail: bytes) -> FaultDisk:
        disk = filled(HISTORY)
        disk.put(DELTA, disk.files()[DELTA] + tail)
        return disk

    @pytest.mark.parametrize(
        ("tail", "whole_events"),
        [
            (encode_event(Ack(11))[:-1], 0),
            (b"\0" * 300, 0),
            (b"\0" * 30 + encode_event(Ack(11)) + b"\0" * 9 + encode_event(Ack(12)) * 2, 3),
            (flipped(encode_event(Ack(11)), 15) + encode_event(Ack(12)), 1),
            (b"\0" * 5 + b"KE\0\1" + b"\0" * 20 + encode_event(Ack(12)), 1),
            (b"\0" * 5 + UNKNOWN_EVENT + encode_event(Ack(12)), 1),
        ],
        ids=["half an event", "zeros", "a hole", "a flipped bit", "a false start", "an unknown event"],
    )
    def test_is_cut_and_kept_aside(self, tail: bytes, whole_events: int) -> None:
        disk = self.torn(tail)
        before = disk.files()[DELTA]
        torn = plan_on(disk).torn
        assert torn is not None
        assert (torn.position, torn.end_position) == (len(before) - len(tail), len(before))
        assert torn.whole_events == whole_events
        with open_store(disk) as store:
            assert view_of(store.state(KEY)) == applied(HISTORY)
            cut = after_power_cut(disk).files()
            assert cut[f"{DELTA}.torn-{NOW_MS}"] == tail
            assert cut[DELTA] == before[: -len(tail)]
            store.record(KEY, [Ack(12)])
        assert plan_on(disk).torn is None
        assert view_on(disk) == applied([*HISTORY, Ack(12)])
        assert list(GroupStore.open(ROOT, disk=disk).groups()) == [KEY]

    def test_a_crash_anywhere_while_it_is_cut_changes_nothing(self) -> None:
        tail = encode_event(Ack(11))[:-3]
        disk = self.torn(tail)
        store = open_store(disk)
        states = crash_states(disk, lambda: store.state(KEY))
        assert len(states) > 12
        for _, state in states:
            with open_store(state) as again:
                assert view_of(again.state(KEY)) == applied(HISTORY)
            assert any(data == tail for path, data in state.files().items() if ".torn-" in path)

    def test_what_was_kept_aside_before_stays(self) -> None:
        disk = self.torn(b"\0" * 5)
        disk.put(f"{DELTA}.torn-{NOW_MS}", b"earlier")
        open_store(disk).state(KEY)
        assert disk.files()[f"{DELTA}.torn-{NOW_MS}"] == b"earlier"
        assert disk.files()[f"{DELTA}.torn-{NOW_MS + 1}"] == b"\0" * 5


class TestRebuild:
    """Redelivery where something is not known, never loss."""

    def damaged(self, *turns: tuple[Event, ...]) -> FaultDisk:
        disk = filled(*turns, compact_after=0)
        disk.put(SNAP, flipped(disk.files()[SNAP], 80))
        return disk

    @given(histories, histories, st.integers(0, 8))
    def test_nothing_unacked_becomes_acked(
        self, before: list[Event], behind: list[Event], start_offset: int
    ) -> None:
        disk = self.damaged(tuple(before), tuple(behind))
        self.check_unacked_stays(disk, start_offset, applied([*before, *behind]))
        rebuild_group(disk, plan_on(disk), start_offset, NOW_MS)
        assert view_on(disk) == applied([Commit(start_offset, None, None), *behind])

    @given(histories, histories, st.integers(0, 8))
    def test_nor_if_the_deltas_header_is_hurt(
        self, before: list[Event], behind: list[Event], start_offset: int
    ) -> None:
        """The snapshot alone may say too much: the delta behind it may hold a commit backwards."""
        disk = filled(tuple(before), tuple(behind), compact_after=0)
        disk.put(DELTA, flipped(disk.files()[DELTA], 12))
        self.check_unacked_stays(disk, start_offset, applied([*before, *behind]))

    def check_unacked_stays(self, disk: FaultDisk, start_offset: int, truth: View) -> None:
        """With and without the delta."""
        expected = PlainGroup.of(truth)
        for use_delta in (True, False):
            copy = after_power_cut(disk)
            rebuild_group(copy, plan_on(copy), start_offset, NOW_MS, use_delta=use_delta)
            rebuilt = plan_on(after_power_cut(copy)).state()
            for offset in range(start_offset, 2 * OFFSETS):
                assert expected.is_acked(offset) or not rebuilt.is_acked(offset)

    def test_without_the_delta_everything_in_the_log_is_unacked(self) -> None:
        disk = self.damaged(HISTORY[:6], HISTORY[6:])
        plan = plan_on(disk)
        assert view_of(rebuilt_state(plan, 4, use_delta=False)) == View(acked_until=4, is_committed=True)
        rebuild_group(disk, plan, 4, NOW_MS, use_delta=False)
        assert view_on(after_power_cut(disk)) == View(acked_until=4, is_committed=True)

    def test_the_evidence_is_kept_and_the_group_goes_on(self) -> None:
        disk = self.damaged(HISTORY[:6], HISTORY[6:])
        before = disk.files()
        disk.put(f"{SNAP}.corrupt-{NOW_MS}", b"of an earlier repair")
        rebuilt = rebuild_group(disk, plan_on(disk), 0, NOW_MS)
        files = after_power_cut(disk).files()
        assert files[f"{SNAP}.corrupt-{NOW_MS}"] == b"of an earlier repair"
        assert files[f"{SNAP}.corrupt-{NOW_MS + 1}"] == before[SNAP]
        assert files[f"{DELTA}.corrupt-{NOW_MS}"] == before[DELTA]
        assert plan_on(disk).actions == ()
        check_goes_on(disk, KEY, view_of(rebuilt))

    def test_the_old_delta_is_void_from_then_on(self) -> None:
        disk = self.damaged(HISTORY[:6], (Commit(50, None, None),))
        old = disk.files()[DELTA]
        rebuild_group(disk, plan_on(disk), 0, NOW_MS, use_delta=False)
        disk.put(DELTA, old)
        assert view_on(disk) == View(is_committed=True)

    @pytest.mark.parametrize("hurt", ["snapshot", "delta", "no snapshot"])
    def test_interrupted_anywhere_it_can_be_repeated(self, hurt: str) -> None:
        disk = (
            self.damaged(HISTORY[:6], HISTORY[6:])
            if hurt == "snapshot"
            else filled(HISTORY[:6], HISTORY[6:], compact_after=0)
        )
        if hurt == "delta":
            disk.put(DELTA, flipped(disk.files()[DELTA], 12))
        elif hurt == "no snapshot":
            disk = put_disk({path: data for path, data in disk.files().items() if path != SNAP})
        damaged = {path: data for path, data in disk.files().items() if path in (SNAP, DELTA)}
        expected = view_of(rebuilt_state(plan_on(disk), 3))
        states = crash_states(disk, lambda: rebuild_group(disk, plan_on(disk), 3, NOW_MS))
        assert len(states) > 30
        for _, state in states:
            plan = plan_on(state)
            if plan.damage is not None:
                rebuild_group(state, plan, 3, NOW_MS + 5)
            assert view_on(after_power_cut(state)) == expected
            kept = list(state.files().values())
            assert all(data in kept for data in damaged.values())
            check_goes_on(state, KEY, expected)


class TestWhatWouldBeDone:
    """A plan says in advance what opening or repairing a group does, and changes nothing."""

    def check(self, disk: FaultDisk, *says: str) -> None:
        before = disk.files()
        actions = plan_on(disk).actions
        assert len(actions) == len(says)
        assert all(text in action for text, action in zip(says, actions, strict=True))
        assert disk.files() == before

    def test_of_a_sound_group_nothing(self) -> None:
        self.check(filled(HISTORY))
        self.check(FaultDisk())

    def test_of_a_torn_delta_the_cut_and_what_lies_behind(self) -> None:
        disk = filled(HISTORY)
        size = len(disk.files()[DELTA])
        disk.put(DELTA, disk.files()[DELTA] + b"\0" * 7)
        self.check(disk, f"cut {DELTA} at byte {size}, 7 bytes kept aside")
        disk.put(DELTA, disk.files()[DELTA] + encode_event(Ack(5)))
        self.check(disk, f"cut {DELTA} at byte {size}, 31 bytes kept aside", "1 whole events")

    def test_of_a_damaged_group_the_rebuilding(self) -> None:
        disk = filled(HISTORY, compact_after=0)
        disk.put(SNAP, b"damaged")
        self.check(disk, f"rebuild the group: {SNAP}")

    def test_of_a_crash_between_snapshot_and_delta_the_new_delta(self) -> None:
        disk = filled(HISTORY)
        old = disk.files()[DELTA]
        with open_store(disk) as store:
            store.compact(KEY)
        disk.put(DELTA, old)
        self.check(disk, f"begin a new {DELTA}")
        assert view_on(disk) == applied(HISTORY)
