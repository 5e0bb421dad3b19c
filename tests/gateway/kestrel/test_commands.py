"""What requests do together with time, with other clients, and with a server that is not in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from barbicel.errors import BarbicelError
from tests.gateway.kestrel.in_memory_clients import Client, Gateway, in_memory_gateway


def hit(queue: bytes, data: bytes) -> bytes:
    return b"VALUE %b 0 %d\r\n%b\r\nEND\r\n" % (queue, len(data), data)


def put(client: Client, *items: bytes, queue: bytes = b"q") -> None:
    for item in items:
        client.ask(b"set %b 0 0 %d\r\n%b\r\n" % (queue, len(item), item), b"STORED\r\n")


def two(gateway: Gateway) -> tuple[Client, Client]:
    """Clients whose queue exists."""
    clients = gateway.connect(port=1), gateway.connect(port=2)
    for client in clients:
        client.ask(b"get q\r\n", b"END\r\n")
    return clients


# --- waiting --------------------------------------------------------------------------------------------


def test_a_get_waits_for_an_item(gateway: Gateway) -> None:
    waiting, other = two(gateway)
    waiting.send(b"get q/t=1000\r\n")
    gateway.turn()
    assert waiting.take() == b""
    put(other, b"x")
    waiting.expect(hit(b"q", b"x"))


def test_a_get_that_waits_in_vain_is_a_miss(gateway: Gateway) -> None:
    waiting, _ = two(gateway)
    waiting.send(b"get q/t=1000\r\n")
    gateway.queues.advance(999)
    assert waiting.take() == b""
    gateway.queues.advance(1)
    waiting.expect(b"END\r\n")


@pytest.mark.parametrize("options", [b"t=1000", b"open/t=1000", b"close/t=1000/open", b"peek/t=1000"])
def test_a_wait_begins_whatever_is_wanted(gateway: Gateway, options: bytes) -> None:
    waiting, other = two(gateway)
    waiting.send(b"get q/%b\r\n" % options)
    put(other, b"x")
    waiting.expect(hit(b"q", b"x"))


def test_who_waits_longest_gets_the_first_item(gateway: Gateway) -> None:
    clients = [gateway.connect(port=port) for port in range(4)]
    put(clients[0], b"", queue=b"q")
    clients[0].ask(b"get q\r\n", hit(b"q", b""))
    for client in clients[1:]:
        client.send(b"get q/t=1000\r\n")
    put(clients[0], b"a", b"b", b"c")
    for client, item in zip(clients[1:], (b"a", b"b", b"c"), strict=True):
        client.expect(hit(b"q", item))


@pytest.mark.parametrize("options", [b"t=9000", b"t=9000/open"])
def test_a_dead_waiter_does_not_swallow_an_item(gateway: Gateway, options: bytes) -> None:
    dead, other = two(gateway)
    dead.send(b"get q/%b\r\n" % options)
    dead.lose()
    put(other, b"x")
    other.ask(b"get q\r\n", hit(b"q", b"x"))
    assert gateway.queues.stats("q").waiters == 0


def test_a_waiter_that_dies_with_an_item_on_its_way_gives_an_open_read_back(gateway: Gateway) -> None:
    dead, other = two(gateway)
    put(other, b"x")
    dead.send(b"get q/open\r\n")
    dead.lose()
    gateway.turn()
    other.ask(b"get q\r\n", hit(b"q", b"x"))


def test_what_a_lost_client_had_open_is_the_next_in_its_order(gateway: Gateway) -> None:
    lost, other = two(gateway)
    put(other, b"a", b"b", b"c")
    lost.ask(b"get q/open\r\n", hit(b"q", b"a"))
    lost.ask(b"get q/open\r\n", hit(b"q", b"b"))
    lost.lose()
    for item in (b"a", b"b", b"c"):
        other.ask(b"get q\r\n", hit(b"q", item))


def test_an_item_that_comes_back_goes_to_who_waits(gateway: Gateway) -> None:
    lost, waiting = two(gateway)
    put(waiting, b"x")
    lost.ask(b"get q/open\r\n", hit(b"q", b"x"))
    waiting.send(b"get q/t=1000\r\n")
    lost.lose()
    waiting.expect(hit(b"q", b"x"))


# --- pipelines ------------------------------------------------------------------------------------------


def test_a_mixed_pipeline_sees_what_came_before(gateway: Gateway) -> None:
    client = gateway.connect()
    sent, expected = b"", b""
    for number in range(50):
        item = b"%d" % number
        sent += b"set q 0 0 %d\r\n%b\r\nget q/open\r\nget q/close\r\nget q\r\n" % (len(item), item)
        expected += b"STORED\r\n" + hit(b"q", item) + b"END\r\nEND\r\n"
    client.send(sent)
    client.expect(expected)


def test_a_long_run_of_sets_then_of_gets(gateway: Gateway) -> None:
    client = gateway.connect()
    items = [b"%05d" % number for number in range(3000)]
    client.send(b"".join(b"set q 0 0 5\r\n%b\r\n" % item for item in items) + b"get q\r\n" * 3001)
    client.expect(b"STORED\r\n" * 3000)
    client.expect(b"".join(hit(b"q", item) for item in items) + b"END\r\n")


def test_opens_in_a_pipeline_stop_at_the_limit(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", kestrel_max_open_transactions=3) as gateway:
        client = gateway.connect()
        put(client, b"a", b"b", b"c", b"d")
        client.send(b"get q/open\r\n" * 5)
        client.expect(hit(b"q", b"a") + hit(b"q", b"b") + hit(b"q", b"c") + b"ERROR\r\n")
        client.await_close()


# --- monitor --------------------------------------------------------------------------------------------


def test_a_monitor_tells_items_as_they_come_until_its_time_is_over(gateway: Gateway) -> None:
    monitor, other = two(gateway)
    put(other, b"a")
    monitor.send(b"monitor q 2\r\n")
    monitor.expect(hit(b"q", b"a"))
    gateway.queues.advance(1000)
    put(other, b"b")
    monitor.expect(hit(b"q", b"b"))
    gateway.queues.advance(999)
    assert monitor.take() == b""
    gateway.queues.advance(1)
    monitor.expect(b"END\r\n")
    monitor.ask(b"confirm q 2\r\n", b"END\r\n")
    put(other, b"c")
    monitor.ask(b"get q\r\n", hit(b"q", b"c"))


def test_what_a_lost_monitor_was_told_comes_back(gateway: Gateway) -> None:
    monitor, other = two(gateway)
    put(other, b"a", b"b")
    monitor.send(b"monitor q 10\r\n")
    monitor.expect(hit(b"q", b"a") + hit(b"q", b"b"))
    monitor.lose()
    put(other, b"c")
    for item in (b"a", b"b", b"c"):
        other.ask(b"get q\r\n", hit(b"q", item))


def test_a_monitor_that_is_not_read_takes_no_more(gateway: Gateway) -> None:
    monitor, other = two(gateway)
    large = bytes(300_000)
    put(other, large, large, b"for others")
    monitor.transport.is_read = False
    monitor.send(b"monitor q 10\r\n")
    gateway.reactor.until(lambda: len(monitor.transport.sent) >= 300_000)
    gateway.turn()
    other.ask(b"get q\r\n", hit(b"q", large))
    other.ask(b"get q\r\n", hit(b"q", b"for others"))
    put(other, b"later")
    assert monitor.transport.drain() == hit(b"q", large)
    monitor.expect(hit(b"q", b"later"))


def test_a_monitor_ends_when_the_status_forbids_reading(gateway: Gateway) -> None:
    monitor, other = two(gateway)
    put(other, b"a")
    monitor.send(b"monitor q 10\r\n")
    monitor.expect(hit(b"q", b"a"))
    other.ask(b"status quiescent\r\n", b"END\r\n")
    gateway.queues.put("q", b"b")
    monitor.expect(hit(b"q", b"b") + b"END\r\n")


def test_a_monitor_of_what_cannot_be_a_queue(gateway: Gateway) -> None:
    client = gateway.connect()
    client.ask(b"monitor a.b 5\r\n", b"CLIENT_ERROR\r\n")
    client.await_close()


# --- the server -----------------------------------------------------------------------------------------


def test_the_status_is_the_servers_and_survives_it(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data") as gateway:
        first, second = two(gateway)
        first.ask(b"status ReadOnly\r\n", b"END\r\n")
        second.ask(b"status\r\n", b"READONLY\r\n")
        second.ask(b"set q 0 0 1\r\nx\r\n", b"SERVER_ERROR\r\n")
        second.await_close()
    with in_memory_gateway(tmp_path / "data") as gateway:
        gateway.connect().ask(b"status\r\n", b"READONLY\r\n")


def test_a_reload_that_fails_is_not_called_done(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", kestrel_allow_reload=True) as gateway:
        client = gateway.connect()
        client.ask(b"reload\r\n", b"Reloaded config.\r\n")
        gateway.reload_error = BarbicelError("the file is not TOML")
        client.ask(b"reload\r\n", b"SERVER_ERROR\r\n")
        assert gateway.reloads == 2
        assert not client.is_closed


def test_only_who_may_stops_the_server(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "a") as gateway:
        gateway.connect().send(b"shutdown\r\n")
        assert gateway.shutdowns == 0
    with in_memory_gateway(tmp_path / "b", kestrel_allow_shutdown=True) as gateway:
        gateway.connect().send(b"shutdown\r\n")
        assert gateway.shutdowns == 1


def stats_of(client: Client) -> dict[str, str]:
    client.send(b"stats\r\n")
    lines = client.take().decode().splitlines()
    assert lines.pop() == "END"
    return dict(line.removeprefix("STAT ").split(" ", 1) for line in lines)


def test_stats_count_what_clients_do(gateway: Gateway) -> None:
    client, other = two(gateway)  # two misses
    put(client, b"abc", b"de")
    client.ask(b"get q/peek\r\n", hit(b"q", b"abc"))
    client.ask(b"get q/open\r\n", hit(b"q", b"abc"))
    gateway.queues.advance(3000)
    stats = stats_of(client)
    expected = {
        "uptime": "3",
        "time": str(gateway.queues.now_ms // 1000),
        "curr_items": "1",
        "total_items": "2",
        "bytes": "2",
        "curr_connections": "2",
        "total_connections": "2",
        "cmd_get": "3",
        "cmd_set": "2",
        "cmd_peek": "1",
        "get_hits": "2",
        "get_misses": "2",
        "queue_creates": "1",
        "queue_q_items": "1",
        "queue_q_open_transactions": "1",
    }
    assert {name: stats[name] for name in expected} == expected
    other.lose()
    assert stats_of(client)["curr_connections"] == "1"
    assert int(stats_of(client)["bytes_written"]) > int(stats["bytes_written"]) > 0
    assert int(stats["bytes_read"]) > 50


def test_stats_of_a_master_name_its_children(gateway: Gateway) -> None:
    client, _ = two(gateway)
    client.ask(b"get q+b\r\n", b"END\r\n")
    client.ask(b"get q+a\r\n", b"END\r\n")
    assert stats_of(client)["queue_q_children"] == "q+a,q+b"
    assert "queue_q+a_children" not in stats_of(client)
    client.send(b"dump_stats q\r\n")
    assert b"  children=q+a,q+b\r\n}\r\nEND\r\n" in client.take()
