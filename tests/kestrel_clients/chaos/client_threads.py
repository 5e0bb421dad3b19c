"""Those who put and those who read, on raw sockets; each goes on, on a new connection, after a kill."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from random import Random
from threading import Event, Thread
from time import monotonic

from tests.kestrel_clients.chaos.history import Delivery, History
from tests.kestrel_clients.raw_client import Disconnected, Memcache

__all__ = ["ClientThread", "Producer", "Worker", "read_rest"]

RECONNECT_S = 0.01
BURST = 20
MAX_ITEM_BYTES = 2_000
# So many items wait at most, or the end of a run would be long.
MAX_BACKLOG = 1_500
MAX_OPEN = 4
WAIT_MS = 100
ABORTS, HANG_UPS = 0.05, 0.01


class ClientThread(Thread):
    """`work` is called with a connection, again and again; it may end anywhere with that connection."""

    def __init__(self, name: str, port: int, history: History, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.history = history
        self.stopping = Event()
        self.random = Random(f"{name} {seed}")
        self._port = port

    @abstractmethod
    def work(self, client: Memcache) -> None:
        """Once. Returns when nothing is under way."""

    def disconnected(self) -> None:
        """The connection is gone, and what was under way with it."""

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self._live()
        except Exception as error:
            self.history.troubles.append(f"{self.name} ended: {error!r}")

    def _live(self) -> None:
        """One connection."""
        try:
            client = Memcache(self._port)
        except ConnectionError:
            self.stopping.wait(RECONNECT_S)
            return
        try:
            while not self.stopping.is_set():
                self.work(client)
        except Disconnected:
            pass
        finally:
            self.disconnected()
            client.end()


class Producer(ClientThread):
    """Puts in bursts; every item is another. Not while the slowest line is far behind."""

    def __init__(self, name: str, port: int, queue: str, history: History, seed: int) -> None:
        super().__init__(name, port, history, seed)
        self._queue = queue
        self._sent = 0

    def work(self, client: Memcache) -> None:
        if self.history.backlog() > MAX_BACKLOG:
            self.stopping.wait(RECONNECT_S)
            return
        burst = [self._item() for _ in range(self.random.randint(1, BURST))]
        now = monotonic()
        for item in burst:
            self.history.sent[item] = now
            client.send_put(self._queue, item)
        for item in burst:
            if client.read_stored():
                self.history.stored[item] = monotonic()
            else:
                self.history.troubles.append(f"{item[:40]!r} was refused")

    def _item(self) -> bytes:
        self._sent += 1
        return b"%b %d " % (self.name.encode(), self._sent) + b"." * self.random.randrange(MAX_ITEM_BYTES)


class Worker(ClientThread):
    """Opens a few items and closes them; sometimes it gives one back, or hangs up."""

    def __init__(self, name: str, port: int, line: str, history: History, seed: int) -> None:
        super().__init__(name, port, history, seed)
        self._line = line
        self._open: deque[Delivery] = deque()

    def work(self, client: Memcache) -> None:
        wanted = self.random.randint(1, MAX_OPEN)
        while len(self._open) < wanted and self._take(client, f"{self._line}/open/t={WAIT_MS}"):
            pass
        if self._open and self.random.random() < HANG_UPS:
            raise Disconnected("by the worker itself")
        while self._open:
            if self.random.random() < ABORTS:
                self._open.popleft().ended = monotonic()
                client.get(f"{self._line}/abort")
            else:
                self._close(client)

    def _take(self, client: Memcache, key: str) -> bool:
        item = client.get(key)
        if item is not None:
            delivery = Delivery(self._line, item, self.name, monotonic())
            self.history.deliveries.append(delivery)
            self._open.append(delivery)
        return item is not None

    def _close(self, client: Memcache) -> None:
        """In half of the cases with the same request that opens another."""
        delivery = self._open.popleft()
        delivery.closing = delivery.ended = monotonic()
        self.history.closed[self._line].add(delivery.item)
        if self.stopping.is_set() or self.random.random() < 0.5:
            client.get(f"{self._line}/close")
        else:
            self._take(client, f"{self._line}/close/open")
        delivery.confirmed = monotonic()

    def disconnected(self) -> None:
        now = monotonic()
        while self._open:
            self._open.popleft().ended = now


def read_rest(port: int, line: str, history: History) -> int:
    """Take all that is left; how much that was."""
    before = len(history.deliveries)
    with Memcache(port) as client:
        while (item := client.get(f"{line}/open/t={WAIT_MS}")) is not None:
            delivery = Delivery(line, item, "last reader", monotonic())
            history.deliveries.append(delivery)
            delivery.closing = delivery.ended = monotonic()
            history.closed[line].add(item)
            client.get(f"{line}/close")
            delivery.confirmed = monotonic()
    return len(history.deliveries) - before
