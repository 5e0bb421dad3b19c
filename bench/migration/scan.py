"""Scanning journals: decoding and replaying them, until it is known which items are left."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from statistics import median

from barbicel.disk import File, RealDisk
from barbicel.kestrel_compat.journals.queue import JournalFile, ReplayedQueue
from barbicel.kestrel_compat.journals.replay import PIECE_BYTES, replay
from bench.migration.journals import ITEM_BYTES, JOURNALS, Journal, write_journal
from bench.report import Measurement, Target, compare
from bench.rounds import interleave

__all__ = ["measure_scan"]

ITEMS = 200_000
GOAL = 1_000_000  # operations a second


def measure_scan(directory: str) -> list[Measurement]:
    rows = []
    for journal in JOURNALS:
        file, operations = write_journal(journal, directory, ITEMS)
        rows += _scan(directory, journal, file, operations)
        if journal is JOURNALS[-1]:
            rows.append(_read_items(directory, file))
        Path(directory, file.name).unlink()
    return rows


def _scan(directory: str, journal: Journal, file: JournalFile, operations: int) -> list[Measurement]:
    took = interleave(
        {
            "scan": partial(_replay_seconds, directory, file, operations),
            "bare": partial(_read_bare, directory, file),
        }
    )
    ours = [operations / seconds for seconds in took["scan"]]
    bare = [operations / seconds for seconds in took["bare"]]
    name = f"scan: {journal.name}"
    reading = (
        f"{operations:,} operations on {ITEMS:,} items of {ITEM_BYTES} bytes, from the page cache:"
        f" {journal.reading}. Decoded and replayed."
    )
    return [
        compare(name, "ops/s", ours, bare, against="bare read of the same bytes", reading=reading),
        Measurement(
            f"{name}, and the goal",
            median(ours),
            "ops/s",
            "the same beside what was promised.",
            ratio=median(ours) / GOAL,
            spread=(min(ours) / GOAL, max(ours) / GOAL),
            against=f"the goal: {GOAL:,} ops/s",
            target=Target(">=", 1),
        ),
    ]


def _read_items(directory: str, file: JournalFile) -> Measurement:
    queue = _replay(directory, file)
    took = interleave({"items": partial(_read_seconds, queue), "bare": partial(_read_bare, directory, file)})
    return compare(
        "read the items that are left",
        "items/s",
        [ITEMS / seconds for seconds in took["items"]],
        [ITEMS / seconds for seconds in took["bare"]],
        against="bare read of the same bytes",
        reading=f"all {ITEMS:,} items of the backlog with their data and times, in order.",
    )


def _replay(directory: str, file: JournalFile) -> ReplayedQueue:
    disk = RealDisk()

    def open_file(name: str) -> File:
        return disk.open(f"{directory}/{name}", "read")

    return replay([file], open_file)


def _replay_seconds(directory: str, file: JournalFile, operations: int) -> float:
    start = time.perf_counter()
    queue = _replay(directory, file)
    took = time.perf_counter() - start
    assert (queue.operations, queue.doubts) == (operations, ()), queue
    return took


def _read_seconds(queue: ReplayedQueue) -> float:
    start = time.perf_counter()
    total = sum(len(item.data) for item in queue.items)
    took = time.perf_counter() - start
    assert total == ITEMS * ITEM_BYTES
    return took


def _read_bare(directory: str, file: JournalFile) -> float:
    """Seconds for reading the file in the pieces that the replay reads, into nothing."""
    fd = os.open(f"{directory}/{file.name}", os.O_RDONLY)
    try:
        start = time.perf_counter()
        position = 0
        while piece := os.pread(fd, PIECE_BYTES, position):
            position += len(piece)
        return time.perf_counter() - start
    finally:
        os.close(fd)
