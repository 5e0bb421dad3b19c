"""Importing into a data directory, beside a bare write of the same bytes."""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from pathlib import Path
from statistics import median

from barbicel.disk import RealDisk
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.importing import ImportRules, import_family
from barbicel.gateway.migration.source import open_source
from barbicel.gateway.migration.watch import Quiet
from bench.migration.journals import ITEM_BYTES, JOURNALS, write_journal
from bench.report import Measurement, Target, compare
from bench.rounds import interleave

__all__ = ["measure_import"]

ITEMS = 200_000
GOAL = 100_000  # items a second
# A segment: the import syncs at its end at the latest.
PIECE_BYTES = 16 << 20


def measure_import(directory: str) -> list[Measurement]:
    journals = f"{directory}/journals"
    os.mkdir(journals)
    file, _ = write_journal(JOURNALS[-1], journals, ITEMS)
    took = interleave(
        {
            "import": partial(_import_seconds, journals, f"{directory}/imported"),
            "bare": partial(_write_bare, f"{journals}/{file.name}", f"{directory}/bare"),
        }
    )
    shutil.rmtree(journals)
    ours = [ITEMS / seconds for seconds in took["import"]]
    bare = [ITEMS / seconds for seconds in took["bare"]]
    reading = (
        f"a backlog of {ITEMS:,} items of {ITEM_BYTES} bytes into a new data directory: replayed, read, built"
        " into batches, appended and synced; until the import is in its ledger and the directory is closed."
    )
    return [
        compare(
            "import: a backlog",
            "items/s",
            ours,
            bare,
            against="bare write of the journal's bytes, synced every 16 MiB",
            reading=reading,
        ),
        Measurement(
            "import: a backlog, and the goal",
            median(ours),
            "items/s",
            "the same beside what was promised.",
            ratio=median(ours) / GOAL,
            spread=(min(ours) / GOAL, max(ours) / GOAL),
            against=f"the goal: {GOAL:,} items/s",
            target=Target(">=", 1),
        ),
    ]


def _import_seconds(journals: str, data: str) -> float:
    disk = RealDisk()
    start = time.perf_counter()
    source = open_source(disk, journals)
    with DirectoryTarget.open(disk, data) as target:
        outcome = import_family(source, source.families[0], target, [], ImportRules(), Quiet())
    took = time.perf_counter() - start
    assert (outcome.records, outcome.problem) == (ITEMS, None), outcome
    shutil.rmtree(data)
    return took


def _write_bare(journal: str, path: str) -> float:
    """Seconds for writing the journal's bytes, which are in memory, into a file."""
    data = memoryview(Path(journal).read_bytes())
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        start = time.perf_counter()
        for position in range(0, len(data), PIECE_BYTES):
            os.pwrite(fd, data[position : position + PIECE_BYTES], position)
            os.fdatasync(fd)
        return time.perf_counter() - start
    finally:
        os.close(fd)
        os.unlink(path)
