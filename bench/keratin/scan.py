"""Reading a log from its front to its end, from the page cache."""

from __future__ import annotations

import time
from functools import partial

from barbicel.keratin.layout import Layout
from barbicel.keratin.log import Log
from bench.keratin.bare import scan_bare
from bench.keratin.fill import append_records
from bench.report import Measurement, Target, compare
from bench.rounds import interleave

__all__ = ["measure_scan"]

LOG_BYTES = 256 << 20
READING = (
    "every record of {size} MB decoded, its CRC checked and handed over as views; the peer reads the same"
    " file through one 1 MiB buffer and takes a CRC-32C of every byte. Both from the page cache."
)


def measure_scan(directory: str) -> list[Measurement]:
    return [
        _measure(f"{directory}/scan-64k", "scan 64 KB", 64 << 10, "MB/s", Target(">=", 0.6)),
        _measure(f"{directory}/scan-1k", "scan 1 KB", 1 << 10, "records/s", None),
    ]


def _measure(path: str, name: str, payload_bytes: int, unit: str, target: Target | None) -> Measurement:
    count = LOG_BYTES // payload_bytes
    with Log.open(path) as log:
        size = append_records(log, payload_bytes, count)
        log.sync()
        file = Layout(path).log(0)
        scan_bare(file)
        seconds = interleave({"ours": partial(_scan, log, count), "bare": partial(scan_bare, file)})
    amount = size / 1e6 if unit == "MB/s" else count
    return compare(
        name,
        unit,
        [amount / taken for taken in seconds["ours"]],
        [amount / taken for taken in seconds["bare"]],
        against="readinto + crc32c",
        target=target,
        reading=READING.format(size=size // 10**6),
    )


def _scan(log: Log, expected: int) -> float:
    start = time.perf_counter()
    count = sum(1 for _ in log.scan(0))
    seconds = time.perf_counter() - start
    if count != expected:
        raise RuntimeError(f"scanned {count} records of {expected}")
    return seconds
