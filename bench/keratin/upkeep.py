"""What the log does now and then, while appends wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from barbicel.keratin.log import Log
from bench.keratin.fill import append_records
from bench.report import Measurement

__all__ = ["measure_upkeep"]

TIMES = 20
RECORDS = 1000


def measure_upkeep(directory: str) -> list[Measurement]:
    with Log.open(f"{directory}/upkeep") as log:
        return [
            _row("checkpoint", log, log.checkpoint, "the indexes and the manifest replaced."),
            _row("roll", log, log.roll, "the segment cut, synced and sealed, the next one created."),
        ]


def _row(name: str, log: Log, step: Callable[[], None], reading: str) -> Measurement:
    return Measurement(
        name,
        median(_time(log, step) for _ in range(TIMES)),
        "ms",
        f"{reading} The median of {TIMES}, each behind {RECORDS} synced records of 1 KB.",
    )


def _time(log: Log, step: Callable[[], None]) -> float:
    append_records(log, 1 << 10, RECORDS)
    log.sync()
    start = time.perf_counter()
    step()
    return (time.perf_counter() - start) * 1000
