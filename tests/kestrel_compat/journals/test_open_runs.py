"""The next xid is the plain counter's, and costs little in whatever journal."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from barbicel.kestrel_compat.journals import open_runs
from barbicel.kestrel_compat.journals.open_runs import MAX_XID, MIN_XID, OpenRuns
from tests.golden.kestrel.writer import addx, i32
from tests.kestrel_compat.journals.directory import JournalDirectory

NEAR_THE_ENDS = [*range(MIN_XID, MIN_XID + 12), *range(-6, 7), *range(MAX_XID - 11, MAX_XID + 1)]


def plain_next(xid: int, opened: set[int]) -> int:
    while True:
        xid = xid + 1 if xid < MAX_XID else MIN_XID
        if xid and xid not in opened:
            return xid


@given(st.lists(st.tuples(st.sampled_from("oconnn"), st.sampled_from(NEAR_THE_ENDS)), max_size=200))
def test_it_is_what_the_plain_counter_gives(steps: list[tuple[str, int]]) -> None:
    opened: set[int] = set()
    runs = OpenRuns()
    with_long_run, open_runs.LONG_RUN = open_runs.LONG_RUN, 2
    try:
        for step, xid in steps:
            if step == "o":
                opened.add(xid)
            elif step == "c":
                opened.discard(xid)
                runs.close(xid)
            else:
                expected = plain_next(xid, opened)
                assert runs.next_xid(xid, opened) == expected
                opened.add(expected)
    finally:
        open_runs.LONG_RUN = with_long_run


def test_a_counter_that_is_set_back_again_and_again_costs_little() -> None:
    """40,000 reads, before each of which the counter is set back: 800 million steps one by one."""
    count = 40_000
    raw = addx(b"x").raw * count + (b"\x04" + i32(0) + b"\x03") * count
    before = time.process_time()
    queue = JournalDirectory({"q": raw}).replay()
    assert time.process_time() - before < 10
    assert [one.xid for one in queue.open] == list(range(1, count + 1))
