"""A process with many open logs that says what it needs: `python -m bench.keratin.many_logs DIRECTORY LOGS`.

It reads VmHWM and not ru_maxrss: both are the peak, but a process inherits ru_maxrss from the one that
started it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from barbicel.keratin.log import Log
from barbicel.keratin.records import NewRecord
from barbicel.keratin.writer import Writer

RECORDS = 1000
PAYLOAD = os.urandom(1 << 10)


def main(directory: str, count: int) -> None:
    before_kib = _status("VmHWM")
    logs = [Log.open(f"{directory}/{number}") for number in range(count)]
    with Writer() as writer:
        for log in logs:
            writer.append(log, [NewRecord(PAYLOAD) for _ in range(RECORDS)])
        for log in logs:
            if sum(1 for _ in log.scan(0)) != RECORDS:
                raise RuntimeError(f"{log.path} has lost records")
        found = {"peak_kib": _status("VmHWM") - before_kib, "threads": _status("Threads")}
    print(json.dumps(found))
    for log in logs:
        log.close()


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise LookupError(name)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
