"""The examples with Kestrel's clients run as they stand, and print what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.gateway import Gateway

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
DEADLINE_S = 60
# An example is a page.
MAX_LINES = 100


def run(example: str, *arguments: str) -> list[str]:
    """The lines that an example prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def address(gateway: Gateway) -> str:
    return f"127.0.0.1:{gateway.kestrel_port}"


def test_worker(gateway: Gateway) -> None:
    for _ in range(2):
        assert run("kestrel_worker.py", address(gateway)) == [
            "4 pictures are waiting",
            "worker 1 has done lighthouse",
            "worker 1 gave broken back: it has no end",
            "worker 1 has done broken",
            "worker 2 has harbour, and dies",
            "worker 3 has done harbour",
            "worker 3 has done ferry",
            "nothing is left",
        ]


def test_fanout(gateway: Gateway) -> None:
    for _ in range(2):
        assert run("kestrel_fanout.py", address(gateway)) == [
            "billing has read ['a chair', 'a table', 'a reminder']",
            "shipping has read ['a chair', 'a table']",
            "the queue itself has ['a chair', 'a table']",
            "its children are shop+billing,shop+shipping",
            "billing has read ['a lamp'], and shipping is closed",
        ]


def test_both_protocols(gateway: Gateway) -> None:
    assert run("kestrel_and_kafka.py", address(gateway), gateway.bootstrap) == [
        "5 jobs were produced",
        *(f"job {number} is done, to be kept for 3600 s" for number in range(5)),
        "kestrel is at 6 of jobs",
        "kestrel is at 0 of results",
        "reports is at 5 of results",
    ]


def test_every_example_is_a_page_and_is_run_here() -> None:
    run_here = {"kestrel_worker.py", "kestrel_fanout.py", "kestrel_and_kafka.py"}
    assert {path.name for path in EXAMPLES.glob("kestrel_*.py")} == run_here
    for name in run_here:
        assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= MAX_LINES
