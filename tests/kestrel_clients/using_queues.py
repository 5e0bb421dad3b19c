"""The checks that every memcache client has to pass, whatever it makes of the protocol's details.

A test module has a subclass with the `library`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Timer
from typing import ClassVar

import pytest

from tests.clients.client import until
from tests.clients.records import unique
from tests.kestrel_clients.memcache_client import MemcacheClient, Value
from tests.kestrel_clients.raw_client import Memcache
from tests.support.gateway import Gateway

__all__ = ["UsingQueues"]

VALUES: tuple[Value, ...] = ("größe", b"\x00\r\nEND\r\n\xff", "", b"", 7, "x" * 500_000)
WAIT_MS = 200
SOON_S = 0.1
# What the clients agree on of the rows of `stats`.
ROWS = ["uptime", "time", "version", "curr_items", "total_items", "bytes", "cmd_get", "cmd_set", "get_hits"]


class UsingQueues:
    library: ClassVar[type[MemcacheClient]]

    @pytest.fixture
    def client(self, gateway: Gateway) -> Iterator[MemcacheClient]:
        client = self.library(gateway.kestrel_port)
        yield client
        client.end()

    @pytest.fixture
    def queue(self) -> str:
        return unique("q")

    def test_values_come_back_as_they_were_and_in_order(self, client: MemcacheClient, queue: str) -> None:
        for value in VALUES:
            assert client.put(queue, value)
        assert [client.get(queue) for _ in VALUES] == list(VALUES)
        assert client.get(queue) is None

    def test_what_is_open_comes_back_until_it_is_closed(self, client: MemcacheClient, queue: str) -> None:
        client.put(queue, "one")
        client.put(queue, "two")
        assert client.get(f"{queue}/open") == "one"
        assert client.get(f"{queue}/abort") is None
        assert client.get(f"{queue}/open") == "one"
        assert client.get(f"{queue}/close") is None
        assert client.get(queue) == "two"
        assert client.get(f"{queue}/open") is None

    def test_each_close_opens_the_next(self, client: MemcacheClient, queue: str) -> None:
        values = [f"value {number}" for number in range(20)]
        for value in values:
            client.put(queue, value)
        assert [client.get(f"{queue}/close/open") for _ in values] == values
        assert client.get(f"{queue}/close/open") is None
        assert client.get(f"{queue}/abort") is None
        assert client.get(queue) is None

    def test_a_client_that_goes_away_gives_back_what_it_has_open(
        self, client: MemcacheClient, queue: str, raw: Memcache
    ) -> None:
        client.put(queue, "mine")
        client.put(queue, "next")
        assert client.get(f"{queue}/open") == "mine"
        client.end()
        until("the item is back", lambda: raw.stat(queue, "canceled_transactions") == 1)
        # A client that has closed its connection makes another.
        assert [client.get(queue), client.get(queue)] == ["mine", "next"]

    def test_a_peek_takes_nothing(self, client: MemcacheClient, queue: str) -> None:
        client.put(queue, "there")
        assert [client.get(f"{queue}/peek") for _ in range(2)] == ["there", "there"]
        assert client.get(queue) == "there"

    def test_a_get_waits_for_an_item(
        self, client: MemcacheClient, queue: str, gateway: Gateway, raw: Memcache
    ) -> None:
        began = time.monotonic()
        assert client.get(f"{queue}/t={WAIT_MS}") is None
        assert time.monotonic() - began >= WAIT_MS / 1000
        soon = Timer(SOON_S, lambda: raw.put(queue, b"at last"))
        soon.start()
        try:
            assert client.get(f"{queue}/t=30000/open") == b"at last"
        finally:
            soon.join()
        assert client.get(f"{queue}/close") is None

    def test_an_item_that_has_expired_is_not_given(self, client: MemcacheClient, queue: str) -> None:
        assert client.put(queue, "from 1970", expiry_s=1_000_000)
        assert client.put(queue, "of the next minute", expiry_s=60)
        assert client.get(queue) == "of the next minute"
        assert client.get(queue) is None

    def test_delete(self, client: MemcacheClient, queue: str) -> None:
        client.put(queue, "gone")
        assert client.delete(queue)
        assert client.get(queue) is None
        assert client.delete(unique("never-there"))

    def test_flush(self, client: MemcacheClient, queue: str, raw: Memcache) -> None:
        client.put(queue, "gone")
        client.get(f"{queue}/peek")  # then it is stored, whether the client has waited for that or not
        assert raw.ask(b"flush %b\r\n" % queue.encode()) == b"END"
        assert client.get(queue) is None

    def test_stats(self, client: MemcacheClient, queue: str) -> None:
        before = client.stats()
        client.put(queue, "one")
        client.get(queue)
        after = client.stats()
        assert [row for row in after if row in ROWS] == ROWS
        for row in ("total_items", "cmd_get", "cmd_set", "get_hits"):
            assert int(after[row]) == int(before[row]) + 1

    def test_fanout(self, client: MemcacheClient, queue: str) -> None:
        children = [f"{queue}+{name}" for name in ("audit", "mail")]
        for child in children:
            assert client.get(child) is None  # which makes it
        client.put(queue, "for all")
        client.put(children[0], "for one")
        assert [client.get(children[0]), client.get(children[0])] == ["for all", "for one"]
        assert [client.get(children[1]), client.get(children[1])] == ["for all", None]
        assert [client.get(queue), client.get(queue)] == ["for all", None]
