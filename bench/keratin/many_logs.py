"""A process with many open logs says what it needs: `python -m bench.keratin.many_logs DIRECTORY LOGS`."""

from __future__ import annotations

import json
import os
import sys

from barbicel.keratin.log import Log
from barbicel.keratin.records import NewRecord
from barbicel.keratin.writer import Writer
from bench.process import read_status

RECORDS = 1000
PAYLOAD = os.urandom(1 << 10)


def main(directory: str, count: int) -> None:
    before_kib = read_status("VmHWM")
    logs = [Log.open(f"{directory}/{number}") for number in range(count)]
    with Writer() as writer:
        for log in logs:
            writer.append(log, [NewRecord(PAYLOAD) for _ in range(RECORDS)])
        for log in logs:
            if sum(1 for _ in log.scan(0)) != RECORDS:
                raise RuntimeError(f"{log.path} has lost records")
        found = {"peak_kib": read_status("VmHWM") - before_kib, "threads": read_status("Threads")}
    print(json.dumps(found))
    for log in logs:
        log.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
