"""Kestrel's front end without sockets: real queues on a directory, and clients on in-memory transports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure

from barbicel.gateway.kestrel.dialect import MEMCACHE, Dialect
from barbicel.gateway.kestrel.server import KestrelServer
from barbicel.gateway.kestrel.shared import Controls, Done, Shared
from barbicel.gateway.kestrel.status import ServerStatus
from tests.gateway.kafka.in_memory import MemoryTransport, untyped
from tests.gateway.kestrel.in_memory_queues import InMemoryQueues, in_memory_queues

__all__ = ["Client", "Gateway", "in_memory_gateway"]


class Client:
    """One connection. Whatever the server wrote is in `transport`."""

    def __init__(self, gateway: Gateway, dialect: Dialect, host: str, port: int) -> None:
        self._gateway = gateway
        address: Any = IPv4Address("TCP", host, port)
        self.connection: Any = gateway.server.listening(dialect).buildProtocol(address)
        self.transport = MemoryTransport(address)
        untyped(self.connection).makeConnection(self.transport)

    @property
    def is_closed(self) -> Any:  # Any, for it changes between two lines of a test
        return self.transport.disconnecting

    @property
    def is_paused(self) -> Any:
        return self.transport.producerState == "paused"

    def send(self, data: bytes, step: int | None = None) -> None:
        """All at once, or so many bytes at a time."""
        step = step or len(data)
        for start in range(0, len(data), step):
            self.connection.dataReceived(data[start : start + step])

    def receive(self, size: int) -> bytes:
        """So many bytes, waited for; fewer if the connection is closed before."""
        self._gateway.reactor.until(lambda: len(self.transport.sent) >= size or self.is_closed)
        return self.take()[:size] if len(self.transport.sent) <= size else self._take_only(size)

    def _take_only(self, size: int) -> bytes:
        data = self.take()
        untyped(self.transport).io.write(data[size:])
        return data[:size]

    def take(self) -> bytes:
        """What is there."""
        data = self.transport.sent
        untyped(self.transport).clear()
        return data

    def ask(self, data: bytes, answer: bytes) -> None:
        """Send, and expect exactly that."""
        self.send(data)
        self.expect(answer)

    def expect(self, answer: bytes) -> None:
        assert self.receive(len(answer)) == answer

    def await_close(self) -> None:
        self._gateway.reactor.until(lambda: self.is_closed)
        assert self.transport.sent == b""

    def lose(self) -> None:
        self.connection.connectionLost(untyped(Failure)(ConnectionLost()))


class Gateway:
    """The server that clients connect to. `reloads` and `shutdowns` count what operators have asked for."""

    def __init__(self, queues: InMemoryQueues) -> None:
        self.reactor = queues.reactor
        self.queues = queues
        self.reloads = self.shutdowns = 0
        self.reload_error: Exception | None = None
        broker = queues.broker
        self.shared = Shared(
            queues=queues.queues,
            config=queues.config,
            status=ServerStatus(broker.disk, broker.data_directory, broker.change),
            counters=queues.queues.counters,
            controls=Controls(self._reload, self._shut_down),
            clock=lambda: queues.now_ms,
            seconds=queues.reactor.seconds,
            started_s=queues.reactor.seconds(),
        )
        self.server = KestrelServer(self.shared, self.reactor)

    def connect(self, dialect: Dialect = MEMCACHE, host: str = "10.0.0.1", port: int = 40_000) -> Client:
        return Client(self, dialect, host, port)

    def _reload(self, done: Done) -> None:
        self.reloads += 1
        done(self.reload_error)

    def _shut_down(self) -> None:
        self.shutdowns += 1

    def turn(self) -> None:
        """Do whatever is due and was handed over by threads so far, until all events are written."""
        self.queues.settle()
        self.reactor.advance(0)


@contextmanager
def in_memory_gateway(directory: Path, **settings: Any) -> Iterator[Gateway]:
    with in_memory_queues(directory, **settings) as queues:
        yield Gateway(queues)
