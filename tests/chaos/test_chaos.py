"""A short run against the real gateway; `make chaos` is the long one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 6
SEED = 4
DEADLINE_S = 240


@pytest.mark.parametrize("mode", ["fsync", "tiered"])
def test_nothing_is_lost_repeated_or_reordered_when_the_gateway_is_killed(tmp_path: Path, mode: str) -> None:
    """In its own process: the clients leave sockets and threads behind, which is not ours to mend."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.chaos", str(SECONDS), str(SEED), mode],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ended.returncode == 0, ended.stdout
    assert ": 0 anomalies" in ended.stdout
    assert ended.stdout.count("kill ") >= 2
