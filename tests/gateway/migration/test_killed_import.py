"""kill -9 at random moments of an import, then again until it is done: each item exactly once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

from barbicel.disk import RealDisk
from barbicel.gateway.migration.verify import Verdict
from tests.gateway.migration.support import run_verify, stored
from tests.golden.kestrel.writer import addx

ITEMS = 20_000
KILLS = 6
DEADLINE_S = 120.0
POLL_S = 0.002


def write_journals(directory: Path) -> None:
    directory.mkdir()
    random = Random(60)
    with (directory / "q").open("wb") as master, (directory / "q+child").open("wb") as child:
        for number in range(ITEMS):
            raw = addx(b"%08d" % number + random.randbytes(1000), 1_300_000_000_000 + number).raw
            if number < ITEMS * 3 // 4:
                master.write(raw)
            if number > ITEMS // 4:
                child.write(raw)


def begin(tmp_path: Path) -> subprocess.Popen[bytes]:
    arguments = ["import-journals", str(tmp_path / "journals"), "--data", str(tmp_path / "data")]
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "barbicel.cli.main", *arguments],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def log_blocks(data: Path) -> int:
    """What the segments take on the disk, in blocks: it changes as the import goes on."""
    return sum(os.stat(path).st_blocks for path in data.glob("topics/q-*/0/segments/*.log"))


def kill_while_it_writes(process: subprocess.Popen[bytes], data: Path, random: Random) -> bool:
    """Whether it could be killed. It is given a random number of growths of the log."""
    growths, before = random.randrange(4), log_blocks(data)
    deadline = time.monotonic() + DEADLINE_S
    while process.poll() is None:
        assert time.monotonic() < deadline
        size = log_blocks(data)
        growths -= size != before
        before = size
        if growths < 0:
            process.kill()
            process.wait()
            return process.returncode < 0
        time.sleep(POLL_S)
    return False


def test_each_item_is_imported_once(tmp_path: Path) -> None:
    write_journals(tmp_path / "journals")
    random, killed = Random(9), 0
    while killed < KILLS:
        process = begin(tmp_path)
        if not kill_while_it_writes(process, tmp_path / "data", random):
            assert process.returncode == 0
            break
        killed += 1
    assert killed
    last = begin(tmp_path)
    assert last.wait(DEADLINE_S) == 0
    disk, source, data = RealDisk(), str(tmp_path / "journals"), str(tmp_path / "data")
    (verdict,) = run_verify(disk, source=source, data=data)
    assert verdict.verdict is Verdict.COMPLETE, verdict
    assert Counter(item[:8] for item in stored(disk, "q", data=data)) == Counter(
        b"%08d" % number for number in range(ITEMS)
    )
