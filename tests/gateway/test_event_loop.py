"""Writing straight into a socket: every byte once and in order, whatever the kernel takes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.protocol import Protocol
from twisted.internet.testing import MemoryReactor

from barbicel.gateway.event_loop import PromptServer
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
