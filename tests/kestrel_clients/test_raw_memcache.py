"""The memcache protocol over a real socket: what no client library sends, and how connections end."""

from __future__ import annotations

from threading import Thread

import pytest

from tests.clients.client import until
from tests.clients.records import unique
from tests.kestrel_clients.raw_client import Disconnected, Memcache, Taken
from tests.support.gateway import Gateway

GATEWAY_SETTINGS = {"kestrel_max_open_transactions": "8"}
MANY = 500


@pytest.fixture
def queue() -> str:
    return unique("q")


def test_a_pipeline_is_answered_in_its_order(raw: Memcache, queue: str) -> None:
    name = queue.encode()
    sets = b"".join(b"set %b 0 0 %d\r\n%d\r\n" % (name, len(b"%d" % n), n) for n in range(MANY))
    raw.send(sets + b"get %b\r\n" % name * MANY + b"version\r\n")
    assert all(raw.read_stored() for _ in range(MANY))
    assert [raw.read_item() for _ in range(MANY)] == [Taken(name, 0, b"%d" % n) for n in range(MANY)]
    assert raw.read_line().startswith(b"VERSION ")


def test_a_request_may_come_in_pieces(raw: Memcache, queue: str) -> None:
    for byte in b"set %b 5 0 7\r\na\r\nEND\r\r\n" % queue.encode():
        raw.send(bytes([byte]))
    assert raw.read_stored()
    assert raw.take(queue) == Taken(queue.encode(), 5, b"a\r\nEND\r")


def test_sets_without_a_reply_are_stored_though_the_client_has_gone(
    gateway: Gateway, raw: Memcache, queue: str
) -> None:
    leaving = Memcache(gateway.kestrel_port)
    leaving.send(b"set %b 0 0 1 noreply\r\nx\r\ndelete other noreply\r\n" % queue.encode() * MANY)
    leaving.end()
    until("all are stored", lambda: raw.stat(queue, "items") == MANY)


def test_who_has_sent_all_is_answered(gateway: Gateway, queue: str) -> None:
    half = Memcache(gateway.kestrel_port)
    name = queue.encode()
    half.send(b"set %b 0 0 1\r\nx\r\nget %b\r\nget %b/t=60000\r\nversion\r\n" % (name, name, name))
    half.end_sending()
    assert half.read_stored()
    assert half.read_item() == Taken(name, 0, b"x")
    assert half.read_item() is None  # nobody waits who may be gone
    assert half.read_line().startswith(b"VERSION ")
    with pytest.raises(Disconnected):
        half.read_line()
    half.end()


def test_a_megabyte_comes_back_whole(raw: Memcache, queue: str) -> None:
    data = bytes(range(256)) * 20_480
    assert raw.put(queue, data)
    assert raw.get(queue) == data


def test_monitor_and_confirm(raw: Memcache, queue: str) -> None:
    for number in range(3):
        raw.put(queue, b"%d" % number)
    raw.send(b"monitor %b 5 3\r\n" % queue.encode())
    assert [raw.read_item() for _ in range(4)] == [
        *(Taken(queue.encode(), 0, b"%d" % number) for number in range(3)),
        None,
    ]
    assert raw.ask(b"confirm %b 2\r\n" % queue.encode()) == b"END"
    assert raw.ask(b"get %b/abort\r\n" % queue.encode()) == b"END"
    assert raw.get(queue) == b"2"


def test_flush_expired(raw: Memcache, queue: str) -> None:
    for _ in range(3):
        raw.put(queue, b"old", expiry_s=-1)
    raw.put(queue, b"new")
    # The clock looks for them too, and whoever comes first has them.
    assert 0 <= int(raw.ask(b"flush_expired %b\r\n" % queue.encode())) <= 3
    assert raw.stat(queue, "expired_items") == 3
    assert raw.get(queue) == b"new"


def test_statistics_of_a_queue(raw: Memcache, queue: str) -> None:
    raw.get(f"{queue}+child")
    raw.put(queue, b"12345")
    raw.get(f"{queue}/open")
    shown = dict(line.strip().split(b"=") for line in raw.lines(f"dump_stats {queue}\r\n".encode())[1:-1])
    assert shown[b"open_transactions"] == shown[b"total_items"] == b"1"
    assert shown[b"children"] == f"{queue}+child".encode()
    assert raw.stat(queue, "items") == 0
    assert raw.stat(f"{queue}+child", "bytes") == 5
    names = raw.lines(b"list_queues\r\n")
    assert f"QUEUE {queue}".encode() in names
    assert f"QUEUE {queue}+child".encode() in names


@pytest.mark.parametrize("command", [b"shutdown", b"reload", b"flush_all"])
def test_what_only_an_operator_may_do_is_refused(raw: Memcache, other: Memcache, command: bytes) -> None:
    assert raw.ask(command + b"\r\n").startswith(b"SERVER_ERROR")
    assert other.ask(b"status\r\n") == b"UP"


@pytest.mark.parametrize("request_", [b"nonsense\r\n", b"get /open\r\n", b"get a.b\r\n", b"x" * 100_000])
def test_what_is_nothing_ends_the_connection(raw: Memcache, request_: bytes) -> None:
    assert raw.ask(request_).startswith(b"CLIENT_ERROR")
    assert raw.is_ended()


def test_too_many_open_reads_end_the_connection_and_come_back(
    raw: Memcache, other: Memcache, queue: str
) -> None:
    for number in range(9):
        raw.put(queue, b"%d" % number)
    assert [raw.get(f"{queue}/open") for _ in range(8)] == [b"%d" % number for number in range(8)]
    assert raw.ask(b"get %b/open\r\n" % queue.encode()) == b"ERROR"
    assert raw.is_ended()
    until("all are back", lambda: other.stat(queue, "items") == 9)
    assert [other.get(queue) for _ in range(9)] == [b"%d" % number for number in range(9)]


# --- how connections end --------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [Memcache.end, Memcache.reset])
def test_whoever_waits_gets_what_another_had_open(gateway: Gateway, raw: Memcache, ending: object) -> None:
    queue = unique("q")
    assert callable(ending)
    raw.put(queue, b"one")
    holder = Memcache(gateway.kestrel_port)
    assert holder.get(f"{queue}/open") == b"one"
    raw.send(b"get %b/t=30000\r\n" % queue.encode())
    ending(holder)
    assert raw.read_item() == Taken(queue.encode(), 0, b"one")


@pytest.mark.parametrize("ending", [Memcache.end, Memcache.reset])
def test_one_that_is_gone_swallows_nothing(gateway: Gateway, raw: Memcache, ending: object) -> None:
    queue = unique("q")
    assert callable(ending)
    gone = [Memcache(gateway.kestrel_port) for _ in range(5)]
    for client in gone:
        client.send(b"get %b/t=30000\r\n" % queue.encode())
    until("all wait", lambda: raw.stat(queue, "waiters") == len(gone))
    for client in gone:
        ending(client)
    until("nobody waits", lambda: raw.stat(queue, "waiters") == 0)
    assert raw.put(queue, b"one")
    assert raw.get(queue) == b"one"


def test_those_who_wait_are_served_in_their_order(gateway: Gateway, raw: Memcache, queue: str) -> None:
    waiting = []
    for number in range(5):
        client = Memcache(gateway.kestrel_port)
        client.send(b"get %b/t=30000\r\n" % queue.encode())
        until("it waits", lambda wanted=number + 1: raw.stat(queue, "waiters") == wanted)  # type: ignore[misc]
        waiting.append(client)
    for number in range(5):
        raw.put(queue, b"%d" % number)
    for number, client in enumerate(waiting):
        assert client.read_item() == Taken(queue.encode(), 0, b"%d" % number)
        client.end()


def test_quit(raw: Memcache) -> None:
    raw.send(b"quit\r\n")
    assert raw.is_ended()


def test_one_who_reads_nothing_delays_nobody(gateway: Gateway, raw: Memcache, queue: str) -> None:
    """Its answers would be 40 MB. It is not read any more, and everybody else is served."""
    item = b"x" * 1_000_000
    for _ in range(40):
        assert raw.put(f"{queue}-large", item)
    with Memcache(gateway.kestrel_port) as slow:
        writer = Thread(target=_send_or_be_gone, args=(slow, b"get %b-large\r\n" % queue.encode() * 40))
        writer.start()
        for number in range(200):
            assert raw.put(queue, b"%d" % number)
            assert raw.get(queue) == b"%d" % number
        for _ in range(40):
            assert slow.read_item() == Taken(queue.encode() + b"-large", 0, item)
        writer.join()


def _send_or_be_gone(client: Memcache, data: bytes) -> None:
    try:
        client.send(data)
    except Disconnected:
        return
