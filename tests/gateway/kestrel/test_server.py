"""Limits on connections, the sweep, and the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.address import IPv4Address

from barbicel.gateway.draining import DRAIN_SECONDS
from barbicel.gateway.kestrel.dialect import MEMCACHE, TEXT
from barbicel.gateway.kestrel.server import STALLED_SECONDS, SWEEP_SECONDS
from tests.gateway.kafka.in_memory import untyped
from tests.gateway.kestrel.in_memory_clients import Client, Gateway, in_memory_gateway

STORED = b"STORED\r\n"


def pass_time(gateway: Gateway, seconds: float) -> None:
    for _ in range(int(seconds / SWEEP_SECONDS) + 1):
        gateway.queues.advance(int(SWEEP_SECONDS * 1000))


# --- limits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"kestrel_max_connections": 2}, "refusing 10.0.0.1:3: kestrel.max.connections is reached"),
        (
            {"kestrel_max_connections_per_ip": 2},
            "refusing 10.0.0.1:3: kestrel.max.connections.per.ip is reached",
        ),
    ],
)
def test_more_connections_than_allowed_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, limits: dict[str, Any], reason: str
) -> None:
    with in_memory_gateway(tmp_path / "data", **limits) as gateway:
        first = gateway.connect(port=1)
        gateway.connect(TEXT, port=2)
        refused = gateway.connect(port=3)
        assert refused.take() == b"SERVER_ERROR\r\n"
        assert refused.is_closed
        assert reason in caplog.messages
        assert gateway.connect(TEXT, port=3).take() == b"-Server not available for operation connect\n"
        first.lose()
        gateway.connect(port=4).ask(b"get q\r\n", b"END\r\n")


def test_only_one_address_is_counted_per_ip(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", kestrel_max_connections_per_ip=1) as gateway:
        for host in ("10.0.0.1", "10.0.0.2"):
            assert gateway.connect(host=host).take() == b""


def test_clients_are_told_apart(gateway: Gateway) -> None:
    clients = [gateway.connect(port=port) for port in range(50)]
    assert gateway.shared.counters.curr_connections == 50
    for client in clients:
        client.lose()
    assert gateway.shared.counters.curr_connections == 0
    assert not gateway.server._connections
    assert not gateway.server._by_host


# --- the sweep ------------------------------------------------------------------------------------------


@pytest.fixture
def swept(tmp_path: Path) -> Iterator[Gateway]:
    with in_memory_gateway(tmp_path / "data", kestrel_client_timeout_ms=60_000) as gateway:
        listening = untyped(gateway.server.listening(MEMCACHE))
        listening.doStart()
        yield gateway
        listening.doStop()


def test_an_idle_client_is_sent_away(swept: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    client = swept.connect()
    pass_time(swept, 50)
    assert not client.is_closed
    client.ask(b"get q\r\n", b"END\r\n")
    pass_time(swept, 50)
    assert not client.is_closed
    pass_time(swept, 20)
    assert client.is_closed
    assert "idle for longer than kestrel.client.timeout.ms" in caplog.text


def test_who_waits_or_has_something_open_is_not_idle(swept: Gateway) -> None:
    waiting, opening, idle = (swept.connect(port=port) for port in range(3))
    opening.ask(b"set r 0 0 1\r\nx\r\n", STORED)
    opening.ask(b"get r/open\r\n", b"VALUE r 0 1\r\nx\r\nEND\r\n")
    waiting.send(b"get q/t=600000\r\n")
    swept.turn()
    pass_time(swept, 70)
    assert (waiting.is_closed, opening.is_closed, idle.is_closed) == (False, False, True)


def test_zero_never_sends_anybody_away(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", kestrel_client_timeout_ms=0) as gateway:
        gateway.server.start()
        client = gateway.connect()
        pass_time(gateway, 4000)
        assert not client.is_closed


def test_who_does_not_read_for_so_long_is_sent_away(swept: Gateway) -> None:
    client, other = swept.connect(port=1), swept.connect(port=2)
    other.ask(b"set q 0 0 300000\r\n%b\r\n" % bytes(300_000), STORED)
    client.transport.is_read = False
    client.send(b"get q/open\r\n")
    swept.reactor.until(lambda: client.connection.is_unread)
    pass_time(swept, 70)
    assert client.is_closed


@pytest.mark.parametrize("beginning", [b"get", b"set q 0 0 1000\r\nabc"])
def test_a_request_that_stops_half_way_is_given_up(
    swept: Gateway, caplog: pytest.LogCaptureFixture, beginning: bytes
) -> None:
    client = swept.connect()
    client.send(b"version\r\n" + beginning)
    pass_time(swept, STALLED_SECONDS - SWEEP_SECONDS)
    assert not client.is_closed
    pass_time(swept, 2 * SWEEP_SECONDS)
    assert client.is_closed
    assert "within a request nothing arrived" in caplog.text


def test_a_request_that_drips_in_is_given_up(swept: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    client = swept.connect()
    client.send(b"set q 0 0 100000\r\n")
    for _ in range(int(STALLED_SECONDS / SWEEP_SECONDS) + 2):
        pass_time(swept, 0)
        client.send(b"x")
    assert client.is_closed
    assert "bytes of a request took" in caplog.text


def test_a_large_request_that_takes_its_time_is_served(swept: Gateway) -> None:
    client = swept.connect()
    client.send(b"set q 0 0 2000000\r\n")
    for _ in range(20):
        client.send(bytes(100_000))
        pass_time(swept, 0)
    client.ask(b"\r\n", STORED)


def test_many_requests_in_a_long_time_are_no_drip(swept: Gateway) -> None:
    client = swept.connect()
    client.send(b"get q")
    for _ in range(20):
        pass_time(swept, 0)
        client.ask(b"\r\nget q", b"END\r\n")
    assert not client.is_closed


def test_the_sweep_ends_with_the_last_port(gateway: Gateway) -> None:
    ports = [untyped(gateway.server.listening(dialect)) for dialect in (MEMCACHE, TEXT)]
    before = len(gateway.reactor.getDelayedCalls())
    for port in ports:
        port.doStart()
    assert len(gateway.reactor.getDelayedCalls()) == before + 1
    ports[0].doStop()
    assert len(gateway.reactor.getDelayedCalls()) == before + 1
    ports[1].doStop()
    assert len(gateway.reactor.getDelayedCalls()) == before


# --- the end --------------------------------------------------------------------------------------------


def drained_into(gateway: Gateway) -> list[object]:
    drained: list[object] = []
    gateway.server.drain().addCallback(drained.append)
    return drained


def test_stopping_answers_what_was_accepted_and_lets_go_of_who_waits(gateway: Gateway) -> None:
    idle, storing, waiting, monitor = clients = [gateway.connect(port=port) for port in range(4)]
    for client in (waiting, monitor):
        client.ask(b"get q\r\n", b"END\r\n")
    waiting.send(b"get q/t=60000\r\n")
    monitor.send(b"monitor q 60\r\n")
    storing.send(b"set r 0 0 1\r\nx\r\n")
    drained = drained_into(gateway)
    storing.send(b"set late 0 0 1\r\nx\r\n")
    storing.expect(STORED)
    waiting.expect(b"END\r\n")
    monitor.expect(b"END\r\n")
    assert all(client.is_closed for client in clients)
    assert not drained
    for client in clients:
        client.lose()
    assert drained == [None]
    assert "late" not in gateway.queues.queues.names()
    assert idle.take() == b""


def test_who_got_an_item_as_the_server_stops_is_told(gateway: Gateway) -> None:
    waiting, other = gateway.connect(port=1), gateway.connect(port=2)
    waiting.ask(b"get q\r\n", b"END\r\n")
    waiting.send(b"get q/t=60000\r\n")
    gateway.turn()
    other.send(b"set q 0 0 1\r\nx\r\n")
    # Until the waiter has got it, and before that is recorded.
    gateway.reactor.until(lambda: gateway.queues.stats("q").waiters == 0)
    drained_into(gateway)
    waiting.expect(b"VALUE q 0 1\r\nx\r\nEND\r\n")


def test_stopping_does_not_wait_for_ever(gateway: Gateway) -> None:
    client: Client = gateway.connect()
    client.send(b"set q 0 0 1\r\nx\r\n")
    drained = drained_into(gateway)
    gateway.reactor.advance(DRAIN_SECONDS)
    assert drained == [None]
    assert client.is_closed


def test_stopping_without_clients_is_done_at_once(gateway: Gateway) -> None:
    assert gateway.server.drain().called
    assert gateway.shared.status.level.name == "DOWN"


# --- answers that are not read --------------------------------------------------------------------------


def test_who_has_read_nothing_for_longest_gives_way_when_there_is_no_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = {"queued_max_request_bytes": 1_200_000, "socket_request_max_bytes": 1_200_000}
    with in_memory_gateway(tmp_path / "data", **limits) as gateway:
        item = b"x" * 300_000
        writer = gateway.connect(port=1)
        writer.ask(b"set q 0 0 %d\r\n%b\r\n" % (len(item), item), STORED)
        readers = [gateway.connect(port=port) for port in range(2, 7)]
        for reader in readers:
            reader.transport.is_read = False
            reader.send(b"get q/peek\r\n")
            gateway.reactor.until(lambda: reader.transport.sent or reader.is_closed)  # noqa: B023 - at once
        # Three of them fit.
        assert [reader.is_closed for reader in readers] == [True, True, False, False, False]
        assert gateway.server.unread.held_bytes < 1_200_000
        assert "closing the connection of 10.0.0.1:2: its answers are not read" in caplog.text
        readers[2].transport.drain()
        for reader in readers:
            reader.lose()
        assert gateway.server.unread.held_bytes == 0
        assert not gateway.server.unread._unread


def test_with_tls_a_client_for_which_there_is_no_room_is_not_even_told(tmp_path: Path) -> None:
    """It could take its time for the handshake, with an open file that is not there for it."""
    with in_memory_gateway(tmp_path / "data", kestrel_max_connections=1) as gateway:
        gateway.connect()
        address: Any = IPv4Address("TCP", "10.0.0.2", 2)
        assert gateway.server.listening(MEMCACHE).buildProtocol(address) is not None
        assert gateway.server.listening(MEMCACHE, has_tls=True).buildProtocol(address) is None
