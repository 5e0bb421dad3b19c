"""Several workers share a queue: nothing is lost, and without faults nothing comes twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event

import pytest

from tests.clients.client import until
from tests.clients.records import unique
from tests.kestrel_clients.memcache_client import MemcacheClient
from tests.kestrel_clients.pymemcache_client import Pymemcache
from tests.kestrel_clients.python_memcached_client import PythonMemcached
from tests.kestrel_clients.raw_client import Memcache
from tests.kestrel_clients.worker_pool import Fate, PlainWorker, Tally, UnluckyWorker, run_pool
from tests.support.gateway import Gateway

GATEWAY_SETTINGS = {"kestrel_echo_key": "true"}
WORKERS = 6
ITEMS = 1_500
LUCK = Fate()
MISFORTUNE = Fate(abort=0.1, hang_up=0.05, hang_up_at_close=0.05, hang_up_at_open=0.03)


def put_all(gateway: Gateway, queue: str, items: list[bytes]) -> None:
    """In bursts, so that workers find both a full and an empty queue."""
    with Memcache(gateway.kestrel_port) as producer:
        for start in range(0, len(items), 50):
            burst = items[start : start + 50]
            for item in burst:
                producer.send_put(queue, item)
            assert all(producer.read_stored() for _ in burst)


def numbered(count: int = ITEMS) -> list[bytes]:
    return [b"item %d" % number for number in range(count)]


def await_the_gone(gateway: Gateway, queue: str) -> None:
    """Those who hung up are known to be gone, and what they had is back."""
    with Memcache(gateway.kestrel_port) as client:
        for held in ("waiters", "open_transactions"):
            until(f"no {held}", lambda held=held: client.stat(queue, held) == 0)  # type: ignore[misc]


def assert_empty(gateway: Gateway, queue: str) -> None:
    await_the_gone(gateway, queue)
    with Memcache(gateway.kestrel_port) as client:
        assert client.get(f"{queue}/t=100") is None
        assert client.stat(queue, "items") == 0


def test_without_faults_each_item_is_delivered_once(gateway: Gateway) -> None:
    queue, items, no_more = unique("luck"), numbered(), Event()
    workers = [UnluckyWorker(queue, no_more, gateway.kestrel_port, LUCK, seed) for seed in range(WORKERS)]
    run_pool(workers, lambda: put_all(gateway, queue, items), no_more)
    tally = Tally(workers)
    assert tally.delivered == tally.confirmed == dict.fromkeys(items, 1)
    assert sum(bool(worker.delivered) for worker in workers) > 1, "they did not share"
    assert_empty(gateway, queue)


def test_client_libraries_share_a_queue(gateway: Gateway) -> None:
    pytest.importorskip("pylibmc", reason="pylibmc is not installed, see pylibmc_client.py")
    from tests.kestrel_clients.pylibmc_client import Pylibmc

    queue, items, no_more = unique("mixed"), numbered(), Event()
    libraries: list[Callable[[int], MemcacheClient]] = [Pylibmc, Pymemcache, PythonMemcached]
    connects = [partial(library, gateway.kestrel_port) for library in libraries for _ in range(2)]
    workers = [PlainWorker(queue, no_more, connect) for connect in connects]
    run_pool(workers, lambda: put_all(gateway, queue, items), no_more)
    tally = Tally(workers)
    assert tally.delivered == tally.confirmed == dict.fromkeys(items, 1)
    assert_empty(gateway, queue)


@pytest.mark.parametrize("seed", [1, 2])
def test_aborts_and_lost_connections_lose_nothing(gateway: Gateway, seed: int) -> None:
    """What was confirmed does not come back, and everything else does."""
    queue, items, no_more = unique("misfortune"), numbered(), Event()
    port = gateway.kestrel_port
    workers = [
        UnluckyWorker(queue, no_more, port, MISFORTUNE, seed * 100 + number) for number in range(WORKERS)
    ]
    run_pool(workers, lambda: put_all(gateway, queue, items), no_more)
    await_the_gone(gateway, queue)
    # Whoever hung up last has given back what nobody asked for any more.
    last = UnluckyWorker(queue, no_more, port, LUCK, seed)
    run_pool([last], lambda: None, no_more)
    tally = Tally([*workers, last])
    assert tally.done == set(items)
    assert not tally.came_back
    assert max(tally.confirmed.values()) == 1
    assert tally.delivered.total() > 1.1 * ITEMS, "nothing went wrong: this was no test"
    assert_empty(gateway, queue)
