"""Opening a log again, after a clean close and after its process was killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from functools import partial
from signal import SIGKILL
from statistics import median

from barbicel.keratin.log import Log
from bench.keratin.fill import SMALL_SEGMENTS, append_segments
from bench.report import Measurement, Target, compare
from bench.rounds import ROOT, interleave

__all__ = ["measure_reopen"]

SEGMENTS = (1, 100)
CLEAN_OPENS = 10
ROUNDS = 9
# One open each, and it syncs: nothing is as noisy.
KILLED_ROUNDS = 25
READING = "until Log.open returns, segments of 1 MiB with 1 KB records, the last one half full."


def measure_reopen(directory: str) -> list[Measurement]:
    clean = {}
    killed = {}
    for segments in SEGMENTS:
        path = f"{directory}/clean-{segments}"
        with Log.open(path, settings=SMALL_SEGMENTS) as log:
            append_segments(log, 1 << 10, segments - 0.5)
        clean[str(segments)] = partial(_open_clean, path)
        path = f"{directory}/killed-{segments}"
        _write_and_die(path, segments)
        killed[str(segments)] = partial(_open_killed, path)
    after_close = interleave(clean, ROUNDS)
    after_kill = interleave(killed, KILLED_ROUNDS)
    return [
        _row("clean close", after_close, f"{READING} The median of {CLEAN_OPENS} opens a round."),
        _row(
            "kill -9",
            after_kill,
            f"{READING} The process wrote 100 records that it did not sync and was killed; the file ends in"
            " preallocated zeros. Every open has a fresh copy of what it writes to, in the page cache.",
        ),
    ]


def _row(ending: str, took: dict[str, list[float]], reading: str) -> Measurement:
    return compare(
        f"reopen after {ending}, 100 segments",
        "ms",
        took["100"],
        took["1"],
        against="1 segment",
        target=Target("<=", 1.5),
        reading=reading,
    )


def _open_clean(path: str) -> float:
    """Milliseconds for one open."""
    return median(_open(path) for _ in range(CLEAN_OPENS)) * 1000


def _open_killed(path: str) -> float:
    copy = f"{path}.copy"
    active = max(name for name in os.listdir(f"{path}/segments") if name.endswith(".log"))
    shutil.copytree(path, copy, copy_function=partial(_copy, written_to=(active, "LOCK")))
    seconds = _open(copy)
    shutil.rmtree(copy)
    return seconds * 1000


def _copy(source: str, target: str, written_to: tuple[str, ...]) -> None:
    """Links will do for what is replaced or left alone: copying 100 MB would keep the disk busy meanwhile."""
    if source.endswith(written_to):
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def _open(path: str) -> float:
    os.sync()  # a log is not opened while its LOCK file is still on its way to the disk, as in a tight loop
    start = time.perf_counter()
    log = Log.open(path, settings=SMALL_SEGMENTS)
    seconds = time.perf_counter() - start
    log.close()
    return seconds


def _write_and_die(path: str, segments: int) -> None:
    command = [sys.executable, "-m", "bench.keratin.killed_log", path, str(segments)]
    ended = subprocess.run(command, cwd=ROOT, check=False)
    if ended.returncode != -SIGKILL:
        raise RuntimeError(f"{command} ended with {ended.returncode}")
