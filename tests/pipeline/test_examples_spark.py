"""The examples with Spark run as they stand, in the session that all tests share."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.journals import write_journals
from tests.support.gateway import Gateway

Run: TypeAlias = Callable[..., list[str]]

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
# An example is a page.
MAX_LINES = 100
RUN_HERE = {"spark_migrate.py", "spark_stream_to_table.py", "spark_queue_dashboard.py"}


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    def run_example(name: str, *arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        capfd.readouterr()
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capfd.readouterr().out.splitlines()

    return run_example


def test_migrate(run: Run, gateway: Gateway, tmp_path: Path) -> None:
    journals = write_journals(tmp_path / "journals", queues=2, items=20)
    lines = run(
        "spark_migrate.py", str(journals), gateway.bootstrap, f"{gateway.host}:{gateway.kestrel_port}"
    )
    assert lines[0] == "fans: 10 items, 80 bytes, 0 open"
    assert "the import ended with exit code 0" in lines
    # The child's items are the queue's, but for one.
    counts = {line.split(":")[0]: int(line.split()[1]) for line in lines if " items, " in line}
    assert (
        lines[-1] == f"{counts['fans'] + 1 + counts['queue-0'] + counts['queue-1']} records are in the topics"
    )


def test_stream_to_a_table(run: Run, gateway: Gateway, tmp_path: Path) -> None:
    reason = "the value is not JSON of the form id BIGINT, customer STRING, cents BIGINT"
    for times in (1, 2):
        assert run("spark_stream_to_table.py", gateway.bootstrap, str(tmp_path)) == [
            f"customer 0: {7 * times} orders, {6300 * times} cents",
            f"customer 1: {7 * times} orders, {7000 * times} cents",
            f"customer 2: {6 * times} orders, {5700 * times} cents",
            f"put aside: 'hello?', because {reason}",
        ]


def test_dashboard(run: Run, gateway: Gateway) -> None:
    lines = run(
        "spark_queue_dashboard.py", gateway.bootstrap, f"{gateway.host}:{gateway.kestrel_port}", "pictures"
    )
    assert [line.split()[:3] for line in lines[:3]] == [
        [kind, "10", "items"] for kind in ("film", "photo", "scan")
    ]
    assert lines[-1] == "30 items have gone through pictures"


def test_every_example_is_a_page_and_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("spark_*.py")} == RUN_HERE
    for name in RUN_HERE:
        assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= MAX_LINES
