"""Appending through the writer, each append acknowledged after its fsync, by several threads at once."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from statistics import mean, median

from barbicel.keratin.log import Log
from barbicel.keratin.records import Appended, NewRecord
from barbicel.keratin.writer import Writer
from bench.keratin.bare import append_bare, touch_blocks
from bench.keratin.counting_disk import CountingDisk
from bench.report import Measurement, Target, compare

__all__ = ["measure_append"]

PRODUCERS = 8
# More than elsewhere: nothing is as noisy as fsync.
ROUNDS = 7
# Where a round is over in half a second: the disk's pace changes by more than half from one to the next.
SHORT_ROUNDS = 21
DISTINCT_PAYLOADS = 128

Produce = Callable[[Writer, Log, Sequence[bytes]], None]


def produce_blocking(writer: Writer, log: Log, payloads: Sequence[bytes]) -> None:
    """One record after the other, each waited for."""
    for payload in payloads:
        writer.append(log, [NewRecord(payload)])


def produce_windowed(writer: Writer, log: Log, payloads: Sequence[bytes], window: int = 100) -> None:
    """Up to `window` records on their way, as a network front end has them."""
    answers: SimpleQueue[Appended | Exception] = SimpleQueue()
    for number, payload in enumerate(payloads):
        if number >= window:
            _raise_failure(answers.get())
        writer.submit(log, [NewRecord(payload)], answers.put)
    for _ in range(min(window, len(payloads))):
        _raise_failure(answers.get())


def _raise_failure(answer: Appended | Exception) -> None:
    if isinstance(answer, Exception):
        raise answer


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    payload_bytes: int
    producers: int
    # Of all producers together; each appends a multiple of the distinct payloads.
    records: int
    produce: Produce
    unit: str
    reading: str
    target: Target | None = None
    rounds: int = ROUNDS


LOADS = (
    Load(
        "append 64 KB, blocking",
        payload_bytes=64 << 10,
        producers=PRODUCERS,
        records=2048,
        produce=produce_blocking,
        unit="MB/s",
        target=Target(">=", 0.7),
        reading=f"{PRODUCERS} threads, each waits for the fsync of its record before the next one.",
    ),
    Load(
        "append 64 KB, window of 100",
        payload_bytes=64 << 10,
        producers=PRODUCERS,
        records=4096,
        produce=produce_windowed,
        unit="MB/s",
        target=Target(">=", 0.7),
        rounds=SHORT_ROUNDS,
        reading=f"{PRODUCERS} threads, each has up to 100 records on their way.",
    ),
    Load(
        "append 64 KB, one thread",
        payload_bytes=64 << 10,
        producers=1,
        records=2048,
        produce=partial(produce_windowed, window=PRODUCERS),
        unit="MB/s",
        reading=f"one thread, as a reactor is, has {PRODUCERS} records on their way: the first row without"
        " the cost of waking a thread for each record.",
    ),
    Load(
        "append 1 KB, blocking",
        payload_bytes=1 << 10,
        producers=PRODUCERS,
        records=6144,
        produce=produce_blocking,
        unit="records/s",
        reading=f"{PRODUCERS} threads, each waits for the fsync of its record before the next one.",
    ),
    Load(
        "append 1 KB, window of 100",
        payload_bytes=1 << 10,
        producers=PRODUCERS,
        records=40_960,
        produce=produce_windowed,
        unit="records/s",
        reading=f"{PRODUCERS} threads, each has up to 100 records on their way.",
    ),
)


def measure_append(directory: str) -> list[Measurement]:
    touch_blocks(directory, files=8)
    return [_measure(load, f"{directory}/append") for load in LOADS]


def _measure(load: Load, path: str) -> Measurement:
    # As many as a large group has, so that they come from memory and not from the processor's cache.
    payloads = [os.urandom(load.payload_bytes) for _ in range(DISTINCT_PAYLOADS)]
    ours: list[float] = []
    bare: dict[bool, list[float]] = {False: [], True: []}
    writes: list[int] = []
    for number in range(load.rounds):
        seconds, sizes = _append(load, path, payloads)
        ours.append(_rate(load, sizes, seconds))
        writes += sizes
        for preallocated in (False, True) if number % 2 == 0 else (True, False):
            seconds = append_bare(f"{path}.bare", sizes, preallocated=preallocated)
            bare[preallocated].append(_rate(load, sizes, seconds))
    preallocated = median(bare[True]) > median(bare[False])
    return compare(
        load.name,
        load.unit,
        ours,
        bare[preallocated],
        against=f"pwrite + fdatasync, {'preallocated' if preallocated else 'not preallocated'}",
        target=load.target,
        reading=f"{load.reading} Groups were {mean(writes) / 1000:.1f} kB on average; the peer is one thread"
        " that writes and syncs groups of the same sizes, its file preallocated in the same steps or not at"
        " all, whichever was faster. Ours includes the checkpoints that fall due.",
    )


def _append(load: Load, path: str, payloads: list[bytes]) -> tuple[float, list[int]]:
    """Seconds until the last answer, and the size of every write that it took."""
    disk = CountingDisk()
    share = payloads * (load.records // load.producers // len(payloads))
    with Log.open(path, disk=disk) as log, Writer() as writer, ThreadPoolExecutor(load.producers) as pool:
        os.sync()
        start = time.perf_counter()
        producers = [pool.submit(load.produce, writer, log, share) for _ in range(load.producers)]
        for producer in producers:
            producer.result()
        seconds = time.perf_counter() - start
    shutil.rmtree(path)
    return seconds, disk.sizes


def _rate(load: Load, sizes: list[int], seconds: float) -> float:
    return sum(sizes) / 1e6 / seconds if load.unit == "MB/s" else load.records / seconds
