"""What a group's state makes of each event, and that it makes the same of any events as a plain model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.stroma_events import (
    Ack,
    BumpAckedUntil,
    ClearInflight,
    Commit,
    Event,
    MarkInflight,
    Release,
    Reset,
)
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.codecs.stroma_snapshot import Inflight, decode_snapshot, encode_snapshot
from barbicel.stroma.ranges import Range, RangeSet
from barbicel.stroma.state import GroupState
from tests.stroma.builders import NOW_MS, OFFSETS, events
from tests.stroma.model import EMPTY, PlainGroup, View, applied, view_of

HUNDRED_THOUSAND = 100_000


def after(*made: Event) -> GroupState:
    state = GroupState()
    for event in made:
        state.apply(event)
    return state


def available(state: GroupState, start: int = 0, end: int = 10) -> list[int]:
    return [offset for gap in state.available(start, end) for offset in range(*gap)]


class TestAck:
    def test_in_order_moves_the_frontier(self) -> None:
        assert view_of(after(Ack(0), Ack(1))) == View(acked_until=2)

    def test_beyond_the_frontier_waits_there(self) -> None:
        state = after(Ack(2), Ack(3), Ack(7))
        assert view_of(state) == View(acked=((2, 4), (7, 8)))
        assert [offset for offset in range(10) if state.is_acked(offset)] == [2, 3, 7]

    def test_that_fills_the_gap_takes_what_waits_along(self) -> None:
        assert view_of(after(Ack(1), Ack(2), Ack(4), Ack(0))) == View(acked_until=3, acked=((4, 5),))

    def test_twice_is_once(self) -> None:
        assert view_of(after(Ack(0), Ack(0), Ack(2), Ack(2))) == View(acked_until=1, acked=((2, 3),))

    def test_ends_inflight_and_release(self) -> None:
        state = after(MarkInflight(0, 50, 1), MarkInflight(3, 50, 1), Release(4, 2), Ack(0), Ack(3), Ack(4))
        assert view_of(state) == View(acked_until=1, acked=((3, 5),))
        assert state.next_expiry_ms() == NO_DEADLINE_MS


class TestInflight:
    def test_is_not_available_and_has_a_deadline(self) -> None:
        state = after(MarkInflight(1, 50, 1), MarkInflight(2, 40, 3))
        assert state.inflight == {1: Inflight(50, 1), 2: Inflight(40, 3)}
        assert [offset for offset in range(4) if state.is_inflight(offset)] == [1, 2]
        assert available(state, 0, 5) == [0, 3, 4]
        assert state.next_expiry_ms() == 40

    def test_again_is_a_new_deadline_and_epoch(self) -> None:
        state = after(MarkInflight(1, 50, 1), MarkInflight(1, 90, 2))
        assert state.inflight == {1: Inflight(90, 2)}
        assert (state.next_expiry_ms(), state.expired(60), state.expired(90)) == (
            90,
            [],
            [(1, Inflight(90, 2))],
        )

    @pytest.mark.parametrize("acked", [Ack(1), Ack(0), BumpAckedUntil(2), Commit(2, None, None)])
    def test_of_what_is_acked_means_nothing(self, acked: Event) -> None:
        offset = 0 if acked == Ack(0) else 1
        state = after(acked, MarkInflight(offset, 50, 1))
        assert not state.inflight
        assert state.is_acked(offset)

    def test_cleared_is_available_as_if_never_handed_out(self) -> None:
        state = after(MarkInflight(1, 50, 4), ClearInflight(1))
        assert view_of(state) == EMPTY
        assert available(state, 0, 3) == [0, 1, 2]
        assert (state.next_epoch(1), state.next_expiry_ms()) == (1, NO_DEADLINE_MS)

    def test_clearing_what_is_not_inflight_changes_nothing(self) -> None:
        made = (Ack(0), Ack(2), Release(4, 2))
        for offset in range(6):
            state = after(*made, ClearInflight(offset))
            assert view_of(state) == applied(made)
            assert available(state, 0, 6) == [1, 3, 4, 5]

    def test_released_is_available_with_its_count(self) -> None:
        state = after(MarkInflight(1, 50, 4), Release(1, 4))
        assert view_of(state) == View(releases=((1, 4),))
        assert available(state, 0, 3) == [0, 1, 2]
        assert (state.next_epoch(1), state.next_epoch(2)) == (5, 1)
        state.apply(MarkInflight(1, 70, 5))
        assert view_of(state) == View(inflight=((1, Inflight(70, 5)),))
        assert state.next_epoch(1) == 6

    def test_releasing_what_is_acked_means_nothing(self) -> None:
        assert view_of(after(Ack(0), Ack(2), Release(0, 1), Release(2, 1))) == View(1, ((2, 3),))


class TestPosition:
    def test_a_bump_only_goes_forwards(self) -> None:
        assert view_of(after(BumpAckedUntil(5), BumpAckedUntil(3), BumpAckedUntil(5))) == View(5)

    def test_a_bump_into_what_is_acked_goes_to_its_end(self) -> None:
        made = (Ack(4), Ack(5), Ack(6), Ack(9))
        for target, expected in ((3, 3), (4, 7), (5, 7), (7, 7), (8, 8), (9, 10), (20, 20)):
            assert after(*made, BumpAckedUntil(target)).acked_until == expected

    def test_a_bump_takes_what_lies_below(self) -> None:
        state = after(MarkInflight(1, 50, 1), MarkInflight(8, 60, 1), Release(2, 1), Release(9, 2))
        state.apply(BumpAckedUntil(5))
        assert view_of(state) == View(5, (), ((8, Inflight(60, 1)),), ((9, 2),))
        assert state.next_expiry_ms() == 60

    def test_a_bump_to_the_end_leaves_nothing_to_do(self) -> None:
        state = after(Ack(3), MarkInflight(5, 50, 1), Release(6, 1), BumpAckedUntil(10))
        assert view_of(state) == View(10)
        assert (available(state), state.lag(10)) == ([], 0)

    @pytest.mark.parametrize("target", [2, 5, 9], ids=["backwards", "in place", "forwards"])
    def test_a_commit_sets_the_position_and_forgets_the_rest(self, target: int) -> None:
        before = (BumpAckedUntil(5), Ack(7), MarkInflight(8, 50, 1), Release(9, 1))
        state = after(*before, Commit(target, 3, b"here"))
        assert view_of(state) == View(target, (), (), (), True, 3, b"here")
        assert available(state) == list(range(target, 10))
        assert state.next_expiry_ms() == NO_DEADLINE_MS

    def test_null_and_empty_metadata_are_two_things(self) -> None:
        assert after(Commit(1, None, None)).metadata is None
        assert after(Commit(1, None, b"")).metadata == b""

    def test_acks_and_bumps_leave_a_commits_metadata(self) -> None:
        state = after(Commit(1, 3, b"m"), Ack(1), BumpAckedUntil(9))
        assert view_of(state) == View(9, (), (), (), True, 3, b"m")

    def test_a_reset_leaves_nothing(self) -> None:
        state = after(Commit(5, 3, b"m"), Ack(7), MarkInflight(8, 50, 1), Release(9, 1), Reset())
        assert view_of(state) == EMPTY
        assert available(state) == list(range(10))


class TestLag:
    def test_counts_what_is_not_acked(self) -> None:
        state = after(BumpAckedUntil(3), Ack(5), Ack(6), MarkInflight(8, 50, 1))
        assert (state.lag(10), state.lag(3), state.lag(0)) == (5, 0, 0)

    def test_acks_beyond_the_end_do_not_hide_what_lies_below(self) -> None:
        assert after(Ack(3), Ack(50), Ack(51)).lag(10) == 9


class TestExpired:
    def test_the_earliest_first_and_only_what_is_due(self) -> None:
        state = after(MarkInflight(1, 70, 1), MarkInflight(2, 50, 2), MarkInflight(3, 71, 1))
        assert state.expired(49) == []
        assert state.expired(70) == [(2, Inflight(50, 2)), (1, Inflight(70, 1))]
        assert state.next_expiry_ms() == 50

    def test_stays_expired_until_it_is_released(self) -> None:
        state = after(MarkInflight(1, 50, 1))
        assert state.expired(60) == state.expired(60) == [(1, Inflight(50, 1))]
        state.apply(Release(1, 1))
        assert state.expired(60) == []

    def test_without_a_deadline_never(self) -> None:
        state = after(MarkInflight(1, NO_DEADLINE_MS, 1))
        assert state.expired(NO_DEADLINE_MS - 1) == []
        assert state.next_expiry_ms() == NO_DEADLINE_MS

    @pytest.mark.parametrize("between", [(), (ClearInflight(1),), (Release(1, 1),), (Commit(0, None, None),)])
    def test_the_same_deadline_again_expires_once(self, between: tuple[Event, ...]) -> None:
        state = after(MarkInflight(1, 50, 1), *between, MarkInflight(1, 50, 2))
        assert state.expired(60) == [(1, Inflight(50, 2))]
        assert state.expired(60) == [(1, Inflight(50, 2))]

    def test_a_deadline_that_was_moved_and_moved_back_expires_once(self) -> None:
        state = after(MarkInflight(1, 50, 1), MarkInflight(1, 80, 1), MarkInflight(1, 50, 1))
        assert state.expired(90) == [(1, Inflight(50, 1))]

    def test_stale_deadlines_do_not_pile_up(self) -> None:
        state = GroupState()
        for number in range(10_000):
            state.apply(MarkInflight(number % 3, 50 + number, 1))
        assert len(state._deadlines._heap) < 200
        assert state.next_expiry_ms() == 50 + 9_997


def check_invariants(state: GroupState) -> None:
    """What the module's docstring says, through the public names and against the set behind `available`."""
    acked, inflight, releases = list(state.acked), set(state.inflight), set(state.releases)
    assert all(held.start > state.acked_until for held in acked)
    assert all(before.end < behind.start for before, behind in pairwise(acked))
    taken_twice = [offset for offset in inflight | releases if state.is_acked(offset)]
    assert not taken_twice
    assert not inflight & releases
    free = {offset for gap in state.available(0, OFFSETS + 5) for offset in range(*gap)}
    assert releases <= free
    for offset in range(OFFSETS + 5):
        assert state.is_acked(offset) + state.is_inflight(offset) + (offset in free) == 1


@given(st.lists(events, max_size=60))
def test_any_events_give_what_the_model_has(made: list[Event]) -> None:
    state, model = GroupState(), PlainGroup()
    for event in made:
        state.apply(event)
        model.apply(event)
        check_invariants(state)
        assert view_of(state) == model.view()
        assert state.next_expiry_ms() == model.next_expiry_ms()
    for start in (0, 3, OFFSETS):
        assert available(state, start, OFFSETS + 3) == model.available(start, OFFSETS + 3)
    for now_ms in (NOW_MS, NOW_MS + 50, NO_DEADLINE_MS - 1):
        expired = state.expired(now_ms)
        assert sorted(expired) == model.expired(now_ms)
        assert [entry.deadline_ts_ms for _, entry in expired] == sorted(
            entry.deadline_ts_ms for _, entry in expired
        )
    unacked = sum(not model.is_acked(offset) for offset in range(OFFSETS))
    assert state.lag(OFFSETS) == unacked


@given(st.lists(events, max_size=40), st.lists(events, max_size=20))
def test_a_snapshot_is_the_state(made: list[Event], later: list[Event]) -> None:
    state = after(*made)
    taken = state.snapshot(created_ts_ms=1, tp_hash=2, group_hash=3, generation=4)
    copy = GroupState.of(decode_snapshot(encode_snapshot(taken)))
    for event in (None, *later):
        if event is not None:
            state.apply(event)
            copy.apply(event)
        check_invariants(copy)
        assert view_of(copy) == view_of(state)
        assert copy.next_expiry_ms() == state.next_expiry_ms()
        assert sorted(copy.expired(NOW_MS + 50)) == sorted(state.expired(NOW_MS + 50))
    assert (taken.created_ts_ms, taken.tp_hash, taken.group_hash, taken.generation) == (1, 2, 3, 4)


class TestAvailableWithAHundredThousandInflight:
    """What is looked at is counted, not timed."""

    @pytest.fixture
    def looked_at(self, monkeypatch: pytest.MonkeyPatch) -> list[Range]:
        seen: list[Range] = []
        plain = RangeSet._from

        def counted(ranges: RangeSet, offset: int) -> Iterator[Range]:
            for held in plain(ranges, offset):
                seen.append(held)
                yield held

        monkeypatch.setattr(RangeSet, "_from", counted)
        return seen

    def test_in_one_stretch_they_are_passed_over_at_once(self, looked_at: list[Range]) -> None:
        state = after(*(MarkInflight(offset, 50, 1) for offset in range(HUNDRED_THOUSAND)))
        for start in (0, 50_000):
            assert available(state, start, HUNDRED_THOUSAND + 3) == [100_000, 100_001, 100_002]
        assert len(looked_at) == 2

    def test_scattered_only_those_on_the_way_are_looked_at(self, looked_at: list[Range]) -> None:
        state = after(*(MarkInflight(2 * number + 1, 50, 1) for number in range(HUNDRED_THOUSAND)))
        for start in (0, 100_000, 150_001):
            looked_at.clear()
            gaps = state.available(start, 2 * HUNDRED_THOUSAND)
            assert [next(gaps).start for _ in range(10)] == [start + start % 2 + 2 * n for n in range(10)]
            assert len(looked_at) <= 12
