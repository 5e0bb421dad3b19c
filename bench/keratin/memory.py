"""What many open logs cost one process."""

from __future__ import annotations

import json
import subprocess
import sys

from bench.report import Measurement
from bench.rounds import ROOT

__all__ = ["measure_memory"]

LOGS = 200
READING = (
    f"a process with {LOGS} open logs and one Writer: 1,000 records of 1 KB appended to each with fsync, then"
    " each scanned."
)


def measure_memory(directory: str) -> list[Measurement]:
    command = [sys.executable, "-m", "bench.keratin.many_logs", f"{directory}/many", str(LOGS)]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    found: dict[str, int] = json.loads(output)
    peak_kib = found["peak_kib"]
    return [
        Measurement(
            f"memory, {LOGS} logs",
            peak_kib / 1024,
            "MiB",
            f"{READING} The peak of its resident memory, less the peak before the first log was opened.",
        ),
        Measurement("memory, a log", peak_kib / LOGS, "KiB", "the same, divided by the logs."),
        Measurement(
            f"threads, {LOGS} logs", found["threads"], "threads", "in that process, its main included."
        ),
    ]
