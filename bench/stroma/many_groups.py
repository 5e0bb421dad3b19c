"""One group among very many on the disk."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice

from barbicel.codecs.stroma_events import DeltaHeader, MarkInflight, encode_delta_header, encode_event
from barbicel.stroma.layout import StoreLayout
from barbicel.stroma.names import GroupKey
from barbicel.stroma.store import GroupStore
from bench.report import Measurement, compare
from bench.rounds import interleave

__all__ = ["measure_many_groups"]

# A store may have 100,000: these are so few because making and removing the files takes longer than all else.
MANY, FEW = 20_000, 200
LOADS = 100
STEPS = 5000


def measure_many_groups(directory: str) -> list[Measurement]:
    for groups in (MANY, FEW):
        _write_groups(f"{directory}/{groups}", groups)
    contenders = {str(groups): partial(_load, f"{directory}/{groups}", groups) for groups in (MANY, FEW)}
    took = interleave(contenders)
    return [
        compare(
            f"load a group, {MANY:,} on the disk",
            "µs",
            took[str(MANY)],
            took[str(FEW)],
            against=f"{FEW:,} on the disk",
            reading=f"each has a delta with one event; {LOADS} random groups a round, from the page cache.",
        ),
        *_recover(f"{directory}/{MANY}"),
    ]


def _key(number: int) -> GroupKey:
    return GroupKey("topic", number, "group")


def _write_groups(path: str, groups: int) -> None:
    """With plain writes: through the store, each would be synced."""
    GroupStore.open(path).close()
    layout = StoreLayout(path)
    header = encode_delta_header(DeltaHeader(0, 1))
    for number in range(groups):
        event = encode_event(MarkInflight(0, (1 << 41) + number, 1))
        fd = os.open(layout.files(_key(number)).delta, os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(fd, header + event)
        os.close(fd)


def _load(path: str, groups: int) -> float:
    """Microseconds for one group, on average."""
    keys = [_key(number) for number in random.sample(range(groups), LOADS)]
    with GroupStore.open(path) as store:
        start = time.perf_counter()
        for key in keys:
            store.state(key)
        return (time.perf_counter() - start) / LOADS * 1e6


def _recover(path: str) -> list[Measurement]:
    with GroupStore.open(path) as store:
        steps = store.recover_deadlines()
        start = time.perf_counter()
        next(steps)
        first_ms = (time.perf_counter() - start) * 1000
        step_us = _step(steps)
    return [
        Measurement(
            "recover deadlines, first step",
            first_ms,
            "ms",
            f"the directory of {MANY:,} groups listed, and the first group read.",
        ),
        Measurement(
            "recover deadlines, a group",
            step_us,
            "µs",
            f"each further step, on average of {STEPS:,}.",
        ),
    ]


def _step(steps: Iterator[GroupKey]) -> float:
    start = time.perf_counter()
    for _ in islice(steps, STEPS):
        pass
    return (time.perf_counter() - start) / STEPS * 1e6
