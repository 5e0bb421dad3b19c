"""Finding what can be handed out next, past much that cannot."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from typing import Literal

from barbicel.codecs.stroma_events import MarkInflight
from barbicel.stroma.state import GroupState
from bench.report import Measurement, Target, compare
from bench.rounds import interleave

__all__ = ["measure_available"]

MANY, FEW = 100_000, 100
CALLS = 10_000
WANTED = 100
WALKS = 1000
FLAT = Target("<=", 1.5)

Spacing = Literal[1, 2]
SPACINGS: dict[Spacing, str] = {1: "in one stretch", 2: "every second one"}


def measure_available(directory: str) -> list[Measurement]:
    return [row for spacing in SPACINGS for row in _measure(spacing)]


def _measure(spacing: Spacing) -> list[Measurement]:
    inflight = SPACINGS[spacing]
    row = partial(_row, spacing, _state(MANY, spacing), _state(FEW, spacing))
    reading = (
        f"{MANY:,} inflight, {inflight}; the peer is the same with {FEW} inflight. Time on the processor."
    )
    rows = [
        row(f"next available, {inflight}", _find_next, f"the first gap from offset 0: {reading}"),
        row(
            f"first {WANTED} available, {inflight}",
            _find_first,
            f"the first {WANTED} offsets from offset 0: {reading}",
        ),
    ]
    if spacing == 2:
        rows.append(
            row(
                f"next available from anywhere, {inflight}",
                _find_anywhere,
                f"the first gap from a random offset, as a consumer with its own position asks: {reading}",
            )
        )
    return rows


def _row(
    spacing: Spacing,
    many: GroupState,
    few: GroupState,
    name: str,
    find: Callable[[GroupState, int], float],
    reading: str,
) -> Measurement:
    end = 2 * MANY + WANTED
    for state in (many, few):
        find(state, end)
    took = interleave({"many": partial(find, many, end), "few": partial(find, few, end)})
    return compare(
        name,
        "µs",
        took["many"],
        took["few"],
        against=f"{FEW} inflight",
        target=FLAT if spacing == 1 else None,
        reading=reading,
    )


def _state(held: int, spacing: int) -> GroupState:
    state = GroupState()
    for number in range(held):
        state.apply(MarkInflight(spacing * number, 1 << 41, 1))
    return state


def _find_next(state: GroupState, end: int) -> float:
    """Microseconds for one call, as in the two below."""
    start = time.thread_time()
    for _ in range(CALLS):
        next(state.available(0, end))
    return (time.thread_time() - start) / CALLS * 1e6


def _find_first(state: GroupState, end: int) -> float:
    start = time.thread_time()
    for _ in range(WALKS):
        offsets = chain.from_iterable(range(*gap) for gap in state.available(0, end))
        found = list(islice(offsets, WANTED))
    seconds = time.thread_time() - start
    if len(found) != WANTED or any(map(state.is_inflight, found)):
        raise RuntimeError(f"these are not {WANTED} available offsets: {found}")
    return seconds / WALKS * 1e6


def _find_anywhere(state: GroupState, end: int) -> float:
    held_end = 2 * len(state.inflight)
    positions = random.Random(1).choices(range(held_end), k=CALLS)
    start = time.thread_time()
    for position in positions:
        next(state.available(position, end))
    return (time.thread_time() - start) / CALLS * 1e6
