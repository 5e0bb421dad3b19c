"""The Kestrel benchmark's rows come out as promised, and its scenarios are programs of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from click.testing import CliRunner
from twisted.internet import testing

from bench.kestrel import scale
from bench.kestrel.bare_server import BareProtocol
from bench.kestrel.client import Client
from bench.kestrel.connections import measure_idle_connections, measure_many_connections
from bench.kestrel.leaky_reader import ItemsMissed, LeakyReader, run_leaky_reader
from bench.kestrel.rates import compare_rates
from bench.kestrel.scenarios import SCENARIOS, measure_scenarios
from bench.kestrel.servers import AGAINST, WRITE, Server, running_gateway
from bench.kestrel.speed import measure_speed
from bench.report import Measurement, Target, write_json

REQUESTS = b"set q 0 0 3\r\nabc\r\nget q\r\nset q 0 0 0\r\n\r\n"
REPLIES = b"STORED\r\nVALUE q 0 2\r\nxx\r\nEND\r\nSTORED\r\n"

PROGRAMS = {
    "put_many": ["-c", "5", "-n", "50", "-b", "100", "-r", "5", "-Q", "2", "-g"],
    "flood": ["-n", "60", "-P", "10", "-R", "2", "-C", "3", "-r", "4", "-M"],
    "packing": ["-n", "20", "-t", "0", "-c", "2", "-M"],
    "many_clients": ["-s", "0", "-n", "20", "-c", "5", "-k", "20", "-M"],
    "leaky_reader": ["-n", "50", "-d", "0.3", "--drop-by", "abort", "-t", "2", "-v"],
}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scale.VARIABLE, "tiny")


@pytest.mark.parametrize("step", [1, 7, len(REQUESTS)])
def test_the_bare_protocol_answers_and_stores_nothing(step: int) -> None:
    protocol: Any = BareProtocol(2)
    make_transport: Any = testing.StringTransport
    transport = make_transport()
    protocol.makeConnection(transport)
    for position in range(0, len(REQUESTS), step):
        protocol.dataReceived(REQUESTS[position : position + step])
    assert transport.value() == REPLIES


def test_the_target_of_a_rate_is_not_the_ratio() -> None:
    def row(value: float) -> Measurement:
        return compare_rates("", [value], [1000.0], against="", reading="", target=Target(">=", 100))

    assert [row(value).ok for value in (99.0, 100.0)] == [False, True]
    assert row(100.0).ratio == 0.1


@pytest.mark.usefixtures("tiny")
def test_speed(tmp_path: Path) -> None:
    rows = measure_speed(str(tmp_path))
    assert {row.name: str(row.target) for row in rows if row.target is not None} == {
        "set 1 KB, pipelined, write": ">= 50000",
        "get 1 KB, pipelined, write": ">= 50000",
        "set 1 KB, 50 connections, write": ">= 20000",
        "get 1 KB, 50 connections, write": ">= 20000",
        "set 1 KB, 50 connections, fsync": ">= 15000",
    }
    check_rows(rows, tmp_path / "kestrel.json", f"{AGAINST}: ")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("measure", "count", "against"),
    [(measure_many_connections, 1, f"{AGAINST}: "), (measure_idle_connections, 2, "no others: ")],
)
def test_many_connections(
    tmp_path: Path, measure: Callable[[str], list[Measurement]], count: int, against: str
) -> None:
    rows = measure(str(tmp_path))
    assert len(rows) == count
    check_rows(rows, tmp_path / "kestrel.json", against)


@pytest.mark.usefixtures("tiny")
def test_scenarios(tmp_path: Path) -> None:
    rows = measure_scenarios(str(tmp_path))
    for name, _, durabilities, _ in SCENARIOS:
        for durability in durabilities:
            told = [row for row in rows if row.name.startswith(f"{name}, {durability}: ")]
            assert {row.name.rpartition(", ")[2] for row in told} >= {"p50", "p99"}
    check_rows(rows, tmp_path / "kestrel.json", "")


def test_every_scenario_is_a_program(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "server", WRITE) as server:
        for name, arguments in PROGRAMS.items():
            told = CliRunner().invoke(
                import_module(f"bench.kestrel.{name}").main,
                [*arguments, "-p", str(server.port), "-q", name],
                catch_exceptions=False,
            )
            assert told.exit_code == 0, told.output
            assert "ops/s" in told.output
            assert "p99" in told.output
        check_that_missed_items_are_told(server)


def check_that_missed_items_are_told(server: Server) -> None:
    """With somebody else's items in the queue, the reader has read enough before it has read all."""
    options = LeakyReader("127.0.0.1", server.port, items=3, queue="shared")
    run_leaky_reader(options)
    with closing(Client("127.0.0.1", server.port)) as client:
        client.put("shared", b"000000ff")
    with pytest.raises(ItemsMissed, match="00000002"):
        run_leaky_reader(LeakyReader("127.0.0.1", server.port, items=3, queue="shared", no_flush=True))


def check_rows(rows: Sequence[Measurement], path: Path, against: str) -> None:
    write_json(path, rows)
    for row in json.loads(path.read_text(encoding="utf-8")):
        assert row["value"] >= 0
        assert row["ratio"] is None or row["against"].startswith(against)
        assert (row["ok"] is None) == (row["target"] is None)
    assert median(row.value for row in rows) > 0
