"""Limits on connections, the sweep, and the end."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.address import IPv4Address

from barbicel.codecs.kafka import messages
from barbicel.gateway.draining import DRAIN_SECONDS
from barbicel.gateway.kafka.answer_budget import FEW_READS, FIRST_BYTES, LEAST_BYTES, AnswerBudget
from barbicel.gateway.kafka.server import CROWDED, SWEEP_SECONDS, USUAL
from tests.gateway.kafka.in_memory import Client, Gateway, batch, in_memory_gateway
from tests.gateway.kafka.requests import fetch, only, produce, produced

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
    pass_time(swept, USUAL.silent_s - SWEEP_SECONDS)
    assert not client.is_closed
    pass_time(swept, 2 * SWEEP_SECONDS)
    assert client.is_closed
    assert "within a request nothing arrived" in caplog.text


def test_a_request_that_drips_in_is_given_up(swept: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    client = swept.connect()
    client.connection.dataReceived(HALF_A_REQUEST)
    for _ in range(int(USUAL.silent_s / SWEEP_SECONDS) + 2):
        pass_time(swept, 0)
        client.connection.dataReceived(b"x")
    assert client.is_closed
    assert "within a request 12 bytes took" in caplog.text


def test_an_idle_client_is_sent_away_and_a_waiting_one_is_not(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", connections_max_idle_ms=60_000) as gateway:
        gateway.server.startFactory()
        gateway.create()
        idle, waiting = gateway.connect(port=1), gateway.connect(port=2)
        waiting.send(fetch(0, max_wait_ms=600_000), 11)
        pass_time(gateway, 70)
        assert (idle.is_closed, waiting.is_closed) == (True, False)


def test_who_waits_and_is_not_read_from_is_idle_as_well(tmp_path: Path) -> None:
    """It may be gone, and nobody would see that."""
    with in_memory_gateway(tmp_path / "data", connections_max_idle_ms=60_000) as gateway:
        gateway.server.startFactory()
        gateway.create()
        client = gateway.connect()
        client.send(fetch(0, max_wait_ms=2**31 - 1), 11)
        client.send(fetch(0), 11)
        assert client.is_paused
        pass_time(gateway, 50)
        assert not client.is_closed
        pass_time(gateway, 20)
        assert client.is_closed


def test_who_is_not_read_from_is_not_blamed_for_silence(swept: Gateway) -> None:
    swept.create()
    client = swept.connect()
    client.send(fetch(0, max_wait_ms=600_000), 11)
    client.connection.dataReceived(HALF_A_REQUEST)
    pass_time(swept, 3 * USUAL.silent_s)
    assert client.is_paused
    assert not client.is_closed


FULL: dict[str, Any] = {
    "socket_request_max_bytes": 1 << 20,
    "queued_max_request_bytes": 1 << 20,
    "message_max_bytes": 1000,
}
PRODUCE = struct.pack(">ihh", 1 << 20, 0, 7)


def test_half_sent_requests_that_use_up_the_budget_are_given_up_sooner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with in_memory_gateway(tmp_path / "data", **FULL) as gateway:
        gateway.server.startFactory()
        silent, dripping, paused = (gateway.connect(port=port) for port in range(3))
        for client in (silent, dripping):
            client.connection.dataReceived(PRODUCE + bytes(400_000))
        small = gateway.connect(port=3)
        small.connection.dataReceived(HALF_A_REQUEST)
        dripping.connection.dataReceived(bytes(300_000))
        paused.connection.dataReceived(PRODUCE + bytes(200_000))
        assert (dripping.is_paused, paused.is_paused) == (False, True)  # one may always be finished
        pass_time(gateway, CROWDED.silent_s)
        dripping.connection.dataReceived(bytes(1000))
        pass_time(gateway, CROWDED.silent_s)
        assert (silent.is_closed, dripping.is_closed) == (True, True)
        # Who is not read from is not to blame, and who takes little is in nobody's way.
        assert (paused.is_closed, small.is_closed) == (False, False)
        for client in (silent, dripping):
            client.lose()
        assert not paused.is_paused
        pass_time(gateway, USUAL.silent_s)
        assert (paused.is_closed, small.is_closed) == (True, True)


def test_who_fills_the_budget_behind_a_fetch_that_waits_gives_way(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", **FULL) as gateway:
        gateway.server.startFactory()
        gateway.create()
        harmful, harmless = gateway.connect(port=1), gateway.connect(port=2)
        for client, size in ((harmless, 1000), (harmful, 1 << 20)):
            client.send(fetch(0, max_wait_ms=600_000), 11)
            client.connection.dataReceived(PRODUCE + bytes(size))
        pass_time(gateway, CROWDED.silent_s)
        assert (harmful.is_closed, harmless.is_closed) == (True, False)


def test_a_request_that_begins_well_and_then_drips_in_is_given_up(swept: Gateway) -> None:
    """However long it says that it is."""
    client = swept.connect()
    client.connection.dataReceived(struct.pack(">ihh", 50 << 20, 0, 7) + bytes(100_000))
    for _ in range(int(USUAL.silent_s / SWEEP_SECONDS) + 4):
        pass_time(swept, 0)
        client.connection.dataReceived(b"x")
    assert client.is_closed


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
    client = trusted(gateway.connect())
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


BUDGET_BYTES = 2 << 20
UNREAD: dict[str, Any] = {
    "socket_request_max_bytes": BUDGET_BYTES,
    "queued_max_request_bytes": BUDGET_BYTES,
    "message_max_bytes": 1 << 20,
}


def trusted(client: Client) -> Client:
    """As one that has taken much."""
    client.connection._sender.sent_bytes = 1 << 30
    return client


def put(gateway: Gateway, size: int, count: int) -> None:
    producer = gateway.connect(port=9999)
    for _ in range(count):
        producer.ask(produce(batch(b"x" * size)), 9)


def unread(gateway: Gateway, port: int) -> Client:
    """It has read much before. Now it asks for all there is, and reads nothing."""
    client = trusted(gateway.connect(port=port))
    client.transport.is_read = False
    client.send(fetch(0), 11)
    return client


def test_who_has_taken_nothing_yet_is_answered_with_little_at_a_time(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data") as gateway:
        gateway.create(max_message_bytes="3000000")
        put(gateway, 100_000, 60)
        all_bytes = 60 * len(batch(b"x" * 100_000))
        client = gateway.connect()
        taken, sizes = 0, []
        for _ in range(16):
            records = only(only(client.ask(fetch(0), 11).responses).partitions).records
            # A quarter of what it has taken, but for what does not make up another batch.
            limit = max(FIRST_BYTES, taken // 4)
            assert min(limit, all_bytes) - 101_000 < len(records) <= limit
            taken += len(records)
            sizes.append(len(records))
        assert sizes[-1] == all_bytes
        # A batch that is larger than that is answered all the same, as ever.
        put(gateway, 2 * FIRST_BYTES, 1)
        another = gateway.connect(port=2)
        assert len(only(only(another.ask(fetch(60), 11).responses).partitions).records) > 2 * FIRST_BYTES


def test_fetches_get_less_while_answers_are_unread(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", **UNREAD) as gateway:
        gateway.create()
        put(gateway, 50_000, 50)
        slow, sizes = [], []
        for port in range(1, 9):
            before = gateway.server.answers.held_bytes
            slow.append(unread(gateway, port))
            sizes.append(gateway.server.answers.held_bytes - before)
        assert sizes[0] > BUDGET_BYTES - 100_000
        assert all(50_000 < size < LEAST_BYTES + 1000 for size in sizes[2:])
        for client, size in zip(slow, sizes, strict=True):
            assert len(b"".join(iter(client.transport.drain, b""))) == size
        assert gateway.server.answers.held_bytes == 0


@pytest.mark.parametrize("memory", [{}, {"tail_partition_bytes": 0}])
def test_a_thousand_clients_that_never_read_take_little_more_than_the_budget(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, memory: dict[str, Any]
) -> None:
    with in_memory_gateway(tmp_path / "data", **UNREAD, **memory) as gateway:
        gateway.create()
        put(gateway, 200_000, 12)
        answers, clients = gateway.server.answers, []
        for port in range(1, 1001):
            clients.append(unread(gateway, port))
            gateway.reactor.until(lambda: clients[-1].transport.sent)
            assert answers.held_bytes < 1.25 * BUDGET_BYTES
        # The last ones have their batch, the first ones gave way, and who reads is served as ever.
        is_closed = [client.is_closed for client in clients]
        assert is_closed == sorted(is_closed, reverse=True)
        assert 3 < is_closed.count(False) < 20
        assert "its answers are not read" in caplog.text
        reading = gateway.connect(port=2000)
        for _ in range(3):
            rows = reading.ask(fetch(0), 11).responses[0].partitions
            assert len(rows[0].records) > 200_000
        for client in clients:
            client.lose()
        assert answers.held_bytes == 0
        assert not gateway.server._unread


def test_who_reads_a_little_gives_way_after_who_reads_nothing(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", **UNREAD) as gateway:
        gateway.create()
        put(gateway, 500_000, 4)
        reading, first = unread(gateway, 1), unread(gateway, 2)
        reading.transport.drain()
        assert reading.connection.unread_bytes
        for port in (3, 4, 5):
            unread(gateway, port)
        assert (reading.is_closed, first.is_closed) == (False, True)


def test_answers_that_nobody_reads_are_given_up_when_there_is_no_room(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", **UNREAD) as gateway:
        gateway.server.startFactory()
        gateway.create()
        put(gateway, 500_000, 5)
        only_one = unread(gateway, 1)
        pass_time(gateway, 2 * USUAL.silent_s)
        assert not only_one.is_closed
        another = unread(gateway, 2)
        assert not gateway.server.answers.has_room
        pass_time(gateway, SWEEP_SECONDS)
        assert (only_one.is_closed, another.is_closed) == (True, False)


def test_reads_from_the_disk_wait_for_each_other_when_there_is_no_room() -> None:
    answers = AnswerBudget(100)
    begun: list[int] = []
    answers.hold(100)
    for number in range(10):
        answers.when_readable(lambda number=number: begun.append(number))  # type: ignore[misc]
    assert begun == [*range(FEW_READS)]
    answers.end_read()
    assert begun == [*range(FEW_READS + 1)]
    answers.release(1)
    answers.end_read()
    assert begun == [*range(10)]


def test_clients_are_told_apart(gateway: Gateway) -> None:
    clients: list[Client] = [gateway.connect(port=port) for port in range(50)]
    for client in clients:
        client.lose()
    assert not gateway.server._connections
    assert not gateway.server._by_host
