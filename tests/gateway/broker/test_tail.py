"""The newest batches in memory, against a plain list that remembers everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barbicel.gateway.broker.tail import COMPACT_AFTER, Tail, TailBudget

PARTITION_BYTES = 100
ALL_BYTES = 150


def view(size: int, fill: int = 1) -> memoryview:
    return memoryview(bytes([fill]) * size)


class Tails(RuleBasedStateMachine):
    """Three tails of one budget; the model keeps every batch (base, end, bytes) of each."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = TailBudget(ALL_BYTES)
        self.tails = [Tail(self.budget, PARTITION_BYTES, 0) for _ in range(3)]
        self.model: list[list[tuple[int, int, bytes]]] = [[], [], []]
        self.ends = [0, 0, 0]

    @rule(number=st.integers(0, 2), span=st.integers(1, 3), size=st.integers(1, 120), gap=st.booleans())
    def append(self, number: int, span: int, size: int, gap: bool) -> None:
        base = self.ends[number] + gap
        end = base + span
        self.tails[number].append(base, end, view(size, base % 251))
        self.model[number].append((base, end, bytes(view(size, base % 251))))
        self.ends[number] = end

    @rule(number=st.integers(0, 2))
    def clear(self, number: int) -> None:
        self.tails[number].clear(self.ends[number])

    @rule(number=st.integers(0, 2), back=st.integers(-1, 12), limit=st.integers(-1, 200), one=st.booleans())
    def read(self, number: int, back: int, limit: int, one: bool) -> None:
        offset = self.ends[number] - back
        found = self.tails[number].read(offset, limit, at_least_one=one)
        if found is None:
            return
        wanted = [data for _, end, data in self.model[number] if end > offset]
        got = [bytes(one) for one in found]
        assert got == wanted[: len(got)]
        assert sum(map(len, got)) <= limit or (one and len(got) == 1) or not got
        if len(got) < len(wanted):
            fits = sum(map(len, wanted[: len(got) + 1])) <= limit
            assert not fits
            assert got or not one

    @invariant()
    def bounds_hold_and_the_sum_is_right(self) -> None:
        assert self.budget.used_bytes == sum(tail.held_bytes for tail in self.tails) <= ALL_BYTES
        for tail, end in zip(self.tails, self.ends, strict=True):
            assert tail.held_bytes <= PARTITION_BYTES
            assert tail.end_offset == end
            held = tail.read(tail.start_offset, 1 << 30, at_least_one=False)
            assert held is not None
            assert sum(map(len, held)) == tail.held_bytes


TestTails = Tails.TestCase


def test_an_offset_inside_of_a_batch_leads_to_the_whole_batch() -> None:
    tail = Tail(TailBudget(1000), 1000, 10)
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
    budget = TailBudget(100)
    first, second = Tail(budget, 100, 0), Tail(budget, 100, 0)
    first.append(0, 1, view(60))
    second.append(0, 1, view(60))
    assert (first.held_bytes, second.held_bytes) == (0, 60)


def test_a_tail_that_holds_nothing_is_no_victim() -> None:
    """A batch larger than its partition's share leaves an empty tail in the budget's order."""
    budget = TailBudget(100)
    empty, full = Tail(budget, 10, 0), Tail(budget, 100, 0)
    empty.append(0, 1, view(50))
    full.append(0, 1, view(90))
    full.append(1, 2, view(90))
    assert full.read(1, 1000, at_least_one=True) == [view(90)]
    assert budget.used_bytes == 90


def test_many_drops_leave_no_list_behind() -> None:
    tail = Tail(TailBudget(10), 10, 0)
    for number in range(3 * COMPACT_AFTER):
        tail.append(number, number + 1, view(10))
    assert len(tail._batches) <= COMPACT_AFTER + 1


@given(st.integers(1, 50), st.integers(0, 200))
def test_a_small_part_of_a_request_does_not_keep_the_request(size: int, rest: int) -> None:
    request = bytearray(size + rest)
    tail = Tail(TailBudget(1000), 1000, 0)
    tail.append(0, 1, memoryview(request)[:size])
    (held,) = tail.read(0, 1000, at_least_one=True) or [memoryview(b"")]
    assert isinstance(held.obj, bytes | bytearray)
    assert len(held.obj) <= 2 * size
