"""What a server sends to a client that waits, within a time of its own for each answer.

A time-out for each read would let a server that sends a byte now and then hold a command for ever. So an
answer has one deadline, which moves only with as much as has come: large items may take long, slow ones not.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

__all__ = ["Answers", "seconds_for"]

ANSWER_SECONDS = 30.0
# Of any connection that is of use.
MIN_BYTES_PER_SECOND = 1 << 14
READ_BYTES = 1 << 16


def seconds_for(size_bytes: int) -> float:
    """How long it may take to send so much, or to hear it."""
    return ANSWER_SECONDS + size_bytes / MIN_BYTES_PER_SECOND


class Answers:
    """Say `begin` before each. Raises OSError: if the connection breaks, and if an answer takes too long."""

    def __init__(self, connection: socket.socket, seconds: Callable[[], float] = time.monotonic) -> None:
        self._socket = connection
        self._seconds = seconds
        self._buffer = bytearray()
        self._begun_s = seconds()
        self._heard_bytes = 0

    def begin(self, wait_s: float = 0.0) -> None:
        """An answer is waited for from now on, or from when the server has waited itself."""
        self._begun_s = self._seconds() + wait_s
        self._heard_bytes = 0

    def line(self, limit_bytes: int) -> bytes:
        """With its end, or so much of it as the limit allows."""
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0 and len(self._buffer) < limit_bytes:
            searched = len(self._buffer)
            self._hear()
        return self._take(min(end + 1 or limit_bytes, limit_bytes))

    def pieces(self, size: int) -> Iterator[bytes]:
        """Grows with what comes, not with what was announced."""
        while size:
            if not self._buffer:
                self._hear()
            piece = self._take(min(size, len(self._buffer)))
            size -= len(piece)
            yield piece

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _hear(self) -> None:
        left_s = self._begun_s + seconds_for(self._heard_bytes) - self._seconds()
        if left_s <= 0:
            raise TimeoutError("the answer takes too long")
        self._socket.settimeout(left_s)
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._heard_bytes += len(data)
        self._buffer += data
