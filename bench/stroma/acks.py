"""A million acks in an order that leaves as many ranges as possible."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from bench.report import Measurement, Target, compare
from bench.rounds import ROOT
from bench.stroma.scattered_acks import ACKS, ORDERS, STRETCH, Found

__all__ = ["measure_acks"]

# The one that ends with as many ranges as acks.
SCATTERED = "every second offset"


def measure_acks(directory: str) -> list[Measurement]:
    with ThreadPoolExecutor(len(ORDERS)) as pool:
        runs = dict(zip(ORDERS, pool.map(_run, ORDERS), strict=True))
    return [row for order, found in runs.items() for row in _rows(order, found)]


def _run(order: str) -> Found:
    """In a process of its own, whose memory nobody else has used."""
    command = [sys.executable, "-m", "bench.stroma.scattered_acks", order]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    return Found(**json.loads(output))


def _rows(order: str, found: Found) -> list[Measurement]:
    name = f"{ACKS:,} acks, {order}"
    reading = f"{ORDERS[order]}, none of which reaches the frontier; in memory, without a file."
    rows = [
        _last_stretch(name, found.stretches_us, reading),
        Measurement(
            f"{name}, memory",
            found.peak_kib / 1024,
            "MiB",
            f"the peak of the process' resident memory, less that before the first ack; up to"
            f" {found.most_ranges:,} ranges.",
        ),
    ]
    if order == SCATTERED:
        a_range = found.peak_kib * 1024 / found.ranges
        reading = f"the same, divided by the {found.ranges:,} ranges at the end, each of which is kept twice."
        rows.append(Measurement(f"{name}, a range", a_range, "bytes", reading))
    return rows


def _last_stretch(name: str, stretches_us: Sequence[float], reading: str) -> Measurement:
    return compare(
        name,
        "µs",
        [stretches_us[-1]],
        [stretches_us[0]],
        against=f"the first {STRETCH:,}",
        target=Target("<=", 3),
        reading=f"an ack of the last {STRETCH:,}, on average, in one run: {reading} Time on the"
        " processor, so that a process that waits for a core does not count; the orders run at the same time,"
        f" a process each. In the slowest stretch of {STRETCH:,} it was {max(stretches_us):.2f} µs.",
    )
