"""A set of ranges against a plain set: the same offsets, and a structure that bounds what a change moves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.stroma_events import Ack
from barbicel.stroma import ranges as ranges_module
from barbicel.stroma.ranges import Range, RangeSet
from barbicel.stroma.state import GroupState

END = 60
TOP = (1 << 64) - 1
MILLION = 1_000_000

stretches = st.tuples(st.integers(0, END), st.integers(0, END)).map(lambda pair: (min(pair), max(pair)))
changes = st.lists(st.tuples(st.sampled_from(("add", "add", "remove")), stretches), max_size=40)


@pytest.fixture(params=[1, 2, 512], ids=["tiny blocks", "small blocks", "blocks"])
def block_ranges(request: pytest.FixtureRequest) -> Iterator[int]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges_module, "BLOCK_RANGES", request.param)
        yield request.param


def runs(offsets: set[int]) -> list[Range]:
    found: list[Range] = []
    for offset in sorted(offsets):
        if found and found[-1].end == offset:
            found[-1] = Range(found[-1].start, offset + 1)
        else:
            found.append(Range(offset, offset + 1))
    return found


def check_structure(ranges: RangeSet) -> None:
    """What the class says of itself, and what bounds the cost of a change."""
    held = list(ranges)
    assert all(item.start < item.end for item in held)
    assert all(before.end < behind.start for before, behind in pairwise(held))
    assert len(ranges) == len(held)
    assert ranges.covered == sum(item.end - item.start for item in held)
    assert ranges.first == (held[0] if held else None)
    blocks = ranges._blocks
    assert [block.starts[0] for block in blocks] == ranges._firsts
    assert all(len(block.starts) == len(block.ends) for block in blocks)
    assert all(0 < len(block.starts) <= 2 * ranges_module.BLOCK_RANGES for block in blocks)


class TestAgainstASet:
    @pytest.mark.usefixtures("block_ranges")
    def test_any_changes_give_the_same_offsets(self) -> None:
        @given(changes)
        def check(made: list[tuple[str, tuple[int, int]]]) -> None:
            ranges, plain = RangeSet(), set[int]()
            for change, (start, end) in made:
                if change == "add":
                    ranges.add(start, end)
                    plain |= set(range(start, end))
                else:
                    ranges.remove(start, end)
                    plain -= set(range(start, end))
                check_structure(ranges)
                assert list(ranges) == runs(plain)
            for offset in range(END + 1):
                found = ranges.range_at(offset)
                assert (offset in ranges) == (offset in plain) == (found is not None)
                assert found is None or found.start <= offset < found.end

        check()

    @pytest.mark.usefixtures("block_ranges")
    def test_the_gaps_are_what_is_missing(self) -> None:
        @given(st.sets(st.integers(0, END)), stretches)
        def check(plain: set[int], stretch: tuple[int, int]) -> None:
            ranges = RangeSet(runs(plain))
            missing = {offset for offset in range(*stretch) if offset not in plain}
            assert list(ranges.gaps(*stretch)) == runs(missing)

        check()

    @pytest.mark.usefixtures("block_ranges")
    def test_ranges_given_in_any_order_make_one_set(self) -> None:
        @given(st.sets(st.integers(0, END)), st.randoms(use_true_random=False))
        def check(plain: set[int], random: Random) -> None:
            shuffled = runs(plain)
            random.shuffle(shuffled)
            ranges = RangeSet(shuffled)
            check_structure(ranges)
            assert list(ranges) == runs(plain)

        check()


class TestEdges:
    def test_touching_ranges_are_one(self) -> None:
        ranges = RangeSet([(0, 5), (10, 15)])
        ranges.add(5, 10)
        assert list(ranges) == [(0, 15)]

    def test_one_gap_apart_they_stay_two(self) -> None:
        assert list(RangeSet([(0, 5), (6, 9)])) == [(0, 5), (6, 9)]

    def test_taking_out_the_middle_splits(self) -> None:
        ranges = RangeSet([(0, 10)])
        ranges.remove(4, 6)
        assert list(ranges) == [(0, 4), (6, 10)]
        assert ranges.covered == 8

    def test_what_is_empty_changes_nothing(self) -> None:
        ranges = RangeSet([(3, 5)])
        for start, end in ((4, 4), (9, 9), (8, 2)):
            ranges.add(start, end)
            ranges.remove(start, end)
        assert list(ranges) == [(3, 5)]

    def test_one_range_swallows_many_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ranges_module, "BLOCK_RANGES", 2)
        ranges = RangeSet([(2 * number, 2 * number + 1) for number in range(1, 100)])
        assert len(ranges._blocks) > 20
        ranges.add(1, 199)
        check_structure(ranges)
        assert list(ranges) == [(1, 199)]
        assert len(ranges._blocks) == 1

    def test_clear_leaves_an_empty_set_that_can_be_filled(self) -> None:
        ranges = RangeSet([(1, 2), (5, 9)])
        ranges.clear()
        assert (list(ranges), len(ranges), ranges.covered, ranges.first) == ([], 0, 0, None)
        ranges.add(3, 4)
        assert list(ranges) == [(3, 4)]

    def test_the_offset_before_the_last_is_one_like_any_other(self) -> None:
        ranges = RangeSet([(TOP - 3, TOP - 2)])
        ranges.add(TOP - 1, TOP)
        check_structure(ranges)
        assert TOP - 1 in ranges
        assert TOP - 2 not in ranges
        ranges.add(TOP - 2, TOP - 1)
        assert list(ranges) == [(TOP - 3, TOP)]
        assert list(ranges.gaps(TOP - 5, TOP)) == [(TOP - 5, TOP - 3)]
        ranges.remove(TOP - 2, TOP)
        assert list(ranges) == [(TOP - 3, TOP - 2)]

    @pytest.mark.parametrize("held", [[], [(0, 1)], [(TOP - 1, TOP)]], ids=["empty", "far", "touching"])
    def test_the_last_offset_is_held_or_refused_and_never_half_taken_in(self, held: list[Range]) -> None:
        """The offset behind it does not fit in 64 bits."""
        ranges = RangeSet(held)
        try:
            ranges.add(TOP, TOP + 1)
        except (OverflowError, ValueError):
            assert list(ranges) == held
            assert TOP not in ranges
        else:
            assert TOP in ranges
        check_structure(ranges)


class TestAMillionAcksOutOfOrder:
    """The structure bounds the cost: a change moves one block, a range has its 16 bytes and little more."""

    def check(self, ranges: RangeSet, most_ranges: int) -> None:
        """`most_ranges` is how many there have been at once: a block keeps its memory until it is empty."""
        lengths = [len(block.starts) for block in ranges._blocks]
        assert sum(lengths) == len(ranges)
        assert max(lengths, default=0) <= 2 * ranges_module.BLOCK_RANGES
        assert len(lengths) <= most_ranges // ranges_module.BLOCK_RANGES + 1
        held_bytes = sum(sys.getsizeof(block.starts) + sys.getsizeof(block.ends) for block in ranges._blocks)
        assert held_bytes <= 24 * most_ranges + 256

    def test_in_random_order(self) -> None:
        offsets = list(range(MILLION))
        Random(3).shuffle(offsets)
        state = GroupState()
        most_ranges = 0
        for number, offset in enumerate(offsets):
            state.apply(Ack(offset))
            if number % 50_000 == 0:
                most_ranges = max(most_ranges, len(state.acked))
                self.check(state.acked, most_ranges)
                self.check(state._taken, most_ranges)
                assert state.lag(MILLION) == MILLION - number - 1
        assert most_ranges > MILLION // 5
        assert (state.acked_until, len(state.acked), len(state._taken)) == (MILLION, 0, 0)
        assert (state.acked._blocks, state.acked._firsts, state._taken._blocks) == ([], [], [])

    def test_of_every_second_offset(self) -> None:
        state = GroupState()
        for offset in range(1, 2 * MILLION, 2):
            state.apply(Ack(offset))
        self.check(state.acked, MILLION)
        self.check(state._taken, MILLION)
        assert (state.acked_until, len(state.acked)) == (0, MILLION)
        assert state.lag(2 * MILLION) == MILLION
        assert list(state.available(MILLION, MILLION + 4)) == [
            (MILLION, MILLION + 1),
            (MILLION + 2, MILLION + 3),
        ]
        state.apply(Ack(0))
        assert state.acked_until == 2
