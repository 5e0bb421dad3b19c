"""The rig stands: the scenarios hold against a real Kafka with both clients, and they can fail."""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rig import kafka_server
from tests.rig.jars import jars
from tests.rig.java_clients import CLIENTS, SCENARIOS, ClientCheckFailed, run_scenario
from tests.rig.jvm import java_command
from tests.rig.kafka_server import KafkaServer, running_kafka
from tests.rig.skipping import skip_without_rig

ROOT = Path(__file__).parent.parent.parent

# The first and the last check of each, and how many there are: none may get lost on the way.
EXPECTED = {
    "produce": ("codec none", "too large a record", 14),
    "consume_assign": ("partitions of a topic", "no position and no reset", 9),
    "consume_group": ("one member has every partition", "a static member returns without a rebalance", 8),
    "admin": ("describe cluster", "delete topics", 18),
}


def test_the_server_tells_how_it_started(kafka: KafkaServer) -> None:
    assert 0 < kafka.startup_seconds < 60
    assert 0 < kafka.format_seconds < 60
    assert 100 << 20 < kafka.peak_rss_bytes() < 2 << 30
    assert "ERROR" not in kafka.log.read_text(encoding="utf-8")


def test_a_port_that_somebody_takes_first_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with skip_without_rig(), socket.create_server(("127.0.0.1", 0)) as taken:
        chosen = [*kafka_server.free_ports(1), taken.getsockname()[1]]
        monkeypatch.setattr(kafka_server, "free_ports", lambda count: chosen)
        monkeypatch.setattr(kafka_server, "ATTEMPTS", 1)
        with pytest.raises(RuntimeError, match="1 times a free port was taken"), running_kafka(tmp_path):
            pass


def test_a_property_that_kafka_refuses_is_told(tmp_path: Path) -> None:
    refused = running_kafka(tmp_path, {"num.network.threads": "none"})
    with skip_without_rig(), pytest.raises(RuntimeError, match="num.network.threads"), refused:
        pass


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_holds_against_a_real_kafka(kafka: KafkaServer, client: str, scenario: str) -> None:
    with skip_without_rig():
        checks = run_scenario(client, scenario, kafka.bootstrap)
    assert (checks[0].name, checks[-1].name, len(checks)) == EXPECTED[scenario]


def test_a_scenario_that_is_not_known_fails(kafka: KafkaServer) -> None:
    with pytest.raises(ClientCheckFailed, match="ended with 2"):
        run_scenario("clients-4", "no-such-scenario", kafka.bootstrap)


def test_a_server_that_does_not_answer_fails_the_scenario() -> None:
    with skip_without_rig(), socket.create_server(("127.0.0.1", 0)) as silent:
        bootstrap = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ClientCheckFailed, match="not done in 2 s"):
            run_scenario("clients-4", "produce", bootstrap, deadline_s=2)


def test_the_performance_tools_run(kafka: KafkaServer, tmp_path: Path) -> None:
    with skip_without_rig():
        tools = jars("performance-tools")
    produce = java_command(
        tools,
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "performance", "--num-records", "1000", "--record-size", "100", "--throughput", "-1"),
        *("--bootstrap-server", kafka.bootstrap),
    )
    consume = java_command(
        tools,
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--topic", "performance", "--num-records", "1000", "--bootstrap-server", kafka.bootstrap),
    )
    assert "1000 records sent" in output_of(produce, tmp_path)
    assert ", 1000, " in output_of(consume, tmp_path)


def test_nothing_outlives_the_program_that_started_it() -> None:
    starting = (
        "import subprocess, sys; from tests.rig.jvm import bound_to_this_process as bound;"
        "print(subprocess.Popen(bound(['sleep', '600']), stdout=subprocess.DEVNULL).pid, flush=True);"
        "sys.stdin.read()"
    )
    command = [sys.executable, "-c", starting]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        assert await_that(lambda: Path(f"/proc/{pid}/comm").read_text(encoding="utf-8") == "sleep\n")
        program.kill()
    assert await_that(lambda: not is_running(pid))


def await_that(condition: Callable[[], bool]) -> bool:
    """Ask until it is true, or 10 seconds are over."""
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        select.select([], [], [], 0.01)
    return condition()


def is_running(pid: int) -> bool:
    """A process that has ended and that nobody has asked about yet is not running."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def output_of(command: list[str], directory: Path) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
