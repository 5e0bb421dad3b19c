"""Hostile clients of both protocols over real sockets: what they make the server hold is bounded, and a
client beside them is served. How much slower that one is, and what ten thousand take: bench/kafka/hostile.py.
"""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bench.kafka.attackers import ATTACKS, KAFKA_PORT, KESTREL_PORT, Attack, raise_file_limit
from tests.gateway.kafka.in_memory import batch
from tests.gateway.kafka.raw_client import RawClient
from tests.gateway.kafka.requests import fetch, metadata, only, produce
from tests.kestrel_clients.raw_client import Memcache
from tests.support.gateway import Gateway, running_gateway

MIB = 1 << 20
BUDGET_BYTES = 16 * MIB
LARGE = "large"
LARGE_BYTES = 900_000
LARGE_ITEMS = 20
DEADLINE_S = 60.0
PROTOCOLS = (KAFKA_PORT, KESTREL_PORT)


@pytest.fixture(scope="module", autouse=True)
def enough_files() -> Iterator[None]:
    """Before the gateway starts, which inherits the limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert raise_file_limit() > 2 * 1500, "these tests need 3,000 open files"
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture(scope="module", params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, protocol: str) -> Iterator[Gateway]:
    """One for each protocol: of clients that are sent away its log has only so many lines a minute."""
    budget = {"queued_max_request_bytes": str(BUDGET_BYTES), "socket_request_max_bytes": str(BUDGET_BYTES)}
    with running_gateway(tmp_path_factory.mktemp("hostile"), durability="write", **budget) as gateway:
        _fill(gateway)
        works(gateway, protocol)
        yield gateway


def _fill(gateway: Gateway) -> None:
    """There is much to be read, by either protocol."""
    with Memcache(gateway.kestrel_port) as client:
        for _ in range(LARGE_ITEMS):
            assert client.put(LARGE, b"x" * LARGE_BYTES)


def works(gateway: Gateway, protocol: str) -> None:
    """An ordinary client is served."""
    if protocol == KESTREL_PORT:
        with Memcache(gateway.kestrel_port) as client:
            assert client.put("fine", b"value")
            assert client.get("fine") == b"value"
        return
    with RawClient((gateway.host, gateway.port)) as kafka:
        assert only(kafka.ask(metadata("ordinary"), 4).topics).error_code == 0
        done = only(
            only(kafka.ask(produce(batch(b"value"), topic="ordinary"), 8).responses).partition_responses
        )
        assert done.error_code == 0
        found = only(only(kafka.ask(fetch(done.base_offset, topic="ordinary"), 11).responses).partitions)
        assert b"value" in bytes(found.records)


def memory_bytes(gateway: Gateway) -> int:
    pages = int(Path(f"/proc/{gateway.pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


@contextmanager
def attacked(gateway: Gateway, protocol: str, kind: str, connections: int) -> Iterator[Callable[[], int]]:
    """Calling it makes the attackers go on; it is how many connections they have."""
    port = gateway.port if protocol == KAFKA_PORT else gateway.kestrel_port
    with ExitStack() as stack:
        attacking = ATTACKS[kind](Attack(kind, port, connections, protocol, LARGE))
        close: Callable[[], None] = attacking.close  # type: ignore[attr-defined]  # they are generators
        stack.callback(close)
        yield lambda: next(attacking)


def log_of(gateway: Gateway) -> str:
    return gateway.log.read_text(encoding="utf-8")


def test_idle_connections_take_little_and_bother_nobody(server: Gateway, protocol: str) -> None:
    before = memory_bytes(server)
    with attacked(server, protocol, "idle", 1500) as go_on:
        assert go_on() == 1500
        works(server, protocol)
        assert memory_bytes(server) - before < 32 * MIB


def test_half_sent_requests_take_little_and_bother_nobody(server: Gateway, protocol: str) -> None:
    before = memory_bytes(server)
    with attacked(server, protocol, "half_sent", 500) as go_on:
        for _ in range(3):
            assert go_on() == 500
            works(server, protocol)
        assert memory_bytes(server) - before < 16 * MIB


def test_answers_that_nobody_reads_are_bounded_whoever_many_ask(server: Gateway, protocol: str) -> None:
    """150 clients ask for 20 times what is there: each would take megabytes, and all of them far too many."""
    before, most = memory_bytes(server), 0
    with attacked(server, protocol, "unread", 150) as go_on:
        deadline = time.monotonic() + DEADLINE_S
        while "its answers are not read, and there is no room for more" not in log_of(server):
            assert time.monotonic() < deadline, "nobody was sent away"
            assert go_on() == 150
            most = max(most, memory_bytes(server))
        works(server, protocol)
        most = max(most, memory_bytes(server))
    # What is in the making comes on top.
    assert most - before < 4 * BUDGET_BYTES
    works(server, protocol)


def test_two_gigabytes_that_are_announced_take_nothing(server: Gateway, protocol: str) -> None:
    before = memory_bytes(server)
    with attacked(server, protocol, "two_gigabytes", 1) as go_on:
        for _ in range(100):
            assert go_on() == 1
        works(server, protocol)
        assert memory_bytes(server) - before < 8 * MIB


def test_whoever_is_sent_away_again_and_again_does_not_fill_the_log(server: Gateway) -> None:
    before = len(log_of(server))
    with attacked(server, KAFKA_PORT, "two_gigabytes", 1) as go_on:
        for _ in range(300):
            go_on()
    lines = [line for line in log_of(server)[before:].splitlines() if "2147483647 bytes" in line]
    assert len(lines) < 100


def test_cve_2018_1000115_nothing_is_served_over_udp(server: Gateway) -> None:
    """Small questions with large answers to whatever address they claim to come from."""
    for port in (server.port, server.kestrel_port, server.admin_port):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind((server.host, port))  # nobody else has it
