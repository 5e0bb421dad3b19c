"""Workers that share a queue: open, work, close. Some of them fail on the way, as often as they are told.

What each has seen is a list of its own, in moments that all share; `Tally` puts them together in the end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from threading import Event, Thread
from typing import NamedTuple

from tests.kestrel_clients.memcache_client import MemcacheClient, Value
from tests.kestrel_clients.raw_client import Memcache

__all__ = ["Fate", "PlainWorker", "Tally", "UnluckyWorker", "Worker", "run_pool"]

WAIT_MS = 50
DEADLINE_S = 60.0


class Fate(NamedTuple):
    """How likely each misfortune is; what is left is luck."""

    abort: float = 0.0
    # With the item open.
    hang_up: float = 0.0
    # With the close on its way: nobody knows whether it was confirmed.
    hang_up_at_close: float = 0.0
    # While it waits for an item.
    hang_up_at_open: float = 0.0


class Moment(NamedTuple):
    """Of two the later one has the larger number."""

    number: int
    item: bytes


_moments = count()


class Worker(Thread):
    """It ends when `no_more` is set and the queue has nothing for it."""

    def __init__(self, queue: str, no_more: Event) -> None:
        super().__init__(daemon=True)
        self.queue = queue
        self.no_more = no_more
        self.delivered: list[Moment] = []
        self.confirmed: list[Moment] = []
        self.perhaps_confirmed: list[Moment] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.error = error

    @abstractmethod
    def work(self) -> None: ...


class PlainWorker(Worker):
    """With any client; nothing ever goes wrong."""

    def __init__(self, queue: str, no_more: Event, connect: Callable[[], MemcacheClient]) -> None:
        super().__init__(queue, no_more)
        self._client = connect()

    def work(self) -> None:
        while (item := self._client.get(f"{self.queue}/open/t={WAIT_MS}")) or not self.no_more.is_set():
            if item:
                self.delivered.append(_now(item))
                self._client.get(f"{self.queue}/close")
                self.confirmed.append(_now(item))
        self._client.end()


class UnluckyWorker(Worker):
    """On a raw socket, so that it knows what it was told."""

    def __init__(self, queue: str, no_more: Event, port: int, fate: Fate, seed: int) -> None:
        super().__init__(queue, no_more)
        self._port = port
        self._random = Random(seed)
        self._fate = fate
        self._client = Memcache(port)

    def work(self) -> None:
        while True:
            if self._is_hit(self._fate.hang_up_at_open):
                self._client.send(b"get %b/open/t=30000\r\n" % self.queue.encode())
                self._hang_up()
            item = self._client.get(f"{self.queue}/open/t={WAIT_MS}")
            if item is not None:
                self.delivered.append(_now(item))
                self._finish(item)
            elif self.no_more.is_set():
                self._client.end()
                return

    def _finish(self, item: bytes) -> None:
        if self._is_hit(self._fate.abort):
            assert self._client.get(f"{self.queue}/abort") is None
        elif self._is_hit(self._fate.hang_up):
            self._hang_up()
        elif self._is_hit(self._fate.hang_up_at_close):
            self._client.send(b"get %b/close\r\n" % self.queue.encode())
            self._hang_up()
            self.perhaps_confirmed.append(_now(item))
        else:
            assert self._client.get(f"{self.queue}/close") is None
            self.confirmed.append(_now(item))

    def _is_hit(self, chance: float) -> bool:
        return self._random.random() < chance

    def _hang_up(self) -> None:
        self._random.choice((self._client.end, self._client.reset))()
        self._client = Memcache(self._port)


class Tally:
    """All that a pool has seen: how often each item was delivered and confirmed."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        deliveries = [moment for worker in workers for moment in worker.delivered]
        confirmations = {moment.item: moment.number for worker in workers for moment in worker.confirmed}
        self.delivered = Counter(moment.item for moment in deliveries)
        self.confirmed = Counter(moment.item for worker in workers for moment in worker.confirmed)
        self.done = set(confirmations) | {
            moment.item for worker in workers for moment in worker.perhaps_confirmed
        }
        # Delivered when somebody had been told already that it is confirmed.
        self.came_back = {item for number, item in deliveries if number > confirmations.get(item, number)}


def run_pool(workers: Sequence[Worker], put_all: Callable[[], None], no_more: Event) -> None:
    """Put while the workers work, and let them finish."""
    for worker in workers:
        worker.start()
    try:
        put_all()
    finally:
        no_more.set()
        for worker in workers:
            worker.join(DEADLINE_S)
    assert not any(worker.is_alive() for worker in workers), "a worker waits for ever"
    for worker in workers:
        if worker.error is not None:
            raise worker.error


def _now(item: Value) -> Moment:
    assert isinstance(item, bytes), item
    return Moment(next(_moments), item)
