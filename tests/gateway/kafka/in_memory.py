"""The Kafka front end without sockets: a reactor turned by hand, and clients on in-memory transports.

What threads hand over is done when the test waits for something; time passes when the test says so. The
answers are decoded by kafka-python's own decoders, which have to be at their end when they are done.
"""

from __future__ import annotations

import queue
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.headers import has_flexible_response_header
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.config.settings import Config
from barbicel.disk import Disk, RealDisk
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.gateway.kafka.connection import KafkaConnection
from barbicel.gateway.kafka.server import KafkaServer

__all__ = [
    "DEADLINE_S",
    "NOW_MS",
    "Client",
    "Gateway",
    "HandReactor",
    "MemoryTransport",
    "batch",
    "in_memory_gateway",
    "untyped",
]

NOW_MS = 1_700_000_000_000
DEADLINE_S = 30.0


def untyped(value: Any) -> Any:
    """For what Twisted has no types for."""
    return value


class HandReactor(Clock):
    """Time stands still; `until` does what threads have handed over."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]]] = queue.SimpleQueue()

    def callFromThread(self, function: Callable[..., Any], *arguments: Any) -> None:  # noqa: N802 - Twisted's
        self._calls.put((function, arguments))

    def until(self, is_done: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not is_done():
            self.advance(0)
            if is_done():
                break
            function, arguments = self._calls.get(timeout=deadline - time.monotonic())
            function(*arguments)

    def result(self, deferred: Deferred[Any]) -> Any:
        """What it fires with; raises what it fails with."""
        outcomes: list[Any] = []
        deferred.addBoth(outcomes.append)
        self.until(lambda: outcomes)
        if isinstance(outcomes[0], Failure):
            outcomes[0].raiseException()
        return outcomes[0]


class MemoryTransport(StringTransport):
    """As a TCP transport: it tells its producer to pause when more than bufferSize is unsent."""

    SEND_LIMIT = 0

    def __init__(self, peer: IPv4Address) -> None:
        untyped(super()).__init__(IPv4Address("TCP", "127.0.0.1", 9092), peer)
        self.bufferSize = 1 << 16
        self.is_read = True
        self.producer: Any = None

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802 - Twisted's name
        assert enabled

    def write(self, data: bytes) -> None:
        untyped(super()).write(data)
        if not self.is_read and self.producer is not None and len(self.sent) > self.bufferSize:
            self.producer.pauseProducing()

    @property
    def sent(self) -> bytes:
        """What the client has not read."""
        data: bytes = untyped(self).value()
        return data

    def drain(self) -> bytes:
        """The client reads everything."""
        data = self.sent
        untyped(self).clear()
        if self.producer is not None:
            self.producer.resumeProducing()
        return data


class Client:
    """One connection. Whatever the server wrote is in `transport`."""

    def __init__(self, gateway: Gateway, host: str, port: int) -> None:
        self.gateway = gateway
        address: Any = IPv4Address("TCP", host, port)
        made = gateway.server.buildProtocol(address)
        assert made is not None
        self.connection: KafkaConnection = made
        self.transport = MemoryTransport(address)
        untyped(self.connection).makeConnection(self.transport)
        self._asked: list[tuple[int, int, int]] = []
        self._data = b""
        self._next_id = 1

    @property
    def is_closed(self) -> Any:  # Any, for it changes between two lines of a test
        return self.transport.disconnecting

    @property
    def is_paused(self) -> Any:
        return self.transport.producerState == "paused"

    def lose(self) -> None:
        self.connection.connectionLost(untyped(Failure)(ConnectionLost()))

    def frame(self, api_key: int, version: int, body: bytes) -> bytes:
        """A whole request; its answer is expected in the order of the calls."""
        self._asked.append((api_key, version, self._next_id))
        head = struct.pack(">hhih", api_key, version, self._next_id, 4) + b"test"
        if messages.is_flexible(api_key, version):
            head += b"\0"
        self._next_id += 1
        return struct.pack(">i", len(head) + len(body)) + head + body

    def encoded(self, message: Any, version: int) -> bytes:
        return self.frame(message.API_KEY, version, messages.encode_request(message, version))

    def send(self, message: Any, version: int) -> None:
        self.connection.dataReceived(self.encoded(message, version))

    def forget_answer(self) -> None:
        """The last request gets none (acks=0)."""
        self._asked.pop()

    def ask(self, message: Any, version: int) -> Any:
        self.send(message, version)
        return self.answer()

    def answer(self) -> Any:
        """The next answer, waited for."""
        self.gateway.reactor.until(lambda: self.has_answer or self.is_closed)
        assert self.has_answer, "the connection was closed"
        (length,) = struct.unpack_from(">i", self._data)
        frame, self._data = self._data[4 : 4 + length], self._data[4 + length :]
        return self._decode(frame, *self._asked.pop(0))

    @property
    def has_answer(self) -> bool:
        if self.transport.is_read:
            self._data += self.transport.sent
            untyped(self.transport).clear()
        return len(self._data) >= 4 and len(self._data) - 4 >= struct.unpack_from(">i", self._data)[0]

    def _decode(self, frame: bytes, api_key: int, version: int, expected_id: int) -> Any:
        (correlation_id,) = struct.unpack_from(">i", frame)
        assert correlation_id == expected_id
        kind: Any = messages.response_class(api_key)
        flexible = kind.flexible_version_q(version)
        at = 5 if has_flexible_response_header(api_key, flexible) else 4
        decode = kind._struct.compiled_decode_from(
            version, compact=flexible, tagged=flexible, data_class=kind
        )
        decoded, position = decode(memoryview(frame), at)
        assert position == len(frame)
        return decoded


class Gateway:
    """A broker on a directory, and its Kafka server, in this process."""

    def __init__(self, data: str, disk: Disk, settings: dict[str, Any]) -> None:
        # Any, for it is only as much of a reactor as is needed.
        self.reactor = untyped(HandReactor())
        self.now_ms = NOW_MS
        self.config = Config(
            **{
                "data_directory": data,
                "durability": "write",
                "writer_shards": 1,
                "background_threads": 2,
                **settings,
            }
        )
        self.broker = Broker.open(disk, self.config, self.reactor, lambda: self.now_ms, lambda: self.now_ms)
        self.broker.start()
        self.server = KafkaServer(self.broker, self.config, self.reactor)

    def connect(self, host: str = "10.0.0.1", port: int = 40_000) -> Client:
        return Client(self, host, port)

    def create(self, name: str = "t", partitions: int = 1, **settings: str) -> OpenTopic:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        topic = self.reactor.result(self.broker.topics.create(name, partitions, named))
        assert isinstance(topic, OpenTopic)
        return topic


@contextmanager
def in_memory_gateway(directory: Path | str, disk: Disk | None = None, **settings: Any) -> Iterator[Gateway]:
    gateway = Gateway(str(directory), disk or RealDisk(), settings)
    try:
        yield gateway
    finally:
        gateway.broker.close()


def batch(*values: bytes, **more: Any) -> bytes:
    """One batch of records with these values, as a client sends it."""
    timestamp_ms = more.pop("timestamp_ms", NOW_MS)
    return build_batch([NewRecord(timestamp_ms, None, value) for value in values], **more)
