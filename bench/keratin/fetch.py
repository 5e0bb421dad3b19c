"""Fetching single records at random offsets, from the page cache."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from functools import partial

from barbicel.keratin.log import Log
from barbicel.keratin.settings import LogSettings
from bench.keratin.fill import SMALL_SEGMENTS, append_segments
from bench.report import Measurement, Target, compare
from bench.rounds import interleave

__all__ = ["measure_fetch"]

FETCHES = 4000
MANY = 100
FEW_OPEN = 64
MIB = 1 << 20
READING = f"{FETCHES} fetches of 1 KB records at random offsets a round, from the page cache."

# name → (segments, settings)
LOGS: dict[str, tuple[int, LogSettings]] = {
    "one": (1, SMALL_SEGMENTS),
    "many": (MANY, SMALL_SEGMENTS),
    "few open": (MANY, LogSettings(segment_max_bytes=MIB, max_open_segments=FEW_OPEN)),
    "one large": (1, LogSettings(segment_max_bytes=MANY * MIB)),
}


def measure_fetch(directory: str) -> list[Measurement]:
    with ExitStack() as logs:
        contenders = {}
        for name, (segments, settings) in LOGS.items():
            log = logs.enter_context(Log.open(f"{directory}/fetch {name}", settings=settings))
            append_segments(log, 1 << 10, segments)
            contenders[name] = partial(_fetch, log)
            contenders[name]()
        took = interleave(contenders)
    return _rows(took)


def _fetch(log: Log) -> float:
    """Microseconds for one fetch, on average."""
    offsets = random.Random(1).choices(range(log.end_offset), k=FETCHES)
    start = time.perf_counter()
    for offset in offsets:
        log.fetch(offset)
    return (time.perf_counter() - start) / FETCHES * 1e6


def _rows(took: dict[str, list[float]]) -> list[Measurement]:
    row = partial(compare, unit="µs", peer=took["one"], against="one segment of 1 MiB")
    return [
        row(
            "fetch, 100 segments",
            ours=took["many"],
            target=Target("<=", 1.5),
            reading=f"{READING} The log keeps up to {SMALL_SEGMENTS.max_open_segments} segments open.",
        ),
        row(
            f"fetch, 100 segments, {FEW_OPEN} open",
            ours=took["few open"],
            reading=f"{READING} The same with max_open_segments at {FEW_OPEN}: about every third fetch has to"
            " open a segment, as in any log that has more segments than it keeps open.",
        ),
        row(
            "fetch, 1 segment of 100 MiB",
            ours=took["one large"],
            reading=f"{READING} The same data in one segment: what it costs more than the peer is the"
            " size of the data, not the number of segments.",
        ),
    ]
