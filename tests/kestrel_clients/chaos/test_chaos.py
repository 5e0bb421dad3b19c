"""A short run against the real gateway; `make kestrel-chaos` is the long one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SECONDS = 6
SEED = 5
DEADLINE_S = 240


def test_kills_lose_nothing_and_bring_nothing_back(tmp_path: Path) -> None:
    """In its own process, so that the gateway has this one's core for itself."""
    command = [sys.executable, "-m", "tests.kestrel_clients.chaos", "--durability", "fsync"]
    ended = subprocess.run(
        [*command, "--seconds", str(SECONDS), "--seed", str(SEED)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ended.returncode == 0, ended.stdout
    assert ": 0 anomalies" in ended.stdout
    assert ended.stdout.count("kill ") >= 2
