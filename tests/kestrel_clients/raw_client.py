"""Sockets of both protocols that send what they are told, and see every byte of the answer.

Nothing is tried again: a connection that ends raises Disconnected, so that a test knows what it was told.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple, Self

__all__ = ["DEADLINE_S", "Disconnected", "Line", "Memcache", "Taken", "Text", "UnexpectedReply"]

DEADLINE_S = 30.0


class Disconnected(ConnectionError):
    """The server has ended the connection, or the test has."""


class UnexpectedReply(AssertionError):
    """A reply that no reading of the protocol allows here."""


class Taken(NamedTuple):
    """An item as it was given; `key` is what VALUE says."""

    key: bytes
    flags: int
    data: bytes


class Line:
    """A connection that is read by lines and by counts of bytes."""

    def __init__(self, port: int, deadline_s: float = DEADLINE_S) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), deadline_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Close it; the server is told with a FIN."""
        self._replies.close()
        self._socket.close()

    def end_sending(self) -> None:
        """The server is told with a FIN that no more comes; its answers are still read."""
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close it with an RST, as a machine does that has forgotten the connection."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.end()

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Disconnected(str(error)) from error

    def read_line(self) -> bytes:
        """Without its end."""
        try:
            line = self._replies.readline()
        except ConnectionResetError as error:
            raise Disconnected(str(error)) from error
        if not line.endswith(b"\n"):
            raise Disconnected(f"after {line!r}")
        return line.rstrip(b"\r\n")

    def read(self, size: int) -> bytes:
        try:
            data = self._replies.read(size)
        except ConnectionResetError as error:
            raise Disconnected(str(error)) from error
        if len(data) != size:
            raise Disconnected(f"after {len(data)} of {size} bytes")
        return data

    def ask(self, request: bytes) -> bytes:
        """The first line of the answer."""
        self.send(request)
        return self.read_line()

    def is_ended(self) -> bool:
        """Waits until the server closes the connection; False if it says something instead."""
        try:
            return self._replies.read(1) == b""
        except ConnectionResetError:
            return True


class Memcache(Line):
    """The memcache protocol. Keys are queues with their options."""

    def put(self, queue: str, data: bytes, flags: int = 0, expiry_s: int = 0) -> bool:
        self.send_put(queue, data, flags, expiry_s)
        return self.read_stored()

    def send_put(self, queue: str, data: bytes, flags: int = 0, expiry_s: int = 0) -> None:
        self.send(b"set %b %d %d %d\r\n%b\r\n" % (queue.encode(), flags, expiry_s, len(data), data))

    def read_stored(self) -> bool:
        """False if the queue's rules have refused it."""
        line = self.read_line()
        if line not in (b"STORED", b"NOT_STORED"):
            raise UnexpectedReply(line)
        return line == b"STORED"

    def get(self, key: str) -> bytes | None:
        taken = self.take(key)
        return None if taken is None else taken.data

    def take(self, key: str) -> Taken | None:
        self.send(b"get %b\r\n" % key.encode())
        return self.read_item()

    def read_item(self) -> Taken | None:
        """None is a miss."""
        line = self.read_line()
        if line == b"END":
            return None
        if not line.startswith(b"VALUE "):
            raise UnexpectedReply(line)
        _, key, flags, size = line.split(b" ")
        item = Taken(key, int(flags), self.read(int(size)))
        if self.read(7) != b"\r\nEND\r\n":
            raise UnexpectedReply(f"behind {item}")
        return item

    def lines(self, request: bytes) -> list[bytes]:
        """An answer that goes up to END."""
        self.send(request)
        return list(iter(self.read_line, b"END"))

    def stats(self) -> dict[str, str]:
        rows = (line.decode("latin-1").split(" ", 2) for line in self.lines(b"stats\r\n"))
        return {name: value for _, name, value in rows}

    def stat(self, queue: str, name: str) -> int:
        """A number of a queue; 0 if there is no such queue."""
        return int(self.stats().get(f"queue_{queue}_{name}", "0"))


class Text(Line):
    """The text protocol."""

    def put(self, queue: str, *items: bytes) -> bytes:
        return self.ask(b"put %b:\n%b\n" % (queue.encode(), b"".join(b"%b\n" % item for item in items)))
