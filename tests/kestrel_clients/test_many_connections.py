"""Many clients at a time: those who work are all served, and those who do nothing cost nothing."""

from __future__ import annotations

import resource
import selectors
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.clients.client import until
from tests.clients.records import unique
from tests.kestrel_clients.raw_client import Memcache
from tests.support.gateway import Gateway

BUSY, ROUNDS = 300, 20
IDLE = 2_000
# Of this process and of the gateway, which inherits the limit.
FILES = IDLE + 500
DEADLINE_S = 60.0


@pytest.fixture(scope="module", autouse=True)
def enough_files() -> Iterator[None]:
    """Before the gateway starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:
        pytest.skip(f"a process may have {hard} files open here, and this needs {FILES}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FILES), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def connections(gateway: Gateway, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        address = ("127.0.0.1", gateway.kestrel_port)
        yield [stack.enter_context(socket.create_connection(address, DEADLINE_S)) for _ in range(count)]


def talk(clients: list[socket.socket], requests: list[bytes]) -> list[bytes]:
    """All send at once; what each was answered, up to the end of an answer."""
    deadline = time.monotonic() + DEADLINE_S
    answers = dict.fromkeys(clients, b"")
    with selectors.DefaultSelector() as selector:
        for client, request in zip(clients, requests, strict=True):
            selector.register(client, selectors.EVENT_READ, client)
            client.sendall(request)
        while selector.get_map():
            assert time.monotonic() < deadline, f"{len(selector.get_map())} were not answered"
            for key, _ in selector.select(1.0):
                client = key.data
                data = client.recv(1 << 16)
                assert data, "the gateway has hung up"
                answers[client] += data
                if answers[client].endswith((b"STORED\r\n", b"END\r\n")):
                    selector.unregister(client)
    return [answers[client] for client in clients]


def test_three_hundred_set_and_get_at_once(gateway: Gateway, raw: Memcache) -> None:
    queue = unique("busy").encode()
    raw.get(queue.decode())
    items = Counter[bytes]()
    with connections(gateway, BUSY) as clients:
        for turn in range(ROUNDS):
            sent = [b"%03d of %03d" % (number, turn) for number in range(BUSY)]
            sets = [b"set %b 0 0 %d\r\n%b\r\n" % (queue, len(item), item) for item in sent]
            assert set(talk(clients, sets)) == {b"STORED\r\n"}
            items.update(answer.split(b"\r\n")[1] for answer in talk(clients, [b"get %b\r\n" % queue] * BUSY))
    assert items == {b"%03d of %03d" % (number, turn): 1 for number in range(BUSY) for turn in range(ROUNDS)}
    assert raw.get(queue.decode()) is None


def test_three_hundred_wait_and_each_is_given_one(gateway: Gateway, raw: Memcache) -> None:
    queue = unique("waited")
    with connections(gateway, BUSY) as clients:
        for client in clients:
            client.sendall(b"get %b/open/t=60000\r\n" % queue.encode())
        until("all wait", lambda: raw.stat(queue, "waiters") == BUSY)
        for number in range(BUSY):
            raw.send_put(queue, b"%d" % number)
        assert all(raw.read_stored() for _ in range(BUSY))
        # Each has sent already; an empty request is none.
        answers = talk(clients, [b""] * BUSY)
        given = {answer.split(b"\r\n")[1] for answer in answers}
        assert given == {b"%d" % number for number in range(BUSY)}
        assert raw.stat(queue, "open_transactions") == BUSY
    until("all went back", lambda: raw.stat(queue, "items") == BUSY)


def test_two_thousand_idle_connections_hold(gateway: Gateway, raw: Memcache) -> None:
    queue = unique("idle")
    before_kib = memory_kib(gateway)
    with connections(gateway, IDLE) as clients:
        until("all are in", lambda: int(raw.stats()["curr_connections"]) >= IDLE)
        assert memory_kib(gateway) - before_kib < 64 << 10
        for number in range(200):
            assert raw.put(queue, b"%d" % number)
            assert raw.get(queue) == b"%d" % number
        # And all of them are still served.
        requests = [b"set %b 0 0 1\r\nx\r\n" % queue.encode()] * IDLE
        assert set(talk(clients, requests)) == {b"STORED\r\n"}
        assert raw.stat(queue, "items") == IDLE
    until("all are gone", lambda: int(raw.stats()["curr_connections"]) == 1)


def memory_kib(gateway: Gateway) -> int:
    with open(f"/proc/{gateway.pid}/status", encoding="ascii") as status:
        (line,) = (line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1])
