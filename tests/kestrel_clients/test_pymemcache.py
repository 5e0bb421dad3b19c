"""pymemcache as it is: noreply by default, and it compares the key of every VALUE."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymemcache
import pytest
from pymemcache.exceptions import MemcacheServerError

from barbicel import __version__
from tests.clients.client import until
from tests.clients.records import unique
from tests.kestrel_clients.pymemcache_client import Pymemcache
from tests.kestrel_clients.raw_client import Memcache
from tests.kestrel_clients.using_queues import UsingQueues
from tests.support.gateway import Gateway, running_gateway

GATEWAY_SETTINGS = {"kestrel_echo_key": "true"}


class TestPymemcache(UsingQueues):
    library = Pymemcache


@pytest.fixture
def client(gateway: Gateway) -> Iterator[Any]:
    """Without a serde: bytes in, bytes out."""
    client = pymemcache.Client(("127.0.0.1", gateway.kestrel_port))
    yield client
    client.close()


def test_what_wants_no_reply_gets_none(client: Any) -> None:
    queue = unique("q")
    for number in range(200):
        client.set(queue, b"%d" % number)
    client.delete(unique("q"))
    assert [client.get(queue) for _ in range(201)] == [*(b"%d" % number for number in range(200)), None]


def test_set_many(client: Any) -> None:
    values = {unique("q"): b"value %d" % number for number in range(10)}
    assert client.set_many(values) == []
    assert client.set_many(values, noreply=False) == []
    for queue, value in values.items():
        assert [client.get(queue) for _ in range(3)] == [value, value, None]


def test_its_raw_command_sends_what_memcached_does_not_have(client: Any) -> None:
    queue = unique("q")
    client.set(queue, b"gone", noreply=False)
    assert client.raw_command(f"flush {queue}") == b"END"
    assert client.get(queue) is None
    assert queue.encode() in client.raw_command("list_queues", "END\r\n")
    assert client.raw_command("status") == b"UP"
    assert client.version() == __version__.encode()


def test_what_is_not_allowed_is_an_error_that_says_why(client: Any) -> None:
    with pytest.raises(MemcacheServerError, match="kestrel.allow.flush.all"):
        client.flush_all(noreply=False)


def test_without_the_echo_an_open_read_fails_and_loses_nothing(tmp_path: Path) -> None:
    """As with Kestrel. It hangs up, so the item goes back."""
    with running_gateway(tmp_path, durability="write") as gateway:
        client = pymemcache.Client(("127.0.0.1", gateway.kestrel_port))
        client.set("q", b"kept", noreply=False)
        with pytest.raises(KeyError):
            client.get("q/open")
        with Memcache(gateway.kestrel_port) as raw:
            until("the item is back", lambda: raw.stat("q", "canceled_transactions") == 1)
        assert client.get("q") == b"kept"
        client.close()
