"""A process that writes a log and is killed: `python -m bench.keratin.killed_log PATH SEGMENTS`."""

from __future__ import annotations

import os
import signal
import sys

from barbicel.keratin.log import Log
from bench.keratin.fill import SMALL_SEGMENTS, append_records, append_segments

UNSYNCED_RECORDS = 100


def main(path: str, segments: int) -> None:
    log = Log.open(path, settings=SMALL_SEGMENTS)
    append_segments(log, 1 << 10, segments - 0.5)
    log.sync()
    append_records(log, 1 << 10, UNSYNCED_RECORDS)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
