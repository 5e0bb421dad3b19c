"""Writing straight into a socket: every byte once and in order, whatever the kernel takes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactor, StringTransport
from zope.interface import implementer

from barbicel.disk import Bytes
from barbicel.gateway.event_loop import UNSENT_BYTES, PromptServer, listen, sending
from tests.gateway.kafka.in_memory import untyped


class Pair:
    """A transport on one end of a connected pair of sockets, and the other end."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        self.reactor = untyped(MemoryReactor)()
        self.transport: Any = untyped(PromptServer)(ours, Protocol(), ("127.0.0.1", 1), None, 1, self.reactor)
        self.transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 << 10)
        self.write = self.transport.write

    @property
    def is_waiting_to_write(self) -> Any:  # Any, for it changes between two lines of a test
        return self.transport in self.reactor.getWriters()

    def read(self, size: int) -> bytes:
        """As a client does, while the reactor writes what it can."""
        data = bytearray()
        while len(data) < size:
            data += self.theirs.recv(1 << 16)
            if self.is_waiting_to_write:
                self.transport.doWrite()
        return bytes(data)


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.transport.socket.close()
    pair.theirs.close()


def test_what_the_kernel_takes_is_sent_at_once(pair: Pair) -> None:
    pair.write(b"STORED\r\n")
    assert pair.theirs.recv(100) == b"STORED\r\n"
    assert not pair.is_waiting_to_write


def test_what_it_does_not_take_follows_in_order(pair: Pair) -> None:
    large = bytes(range(256)) * 4096
    pair.write(large)
    assert pair.is_waiting_to_write
    pair.write(b"behind")
    assert pair.read(len(large) + 6) == large + b"behind"
    pair.write(b"again at once")
    assert not pair.is_waiting_to_write
    assert pair.theirs.recv(100) == b"again at once"


def test_a_full_buffer_takes_nothing_and_loses_nothing(pair: Pair) -> None:
    filled = 0
    while not pair.is_waiting_to_write:
        pair.write(b"x" * 1000)
        filled += 1000
    assert pair.read(filled) == b"x" * filled


def test_a_connection_that_is_gone_is_for_the_loop_to_notice(pair: Pair) -> None:
    pair.theirs.close()
    pair.write(b"x")
    assert pair.is_waiting_to_write


@implementer(IPushProducer)
class Sender:
    """Sends pieces as long as it may, as a connection does."""

    def __init__(self, pair: Pair, pieces: list[Bytes]) -> None:
        self._send = sending(pair.transport)
        self._left = memoryview(b"".join(pieces))
        self._pieces = pieces
        self.is_paused: Any = False  # Any, for it changes between two lines of a test
        pair.transport.registerProducer(self, True)

    def go_on(self) -> None:
        assert self._send is not None
        sent = self._send(self._pieces)
        self._left = self._left[sent:]
        self._pieces = [self._left]
        assert self.is_paused == bool(self._left)

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.is_paused = True

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.is_paused = False
        self.go_on()


def test_pieces_that_the_kernel_takes_are_sent_at_once(pair: Pair) -> None:
    sender = Sender(pair, [b"VALUE", memoryview(b" q"), b"", bytearray(b" 0")])
    sender.go_on()
    assert pair.theirs.recv(100) == b"VALUE q 0"
    assert not pair.is_waiting_to_write
    assert not sender.is_paused


def test_of_pieces_the_rest_follows_when_there_is_room(pair: Pair) -> None:
    large = bytes(range(256)) * 4096
    sender = Sender(pair, [b"head", memoryview(large), b"end"])
    sender.go_on()
    assert sender.is_paused
    assert pair.is_waiting_to_write
    assert pair.read(len(large) + 7) == b"head" + large + b"end"
    assert not sender.is_paused
    assert not pair.is_waiting_to_write


def test_pieces_for_a_connection_that_is_gone_are_for_the_loop_to_notice(pair: Pair) -> None:
    sender = Sender(pair, [b"x"])
    pair.theirs.close()
    sender.go_on()
    assert sender.is_paused
    assert pair.is_waiting_to_write
    assert isinstance(pair.transport.doWrite(), Exception)


def test_only_a_prompt_connection_sends_pieces() -> None:
    assert sending(untyped(StringTransport)()) is None


def test_the_kernel_takes_little_for_who_does_not_read() -> None:
    port: Any = listen(untyped(MemoryReactor)(), 0, untyped(Factory)(), backlog=1, host="127.0.0.1")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
    client.connect(("127.0.0.1", port.getHost().port))
    port.socket.setblocking(True)
    accepted, _ = port.socket.accept()
    accepted.setblocking(False)
    taken = 0
    with client, accepted, port.socket, suppress(BlockingIOError):
        while taken < 8 * UNSENT_BYTES:
            taken += accepted.send(bytes(100_000))
    assert UNSENT_BYTES <= taken < 2 * UNSENT_BYTES


def test_a_client_that_vanishes_without_a_word_is_found_out() -> None:
    port: Any = listen(untyped(MemoryReactor)(), 0, untyped(Factory)(), backlog=1, host="127.0.0.1")
    port.socket.setblocking(True)
    with port.socket, socket.create_connection(("127.0.0.1", port.getHost().port)):
        accepted, _ = port.socket.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
