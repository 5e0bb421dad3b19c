"""python-memcached as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.client import until
from tests.clients.records import unique
from tests.kestrel_clients.python_memcached_client import PythonMemcached
from tests.kestrel_clients.raw_client import Memcache
from tests.kestrel_clients.using_queues import UsingQueues
from tests.support.gateway import Gateway

# Its own, by the type of a value.
TEXT, INTEGER, PICKLE, COMPRESSED = 16, 2, 1, 8


class TestPythonMemcached(UsingQueues):
    library = PythonMemcached


@pytest.fixture
def client(gateway: Gateway) -> Iterator[PythonMemcached]:
    client = PythonMemcached(gateway.kestrel_port)
    yield client
    client.end()


def test_its_flags_are_kept(client: PythonMemcached, raw: Memcache) -> None:
    queue = unique("q")
    values = ["text", b"bytes", 7, {"a": [1, 2]}]
    for value in values:
        assert client.client.set(queue, value)
    assert client.client.set(queue, "x" * 10_000, min_compress_len=100)
    flags = [TEXT, 0, INTEGER, PICKLE, TEXT | COMPRESSED]
    seen = [raw.take(f"{queue}/open") for _ in flags]
    assert [item.flags for item in seen if item is not None] == flags
    for _ in flags:
        raw.get(f"{queue}/abort")
    assert [client.client.get(queue) for _ in flags] == [*values, "x" * 10_000]


def test_noreply(client: PythonMemcached) -> None:
    """Kestrel answers nevertheless, and every later answer is taken for another's."""
    queue = unique("q")
    for number in range(50):
        assert client.client.set(queue, number, noreply=True)
    assert [client.get(queue) for _ in range(51)] == [*range(50), None]


def test_set_multi_fills_many_queues_at_once(client: PythonMemcached) -> None:
    values = {unique("q"): f"value {number}" for number in range(10)}
    assert client.client.set_multi(values) == []
    assert {queue: client.get(queue) for queue in values} == values


def test_a_refusal_is_false(client: PythonMemcached) -> None:
    assert not client.put("a.b", "no queue has this name")


def test_it_works_with_what_kestrel_answers_to_flush_all(client: PythonMemcached) -> None:
    """It wants OK. This is not allowed by default, so nothing is flushed."""
    queue = unique("q")
    client.put(queue, "still here")
    client.client.flush_all()
    assert client.get(queue) == "still here"


def test_a_wait_that_its_own_timeout_cuts_off_swallows_no_item(gateway: Gateway, raw: Memcache) -> None:
    queue = unique("q")
    impatient = PythonMemcached(gateway.kestrel_port, timeout_s=0.2)
    assert impatient.get(f"{queue}/open/t=30000") is None
    impatient.end()
    until("it is known to be gone", lambda: raw.stat(queue, "waiters") == 0)
    assert raw.put(queue, b"not swallowed")
    assert raw.get(queue) == b"not swallowed"
