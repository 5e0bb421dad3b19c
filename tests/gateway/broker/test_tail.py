"""The newest batches in memory, against a plain list that remembers everything."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barbicel.gateway.broker.tail import BLOCK_BYTES, COMPACT_AFTER, SMALL_BYTES, Tail, TailBudget
from barbicel.gateway.broker.tail_block import OWN_BATCH_BYTES, OWN_BYTES

PARTITION_BYTES = 20_000
ALL_BYTES = 30_000
# What a tail needs to hold one batch of 100 bytes.
ONE_BYTES = 100 + OWN_BYTES + OWN_BATCH_BYTES


def view(size: int, fill: int = 1) -> memoryview:
    return memoryview(bytes([fill]) * size)


limits = st.integers(-1, 500) | st.integers(0, 2 * PARTITION_BYTES)
sizes = st.integers(1, 120) | st.sampled_from([SMALL_BYTES, SMALL_BYTES + 1, 9000, PARTITION_BYTES + 1])


class Tails(RuleBasedStateMachine):
    """Three tails of one budget; the model keeps every batch (base, end, bytes) of each."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = TailBudget(ALL_BYTES)
        self.tails = [Tail(self.budget, PARTITION_BYTES, 0) for _ in range(3)]
        self.model: list[list[tuple[int, int, bytes]]] = [[], [], []]
        self.ends = [0, 0, 0]

    @rule(number=st.integers(0, 2), span=st.integers(1, 3), size=sizes, gap=st.booleans())
    def append(self, number: int, span: int, size: int, gap: bool) -> None:
        base = self.ends[number] + gap
        end = base + span
        self.tails[number].append(base, end, view(size, base % 251))
        self.model[number].append((base, end, bytes(view(size, base % 251))))
        self.ends[number] = end

    @rule(number=st.integers(0, 2))
    def clear(self, number: int) -> None:
        self.tails[number].clear(self.ends[number])

    @rule(number=st.integers(0, 2), back=st.integers(-1, 12), limit=limits, one=st.booleans())
    def read(self, number: int, back: int, limit: int, one: bool) -> None:
        offset = self.ends[number] - back
        tail = self.tails[number]
        found = tail.read_batches(offset, limit, at_least_one=one)
        pieces = tail.read(offset, limit, at_least_one=one)
        if found is None:
            assert pieces is None
            return
        assert pieces is not None
        assert b"".join(pieces) == b"".join(found)
        wanted = [data for _, end, data in self.model[number] if end > offset]
        got = [bytes(one) for one in found]
        assert got == wanted[: len(got)]
        assert sum(map(len, got)) <= limit or (one and len(got) == 1) or not got
        if len(got) < len(wanted):
            fits = sum(map(len, wanted[: len(got) + 1])) <= limit
            assert not fits
            assert got or not one
        first_bytes = len(wanted[0]) if wanted else 0
        everything = sum(map(len, wanted))
        assert tail.available_bytes(offset, limit) == min(everything, max(limit, first_bytes))

    @invariant()
    def bounds_hold_and_the_sum_is_right(self) -> None:
        assert self.budget.used_bytes == sum(tail.held_bytes for tail in self.tails) <= ALL_BYTES
        for tail, end in zip(self.tails, self.ends, strict=True):
            assert tail.held_bytes <= PARTITION_BYTES
            assert tail.end_offset == end
            held = tail.read(tail.start_offset, 1 << 30, at_least_one=False)
            assert held is not None
            assert sum(map(len, held)) <= tail.held_bytes
            assert bool(tail.held_bytes) == (tail.start_offset < tail.end_offset)
            assert tail.held_bytes == sum(block.cost_bytes for block in tail._blocks[tail._first :])


TestTails = Tails.TestCase


def test_an_offset_inside_of_a_batch_leads_to_the_whole_batch() -> None:
    tail = Tail(TailBudget(10_000), 10_000, 10)
    tail.append(10, 15, view(10, 1))
    tail.append(15, 16, view(10, 2))
    for offset, first in ((10, 1), (14, 1), (15, 2)):
        found = tail.read(offset, 10, at_least_one=False)
        assert found is not None
        assert [one[0] for one in found] == [first]
    assert tail.read(16, 10, at_least_one=True) == []
    assert tail.read(9, 10, at_least_one=True) is None
    assert tail.read(17, 10, at_least_one=True) is None


def test_the_tail_that_was_silent_for_longest_gives_way() -> None:
    budget = TailBudget(2 * ONE_BYTES - 1)
    first, second = Tail(budget, 10_000, 0), Tail(budget, 10_000, 0)
    first.append(0, 1, view(100))
    second.append(0, 1, view(100))
    assert (first.held_bytes, second.held_bytes) == (0, ONE_BYTES)


def test_a_tail_that_holds_nothing_is_no_victim() -> None:
    """A batch larger than its partition's share leaves an empty tail in the budget's order."""
    budget = TailBudget(10_000)
    empty, full = Tail(budget, 10, 0), Tail(budget, 10_000, 0)
    empty.append(0, 1, view(50))
    full.append(0, 1, view(9000))
    full.append(1, 2, view(9000))
    assert full.read(1, 10_000, at_least_one=True) == [view(9000)]
    assert budget.used_bytes == full.held_bytes > 9000


def test_many_drops_leave_no_list_behind() -> None:
    tail = Tail(TailBudget(10_000), 10_000, 0)
    for number in range(3 * COMPACT_AFTER):
        tail.append(number, number + 1, view(SMALL_BYTES + 1))
    assert len(tail._blocks) <= COMPACT_AFTER + 2


@pytest.mark.parametrize("size", [68, 1000, SMALL_BYTES, SMALL_BYTES + 1])
def test_what_is_held_is_what_it_takes_in_memory(size: int) -> None:
    """However small the batches are, each of which came in a request of its own."""
    tail = Tail(TailBudget(2 << 20), 2 << 20, 0)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range((2 << 20) // size):
            tail.append(number, number + 1, memoryview(bytearray(size)))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken < 1.1 * tail.held_bytes <= 1.1 * (2 << 20)
    # Most of it is for batches all the same.
    assert tail.available_bytes(tail.start_offset, 2 << 20) > 0.7 * tail.held_bytes


def test_a_tail_of_one_small_batch_takes_little() -> None:
    """There may be thousands of partitions."""
    tail = Tail(TailBudget(1 << 20), 1 << 20, 0)
    tail.append(0, 1, view(100))
    assert tail.held_bytes == ONE_BYTES


def test_what_was_read_stays_as_it_is_while_more_is_appended() -> None:
    tail = Tail(TailBudget(1 << 20), 1 << 20, 0)
    tail.append(0, 1, view(100, 1))
    tail.append(1, 2, view(100, 2))
    (*_, last) = tail.read(0, 1 << 20, at_least_one=True) or []
    before = bytes(last)
    for number in range(2, 1000):
        tail.append(number, number + 1, view(100, 3))
    assert last == before


def test_small_batches_are_read_in_few_pieces() -> None:
    tail = Tail(TailBudget(4 << 20), 4 << 20, 0)
    for number in range(10_000):
        tail.append(number, number + 1, view(100))
    found = tail.read(0, 4 << 20, at_least_one=True) or []
    assert sum(map(len, found)) == 1_000_000
    assert len(found) < 2 * 1_000_000 / BLOCK_BYTES
    assert len(tail.read_batches(0, 4 << 20, at_least_one=True) or []) == 10_000


@given(st.integers(SMALL_BYTES + 1, SMALL_BYTES + 50), st.integers(0, 20_000))
def test_a_small_part_of_a_request_does_not_keep_the_request(size: int, rest: int) -> None:
    request = bytearray(size + rest)
    tail = Tail(TailBudget(1 << 20), 1 << 20, 0)
    tail.append(0, 1, memoryview(request)[:size])
    (held,) = tail.read(0, 1 << 20, at_least_one=True) or [memoryview(b"")]
    assert isinstance(held.obj, bytes | bytearray)
    assert len(held.obj) <= 2 * size
    assert tail.held_bytes >= len(held.obj)
