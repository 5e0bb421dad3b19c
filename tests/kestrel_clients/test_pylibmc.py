"""pylibmc as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.records import unique
from tests.kestrel_clients.pylibmc_client import Pylibmc, pylibmc
from tests.kestrel_clients.raw_client import Memcache
from tests.kestrel_clients.using_queues import UsingQueues
from tests.support.gateway import Gateway

# Its own, by the type of a value.
TEXT, LONG, COMPRESSED = 16, 4, 8


class TestPylibmc(UsingQueues):
    library = Pylibmc


@pytest.fixture
def client(gateway: Gateway) -> Iterator[Pylibmc]:
    client = Pylibmc(gateway.kestrel_port)
    yield client
    client.end()


def test_its_flags_are_kept(client: Pylibmc, raw: Memcache) -> None:
    queue = unique("q")
    assert client.put(queue, "text")
    assert client.put(queue, 7)
    assert client.client.set(queue, "x" * 10_000, min_compress_len=100)
    flags = [TEXT, LONG, TEXT | COMPRESSED]
    seen = [raw.take(f"{queue}/open") for _ in flags]
    assert [item.flags for item in seen if item is not None] == flags
    for _ in flags:
        raw.get(f"{queue}/abort")
    assert [client.get(queue) for _ in flags] == ["text", 7, "x" * 10_000]


@pytest.mark.parametrize("behaviour", ["no_block", "tcp_nodelay", "tcp_keepalive"])
def test_its_ways_to_talk(gateway: Gateway, behaviour: str) -> None:
    queue = unique("q")
    client = pylibmc.Client([f"127.0.0.1:{gateway.kestrel_port}"], behaviors={behaviour: True})
    for number in range(20):
        client.set(queue, number)
    assert [client.get(f"{queue}/close/open") for _ in range(20)] == list(range(20))
    assert client.get(f"{queue}/close") is None
    client.disconnect_all()


def test_set_multi_fills_many_queues_at_once(client: Pylibmc) -> None:
    values = {unique("q"): f"value {number}" for number in range(10)}
    assert client.client.set_multi(values) == []
    assert {queue: client.get(queue) for queue in values} == values


def test_a_refusal_is_an_error(client: Pylibmc) -> None:
    with pytest.raises(pylibmc.Error):
        client.put("a.b", "no queue has this name")
