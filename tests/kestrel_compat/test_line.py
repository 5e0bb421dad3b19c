"""A line does what a plain table of offsets does, and its events say so to Stroma."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barbicel.codecs.stroma_events import Ack, BumpAckedUntil, MarkInflight, Release
from barbicel.codecs.stroma_format import MAX_EPOCH, NO_DEADLINE_MS
from barbicel.kestrel_compat.items import Item, Mark, Stretch
from barbicel.kestrel_compat.line import Line
from barbicel.stroma.ranges import RangeSet
from barbicel.stroma.state import GroupState

GROUP = "kestrel"


def item_at(offset: int, data: bytes = b"x") -> Item:
    return Item(offset, data, 0, None, 1000)


def stretch(start: int, end: int, *, without: tuple[int, ...] = ()) -> Stretch:
    return Stretch(start, end, [item_at(at) for at in range(start, end) if at not in without], {}, [])


def new_line(frontier: int = 0, **more: Any) -> Line:
    return Line(GROUP, frontier, more.get("acked", RangeSet()), more.get("deliveries", {}))


# --- by hand --------------------------------------------------------------------------------------------


def test_what_is_read_in_order_moves_the_frontier_alone() -> None:
    line = new_line()
    line.receive(stretch(0, 3))
    for offset in range(3):
        line.ack(line.pop().offset)
        assert line.frontier == offset + 1
    assert line.take_events() == [BumpAckedUntil(3)]
    assert line.take_events() == []


def test_closing_out_of_order_is_told_offset_by_offset() -> None:
    line = new_line()
    line.receive(stretch(0, 3))
    assert [line.hand_out(line.pop(), None) for _ in range(3)] == [1, 1, 1]
    line.ack(2)
    line.ack(1)
    assert line.frontier == 0
    opened = [MarkInflight(offset, NO_DEADLINE_MS, 1) for offset in range(3)]
    assert line.take_events() == [*opened, Ack(2), Ack(1)]
    line.ack(0)
    assert (line.frontier, len(line.acked)) == (3, 0)
    assert line.take_events() == [BumpAckedUntil(3)]


def test_what_comes_back_is_in_front_in_the_order_of_the_log() -> None:
    line = new_line()
    line.receive(stretch(0, 5))
    opened = [line.pop() for _ in range(3)]
    for item in opened:
        line.hand_out(item, 5000)
    for item in (opened[1], opened[2], opened[0]):
        line.give_back(item)
    assert [line.pop().offset for _ in range(5)] == [0, 1, 2, 3, 4]


def test_a_delivery_is_told_from_a_later_one_of_the_same_item() -> None:
    line = new_line()
    line.receive(stretch(0, 1))
    item = line.pop()
    first = line.hand_out(item, 5000)
    line.give_back(item)
    second = line.hand_out(line.pop(), 6000)
    assert (first, second) == (1, 2)
    assert not line.is_open(item, first)
    assert line.is_open(item, second)
    assert line.take_events() == [MarkInflight(0, 5000, 1), Release(0, 1), MarkInflight(0, 6000, 2)]


def test_the_count_of_deliveries_stops_at_the_last_number() -> None:
    line = new_line(deliveries={0: MAX_EPOCH})
    line.receive(stretch(0, 1))
    assert line.hand_out(line.pop(), None) == MAX_EPOCH


def test_offsets_without_an_item_are_done_with() -> None:
    line = new_line()
    line.receive(stretch(0, 6, without=(0, 1, 3, 5)))
    assert line.frontier == 2
    assert line.take_events() == [Ack(3), Ack(5), BumpAckedUntil(2)]
    line.ack(line.pop().offset)
    line.ack(line.pop().offset)
    assert (line.frontier, line.take_events()) == (6, [BumpAckedUntil(6)])


def test_what_is_for_others_is_passed_over() -> None:
    line = new_line()
    found = stretch(0, 3)
    found.audiences.update({0: frozenset(["kestrel+a"]), 1: frozenset([GROUP, "kestrel+a"]), 2: frozenset()})
    line.receive(found)
    assert line.pop().offset == 1
    assert line.head() is None
    assert line.frontier == 1


def test_a_stretch_that_comes_late_brings_nothing_back() -> None:
    """A flush does not wait for a read that is under way."""
    line = new_line()
    line.flush(10)
    line.receive(stretch(0, 5))
    line.receive(stretch(0, 12))
    assert [line.pop().offset, line.pop().offset, line.head()] == [10, 11, None]


def test_nothing_may_be_passed_over_unread() -> None:
    line = new_line()
    with pytest.raises(AssertionError):
        line.receive(stretch(1, 3))


def test_a_flush_leaves_open_reads_and_tells_how_many_items_went() -> None:
    line = new_line()
    line.items, line.bytes = 5, 5
    line.receive(stretch(0, 3))
    opened = line.pop()
    line.hand_out(opened, None)
    assert line.flush(5) == 4
    assert (line.items, line.bytes, line.held_items, line.ahead_bytes) == (0, 0, 0, 0)
    assert (line.frontier, list(line.acked), line.cursor) == (0, [(1, 5)], 5)
    line.give_back(opened)
    assert line.pop() == opened


def test_what_is_passed_over_is_not_counted_as_delivered_any_more() -> None:
    """Or else the table would grow by what retention takes."""
    line = new_line(deliveries={1: 2, 5: 1, 8: 3})
    line.receive(Stretch(0, 7, [], {}, []))
    assert line.deliveries == {8: 3}


def test_what_was_read_ahead_is_read_again() -> None:
    line = new_line()
    line.receive(stretch(0, 4))
    line.hand_out(line.pop(), None)
    line.forget_ahead()
    assert (line.cursor, line.held_items, line.ahead_bytes, line.held_bytes) == (2, 0, 0, 0)
    assert (line.first(), line.head(), line.missing) == (item_at(1).mark, None, 1)
    line.restore(stretch(1, 2))
    line.receive(stretch(2, 4))
    assert [line.pop().offset for _ in range(3)] == [1, 2, 3]


def test_what_came_back_is_forgotten_too() -> None:
    line = new_line()
    line.receive(stretch(0, 4))
    opened = line.pop()
    line.hand_out(opened, None)
    line.give_back(opened)
    line.forget_ahead()
    assert (line.cursor, line.held_items, line.missing) == (1, 0, 0)
    line.restore(stretch(0, 1))
    assert (line.missing, line.pop()) == (None, opened)


def test_what_came_back_and_is_not_in_the_log_any_more_is_done_with() -> None:
    line = new_line()
    line.items = line.bytes = 4
    line.receive(stretch(0, 4))
    for item in [line.pop() for _ in range(3)]:
        line.hand_out(item, None)
        line.give_back(item.mark)
    assert (line.items, line.bytes, line.held_items) == (4, 4, 1)
    line.restore(Stretch(0, 3, [item_at(1)], {}, []))
    assert (line.items, line.bytes, line.frontier, list(line.acked)) == (2, 2, 1, [(2, 3)])
    assert line.deliveries == {1: 1}
    assert [line.pop().offset for _ in range(2)] == [1, 3]


def test_what_came_back_meanwhile_keeps_its_place() -> None:
    """Somebody aborts while it is read again what comes later."""
    line = new_line()
    line.receive(stretch(0, 4))
    opened = [line.pop() for _ in range(4)]
    for item in opened:
        line.hand_out(item, None)
    line.give_back(opened[2].mark)
    line.give_back(opened[1])
    line.give_back(opened[0].mark)
    line.give_back(opened[3].mark)
    line.restore(stretch(2, 3))
    assert line.missing == 0
    line.restore(stretch(0, 1))
    assert [line.pop().offset for _ in range(3)] == [0, 1, 2]
    assert line.missing == 3


def test_what_was_closed_before_a_restart_does_not_come_back() -> None:
    """Though the frontier has passed it when it is read."""
    line = new_line(acked=RangeSet([(1, 3)]))
    line.receive(stretch(0, 1))
    line.ack(line.pop().offset)
    assert (line.frontier, line.cursor) == (3, 3)
    line.receive(stretch(1, 2))
    line.receive(stretch(1, 4))
    assert [line.pop().offset, line.head()] == [3, None]


# --- against a table of offsets -------------------------------------------------------------------------


@dataclass
class Model:
    """What there is at each offset of the log, and what became of it. Sizes are of items for this line."""

    sizes: list[int | None] = field(default_factory=list)
    is_everybodys: list[bool] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    open: dict[int, int] = field(default_factory=dict)
    moving: set[int] = field(default_factory=set)
    deliveries: dict[int, int] = field(default_factory=dict)
    # What came back, and is handed out before all else.
    front: set[int] = field(default_factory=set)
    # Open elsewhere, and until when; which of it is still counted, and what of it is not counted yet.
    lent: dict[int, int] = field(default_factory=dict)
    lent_and_counted: set[int] = field(default_factory=set)
    uncounted: set[int] = field(default_factory=set)

    @property
    def frontier(self) -> int:
        return next(offset for offset in range(len(self.sizes) + 1) if offset not in self.done)

    @property
    def waiting(self) -> list[int]:
        return [
            offset
            for offset, size in enumerate(self.sizes)
            if size is not None
            and offset not in self.done
            and offset not in self.open
            and offset not in self.moving
            and offset not in self.lent
        ]

    @property
    def next(self) -> int:
        return min(self.front) if self.front else self.waiting[0]

    @property
    def counted(self) -> list[int]:
        """In memory or not: what a queue is said to have."""
        return [at for at in self.waiting if at not in self.uncounted] + sorted(self.lent_and_counted)

    def finish(self, offset: int) -> None:
        self.done.add(offset)
        self.open.pop(offset, None)
        self.deliveries.pop(offset, None)
        for offsets in (self.moving, self.front, self.uncounted):
            offsets.discard(offset)

    def item(self, offset: int) -> Item:
        size = self.sizes[offset]
        assert size is not None
        return item_at(offset, b"x" * size)

    def stretch(self, start: int, end: int) -> Stretch:
        """As it is decoded: other groups' items are in it, and null values are not."""
        others = [at for at in range(start, end) if self.sizes[at] is None and not self.is_everybodys[at]]
        own = [at for at in range(start, end) if self.sizes[at] is not None]
        items = sorted([self.item(at) for at in own] + [item_at(at) for at in others])
        named = {at: frozenset(["kestrel+other"]) for at in others}
        named |= {at: frozenset([GROUP, "kestrel+x"]) for at in own if not self.is_everybodys[at]}
        return Stretch(start, end, items, named, [])


# (size, or None if the line gets nothing; whether it is for everybody or for somebody)
ENTRIES = st.tuples(st.none() | st.integers(0, 9), st.sampled_from([True, True, True, False]))


class LineMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.state = GroupState()
        self.line = new_line()

    # --- the log --------------------------------------------------------------------------------------

    @rule(entries=st.lists(ENTRIES, min_size=1, max_size=8))
    def append(self, entries: list[tuple[int | None, bool]]) -> None:
        for size, is_everybodys in entries:
            self.model.sizes.append(size)
            self.model.is_everybodys.append(is_everybodys)
            if size is not None:
                self.line.items += 1
                self.line.bytes += size

    @precondition(lambda self: self.line.cursor < len(self.model.sizes))
    @rule(back=st.integers(0, 3), ahead=st.integers(1, 6))
    def read(self, back: int, ahead: int) -> None:
        start = max(0, self.line.cursor - back)
        end = min(len(self.model.sizes), self.line.cursor + ahead)
        for offset in range(self.line.cursor, end):
            if self.model.sizes[offset] is None:
                self.model.finish(offset)
            self.model.uncounted.discard(offset)
            self.model.lent_and_counted.discard(offset)
        self.line.receive(self.model.stretch(start, end))

    @rule()
    def forget_ahead(self) -> None:
        """What nobody may read a second time, because it lies before something lent, is marked too."""
        self.line.forget_ahead()
        assert self.line.held_items == 0
        marked = {held.offset for held in self.line._returned}
        assert self.model.front <= marked
        self.model.front = marked

    @precondition(lambda self: self.line.missing is not None)
    @rule(ahead=st.integers(1, 4), is_lost=st.booleans())
    def read_again(self, ahead: int, is_lost: bool) -> None:
        start = self.line.missing
        assert start is not None
        end = min(len(self.model.sizes), start + ahead)
        stretch = self.model.stretch(start, end)
        if is_lost:
            self.model.finish(start)
            stretch = stretch._replace(items=[item for item in stretch.items if item.offset != start])
        self.line.restore(stretch)

    # --- items ----------------------------------------------------------------------------------------

    def take(self) -> Item:
        offset = self.model.next
        item = self.line.pop()
        assert item == self.model.item(offset)
        self.model.front.discard(offset)
        return item

    @precondition(lambda self: self.line.head() is not None)
    @rule()
    def get(self) -> None:
        item = self.take()
        self.line.ack(item.offset)
        self.model.finish(item.offset)

    @precondition(lambda self: self.line.head() is not None)
    @rule(deadline_ms=st.none() | st.integers(0, 10_000))
    def open(self, deadline_ms: int | None) -> None:
        item = self.take()
        count = self.model.open[item.offset] = self.model.deliveries.pop(item.offset, 0) + 1
        assert self.line.hand_out(item, deadline_ms) == count
        assert self.line.is_open(item, count)

    @precondition(lambda self: self.line.head() is not None)
    @rule()
    def begin_to_move(self) -> None:
        self.model.moving.add(self.take().offset)

    @precondition(lambda self: self.model.moving)
    @rule(data=st.data())
    def end_move(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.model.moving)))
        self.line.ack(offset)
        self.model.finish(offset)

    @precondition(lambda self: self.model.open)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.model.open)))
        self.line.ack(offset)
        self.model.finish(offset)

    @precondition(lambda self: self.model.open)
    @rule(data=st.data(), is_kept=st.booleans())
    def abort(self, data: st.DataObject, is_kept: bool) -> None:
        offset = data.draw(st.sampled_from(sorted(self.model.open)))
        item = self.model.item(offset)
        self.line.give_back(item if is_kept else item.mark)
        self.model.deliveries[offset] = self.model.open.pop(offset)
        self.model.front.add(offset)

    @rule()
    def flush(self) -> None:
        model, cursor = self.model, self.line.cursor
        assert self.line.flush(len(model.sizes)) == len(model.counted)
        for offset in range(len(model.sizes)):
            if offset not in model.open and offset not in model.lent:
                model.finish(offset)
        model.lent_and_counted.clear()
        model.uncounted = {offset for offset in model.lent if offset >= cursor}

    @precondition(lambda self: self.model.lent)
    @rule(now_ms=st.integers(0, 30))
    def take_back(self, now_ms: int) -> None:
        model = self.model
        due = [offset for offset, deadline_ms in model.lent.items() if deadline_ms <= now_ms]
        assert self.line.take_back(now_ms) == bool(due)
        for offset in due:
            del model.lent[offset]
            model.lent_and_counted.discard(offset)
            if offset < self.line.cursor:
                model.front.add(offset)

    # --- Stroma ---------------------------------------------------------------------------------------

    def replay(self) -> None:
        for event in self.line.take_events():
            self.state.apply(event)

    @rule()
    def write(self) -> None:
        """Not after every step: a turn has the events of many."""
        self.replay()
        assert self.state.acked_until == self.line.frontier
        assert list(self.state.acked) == list(self.line.acked)
        lent = dict.fromkeys(self.line.lent, 0)
        inflight = {offset: held.epoch for offset, held in self.state.inflight.items()}
        assert inflight == self.line.open | lent
        assert self.state.releases == self.line.deliveries

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """Some of what nobody has seen is found to be lent."""
        self.replay()
        for offset, held in list(self.state.inflight.items()):
            if held.epoch:
                self.state.apply(Release(offset, held.epoch))
        model = self.model
        model.deliveries |= model.open
        for offsets in (model.open, model.moving, model.front, model.uncounted):
            offsets.clear()
        self.lend(data)
        self.line = Line(
            GROUP,
            self.state.acked_until,
            self.state.acked.copy(),
            dict(self.state.releases),
            dict(model.lent),
        )
        model.lent_and_counted = set(model.lent)
        sizes = [model.sizes[offset] or 0 for offset in model.counted]
        self.line.items, self.line.bytes = len(sizes), sum(sizes)

    def lend(self, data: st.DataObject) -> None:
        unseen = [offset for offset in self.model.waiting if offset not in self.model.deliveries]
        for offset in data.draw(st.sets(st.sampled_from(unseen), max_size=3)) if unseen else ():
            deadline_ms = self.model.lent[offset] = data.draw(st.integers(1, 40))
            self.state.apply(MarkInflight(offset, deadline_ms, 0))

    # --- what always holds ----------------------------------------------------------------------------

    @invariant()
    def has_what_the_table_has(self) -> None:
        line, model = self.line, self.model
        assert line.frontier == model.frontier
        assert {at for held in line.acked for at in range(*held)} == {
            offset for offset in model.done if offset > model.frontier
        }
        assert (line.open, line.deliveries) == (model.open, model.deliveries)
        assert line.frontier <= line.cursor
        counted = model.counted
        assert (line.items, line.bytes) == (len(counted), sum(model.sizes[at] or 0 for at in counted))
        assert line.lent == model.lent

    @invariant()
    def holds_what_it_says(self) -> None:
        known = [offset for offset in self.model.waiting if offset < self.line.cursor]
        marked = {held.offset for held in self.line._returned if isinstance(held, Mark)}
        held = [offset for offset in known if offset not in marked]
        assert marked <= set(known)
        assert self.line.held_items == len(held)
        assert self.line.ahead_bytes == sum(self.model.sizes[offset] or 0 for offset in held)
        first = self.line.first()
        assert (None if first is None else first.offset) == (self.model.next if known else None)
        missing = first.offset if first is not None and first.offset in marked else None
        assert (self.line.missing, self.line.head()) == (missing, None if missing is not None else first)


LineMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestLine = LineMachine.TestCase
