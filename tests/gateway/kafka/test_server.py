"""Limits on connections, the sweep, and the end."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.address import IPv4Address

from barbicel.codecs.kafka import messages
from barbicel.gateway.kafka.answer_budget import LEAST_BYTES
from barbicel.gateway.kafka.server import DRAIN_SECONDS, STALLED_SECONDS, SWEEP_SECONDS
from tests.gateway.kafka.in_memory import Client, Gateway, batch, in_memory_gateway
from tests.gateway.kafka.requests import fetch, produce, produced

HALF_A_REQUEST = struct.pack(">ih", 1000, 18)


def pass_time(gateway: Gateway, seconds: float) -> None:
    gateway.reactor.pump([SWEEP_SECONDS] * int(seconds / SWEEP_SECONDS) + [SWEEP_SECONDS])


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_connections": 2}, "refusing 10.0.0.1:3: max.connections is reached"),
        ({"max_connections_per_ip": 2}, "refusing 10.0.0.1:3: max.connections.per.ip is reached"),
    ],
)
def test_more_connections_than_allowed_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, limits: dict[str, Any], reason: str
) -> None:
    with in_memory_gateway(tmp_path / "data", **limits) as gateway:
        stranger: Any = IPv4Address("TCP", "10.0.0.1", 3)
        first = gateway.connect(port=1)
        gateway.connect(port=2)
        assert gateway.server.buildProtocol(stranger) is None
        assert reason in caplog.messages
        first.lose()
        gateway.connect(port=3)


def test_only_one_address_is_counted_per_ip(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", max_connections_per_ip=1) as gateway:
        gateway.connect("10.0.0.1")
        gateway.connect("10.0.0.2")


# --- the sweep ------------------------------------------------------------------------------------------


@pytest.fixture
def swept(gateway: Gateway) -> Gateway:
    gateway.server.startFactory()
    return gateway


def test_a_request_that_stops_half_way_is_given_up(swept: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    client = swept.connect()
    client.connection.dataReceived(HALF_A_REQUEST)
    pass_time(swept, STALLED_SECONDS - SWEEP_SECONDS)
    assert not client.is_closed
    pass_time(swept, 2 * SWEEP_SECONDS)
    assert client.is_closed
    assert "within a request nothing arrived" in caplog.text


def test_a_request_that_drips_in_is_given_up(swept: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    client = swept.connect()
    client.connection.dataReceived(HALF_A_REQUEST)
    for _ in range(int(STALLED_SECONDS / SWEEP_SECONDS) + 2):
        pass_time(swept, 0)
        client.connection.dataReceived(b"x")
    assert client.is_closed
    assert "a request of 1000 bytes took" in caplog.text


def test_an_idle_client_is_sent_away_and_a_waiting_one_is_not(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", connections_max_idle_ms=60_000) as gateway:
        gateway.server.startFactory()
        gateway.create()
        idle, waiting = gateway.connect(port=1), gateway.connect(port=2)
        waiting.send(fetch(0, max_wait_ms=600_000), 11)
        pass_time(gateway, 70)
        assert (idle.is_closed, waiting.is_closed) == (True, False)


def test_who_is_not_read_from_is_not_blamed_for_silence(swept: Gateway) -> None:
    swept.create()
    client = swept.connect()
    client.send(fetch(0, max_wait_ms=600_000), 11)
    client.connection.dataReceived(HALF_A_REQUEST)
    pass_time(swept, 3 * STALLED_SECONDS)
    assert client.is_paused
    assert not client.is_closed


def test_the_sweep_ends_with_the_server(swept: Gateway) -> None:
    before = len(swept.reactor.getDelayedCalls())
    swept.server.stopFactory()
    assert len(swept.reactor.getDelayedCalls()) == before - 1


# --- the end --------------------------------------------------------------------------------------------


def test_stopping_answers_what_was_accepted_and_lets_go_of_who_only_waits(gateway: Gateway) -> None:
    gateway.create()
    idle, producing, waiting = (gateway.connect(port=port) for port in range(3))
    producing.send(produce(batch(b"x")), 9)
    waiting.send(fetch(5, 5, max_wait_ms=60_000, partitions=[0, 0]), 11)
    waiting.answer()  # out of range, at once
    waiting.send(fetch(0, max_wait_ms=60_000, min_bytes=10**6), 11)
    drained: list[object] = []
    gateway.server.drain().addCallback(drained.append)
    assert (idle.is_closed, producing.is_closed, waiting.is_closed) == (True, False, True)
    producing.connection.dataReceived(producing.encoded(produce(batch(b"late")), 9))
    assert produced(producing.answer())[0].base_offset == 0
    assert producing.is_closed
    assert not drained
    for client in (idle, producing, waiting):
        client.lose()
    assert drained == [None]
    topic = gateway.broker.topics.by_name("t")
    assert topic is not None
    assert topic.partitions[0].end_offset == 1


def test_stopping_does_not_wait_for_ever(gateway: Gateway) -> None:
    client = gateway.connect()
    client.send(messages.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 0)
    drained: list[object] = []
    gateway.server.drain().addCallback(drained.append)
    gateway.reactor.advance(DRAIN_SECONDS)
    assert drained == [None]
    assert client.is_closed


def test_stopping_without_clients_is_done_at_once(gateway: Gateway) -> None:
    assert gateway.server.drain().called


def test_a_stop_waits_for_an_answer_that_is_being_sent(gateway: Gateway) -> None:
    gateway.create()
    client = gateway.connect()
    for _ in range(3):
        client.ask(produce(batch(b"x" * 900_000)), 9)
    client.transport.is_read = False
    client.send(fetch(0), 11)
    gateway.server.drain()
    parts = [client.transport.drain()]
    while not client.is_closed:
        parts.append(client.transport.drain())
    parts.append(client.transport.sent)  # a transport sends what it has before it closes
    assert len(parts) > 2
    assert b"".join(parts).count(b"x" * 900_000) == 3


# --- answers that nobody reads --------------------------------------------------------------------------


def test_fetches_get_less_while_answers_are_unread(tmp_path: Path) -> None:
    limits: dict[str, Any] = {
        "socket_request_max_bytes": 2 << 20,
        "queued_max_request_bytes": 2 << 20,
        "message_max_bytes": 1 << 20,
    }
    with in_memory_gateway(tmp_path / "data", **limits) as gateway:
        gateway.create()
        producer = gateway.connect()
        for _ in range(8):
            producer.ask(produce(batch(b"x" * 500_000)), 9)
        slow = [gateway.connect(port=port) for port in range(1, 9)]
        sizes = []
        for client in slow:
            client.transport.is_read = False
            before = gateway.server.answers.held_bytes
            client.send(fetch(0), 11)
            sizes.append(gateway.server.answers.held_bytes - before)
        assert sizes[0] > 2_000_000 - 200_000 * 2
        assert max(sizes[2:]) <= LEAST_BYTES + 1000
        for client, size in zip(slow, sizes, strict=True):
            assert len(b"".join(iter(client.transport.drain, b""))) == size
        assert gateway.server.answers.held_bytes == 0


def test_clients_are_told_apart(gateway: Gateway) -> None:
    clients: list[Client] = [gateway.connect(port=port) for port in range(50)]
    for client in clients:
        client.lose()
    assert not gateway.server._connections
    assert not gateway.server._by_host
