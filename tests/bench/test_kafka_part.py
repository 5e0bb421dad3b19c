"""The clients of the Kafka benchmark do what they are timed for, and its rows come out as promised."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.kafka import scale
from bench.kafka.clients import follow, run_client
from bench.kafka.driver import Job
from bench.kafka.hostile import measure_hostile
from bench.kafka.partitions import measure_partitions
from bench.kafka.servers import WRITE, GatewayUnderTest, Server, processor_seconds, running_servers
from bench.kafka.startup import measure_startup
from bench.kafka.throughput import measure_throughput
from bench.report import Measurement
from bench.rounds import ROOT
from tests.bench.rows import check_rows
from tests.rig.skipping import skip_without_rig

MESSAGES = 50


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running_servers(tmp_path, (WRITE,)) as servers:
        yield servers[WRITE]


def test_the_clients_do_their_jobs(server: Server) -> None:
    job = Job("produce", server.bootstrap, "topic", MESSAGES, 100)
    assert run_client(job).seconds > 0
    singly = run_client(replace(job, do="produce_singly"))
    assert len(singly.each_ms) == MESSAGES
    assert follow(job).seconds > 0
    before = server.pid
    server.restart()
    assert server.pid != before
    # 50 of each of the three, less the one that starts the clock.
    assert run_client(replace(job, do="consume", messages=3 * MESSAGES - 1)).seconds > 0
    assert 0 < processor_seconds(server.pid) < 60


def test_a_client_that_fails_is_told(server: Server) -> None:
    with pytest.raises(RuntimeError, match="a client has failed"):
        run_client(Job("juggle", server.bootstrap, "topic", 1, 1))


def test_the_peak_of_a_gateway_outlives_its_process(server: Server) -> None:
    assert isinstance(server, GatewayUnderTest)
    peak = server.peak_bytes()
    assert peak > 10 << 20
    server.restart()
    assert server.peak_bytes() >= peak


def test_side_by_side_with_a_real_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scale.VARIABLE, "tiny")
    with skip_without_rig():
        rows = measure_throughput(str(tmp_path))
    compared = {row.name: str(row.target) for row in rows if row.target is not None}
    assert compared == {
        "produce 1 KB, write": ">= 1",
        "produce 1 KB, fsync": ">= 0.6",
        "consume 1 KB, caught up, write": ">= 1",
        "consume 1 KB, caught up, fsync": ">= 0.6",
        "consume 1 KB, from the log, write": ">= 1",
        "memory, write": "<= 0.25",
        "memory, fsync": "<= 0.25",
    }
    assert {row.name for row in rows} > {
        f"latency p{n}, {name}" for n in (50, 99) for name in ("write", "fsync")
    }
    check_rows(rows, tmp_path / "kafka.json")


@pytest.mark.parametrize(
    ("measure", "target"), [(measure_startup, "start-up"), (measure_partitions, "memory, 100 partitions")]
)
def test_its_start_and_its_partitions_beside_a_real_kafka(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measure: Callable[[str], list[Measurement]],
    target: str,
) -> None:
    monkeypatch.setenv(scale.VARIABLE, "tiny")
    with skip_without_rig():
        rows = measure(str(tmp_path))
    assert {row.name: str(row.target) for row in rows if row.target is not None} == {target: "<= 0.25"}
    check_rows(rows, tmp_path / "kafka.json")


def test_beside_hostile_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scale.VARIABLE, "tiny")
    rows = {row.name: row for row in measure_hostile(str(tmp_path))}
    kinds = (
        "50 idle connections",
        "5 half-sent requests",
        "1 clients that never read",
        "2 GB announced again and again",
    )
    assert list(rows) == [
        f"{what} {kind}"
        for kind in kinds
        for what in ("produce 1 KB beside", "latency p99 beside", "server's processor for", "memory of")
    ]
    for name, row in rows.items():
        # So few attackers may cost nothing in so short a time.
        assert row.value > 0 or name.startswith(("server's processor", "memory"))
        assert (row.ok is None) == name.startswith("latency")


def test_attackers_that_may_not_have_so_many_files_say_so() -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200));"
    code += "from bench.kafka.attackers import raise_file_limit; print(raise_file_limit())"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert found.stdout == b"100\n"
