"""Lines as one: every line keeps its order, and what they share is there once where their orders allow it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.gateway.migration import merge as merging
from barbicel.gateway.migration.merge import Merged, merge
from barbicel.kestrel_compat.journals.queue import JournalItem


def item(name: str, added_ms: int, expiry_ms: int | None = None) -> JournalItem:
    return JournalItem(name.encode(), added_ms, expiry_ms, "file", 0)


def texts(merged: Sequence[Merged]) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.item.data.decode(), one.lines) for one in merged]


def test_one_line_is_itself() -> None:
    items = [item("b", 2), item("a", 1), item("b", 2)]
    assert texts(list(merge([items]))) == [("b", (0,)), ("a", (0,)), ("b", (0,))]


def test_what_is_shared_is_there_once() -> None:
    master = [item("c", 3), item("d", 4)]
    child = [item("a", 1), item("b", 2), item("c", 3), item("d", 4), item("e", 5)]
    assert texts(list(merge([master, child]))) == [
        ("a", (1,)),
        ("b", (1,)),
        ("c", (0, 1)),
        ("d", (0, 1)),
        ("e", (1,)),
    ]


def test_items_of_the_same_millisecond_are_found_behind_the_head() -> None:
    master = [item("a", 5), item("b", 5), item("c", 5)]
    child = [item("b", 5), item("c", 5), item("own", 5)]
    assert [lines for _, lines in texts(list(merge([child, master])))] == [(1,), (0, 1), (0, 1), (0,)]


def test_another_time_or_expiry_is_another_item() -> None:
    assert len(list(merge([[item("a", 1)], [item("a", 2)], [item("a", 1, 9)]]))) == 3


def test_orders_that_contradict_each_other_are_both_kept() -> None:
    first, second = [item("a", 1), item("b", 2)], [item("b", 2), item("a", 1)]
    merged = list(merge([first, second]))
    assert len(merged) == 3
    for number, line in enumerate((first, second)):
        assert [one.item for one in merged if number in one.lines] == line


def test_an_item_that_was_taken_and_came_back_is_older_than_what_follows() -> None:
    master = [item("open", 1), item("x", 100)]
    child = [item("open", 1), item("mid", 50), item("x", 100)]
    assert [lines for _, lines in texts(list(merge([master, child])))] == [(0, 1), (1,), (0, 1)]


LINES = st.lists(
    st.lists(st.builds(item, st.sampled_from("abcd"), st.integers(1, 4)), max_size=12), min_size=1, max_size=4
)


@given(LINES, st.integers(1, 5), st.integers(1, 5))
def test_every_line_keeps_its_order(lines: list[list[JournalItem]], items: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "WINDOW_ITEMS", items)
        patch.setattr(merging, "WINDOW_BYTES", size)
        merged = list(merge(lines))
        assert merged == list(merge(lines))
    for number, line in enumerate(lines):
        assert [one.item for one in merged if number in one.lines] == line


@given(st.lists(st.sampled_from("abc"), max_size=20), st.lists(st.sets(st.integers(0, 19)), max_size=4))
def test_lines_out_of_one_order_are_stored_once(names: list[str], taken: list[set[int]]) -> None:
    """As a master and children that have each read something."""
    whole = [item(f"{name}{number}", number // 4) for number, name in enumerate(names)]
    lines = [
        [one for number, one in enumerate(whole) if number not in already] for already in [set[int](), *taken]
    ]
    assert [one.item for one in merge(lines)] == whole
