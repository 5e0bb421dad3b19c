"""Answers that wait for their client to read: pieces as they were found, put together as they are sent.

A fetch may be answered with 50 MB. Joined, and once more in the transport's buffer, that would be in memory
three times; so the transport gets a little whenever it has sent what it had, and what was sent is let go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from barbicel.disk import Bytes

__all__ = ["Outbox"]


class Outbox:
    def __init__(self) -> None:
        self._pieces: deque[Bytes] = deque()
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return self.size_bytes > 0

    def put(self, pieces: Sequence[Bytes]) -> None:
        """Views among them must count in bytes, and stay as they are until they are taken."""
        self._pieces.extend(pieces)
        self.size_bytes += sum(map(len, pieces))

    def take(self, max_bytes: int) -> bytes:
        """What is to be sent next."""
        if self.size_bytes <= max_bytes:
            taken = b"".join(self._pieces)
            self.clear()
            return taken
        parts: list[Bytes] = []
        left_bytes = max_bytes
        while left_bytes:
            piece = memoryview(self._pieces.popleft())
            if len(piece) > left_bytes:
                self._pieces.appendleft(piece[left_bytes:])
                piece = piece[:left_bytes]
            parts.append(piece)
            left_bytes -= len(piece)
        self.size_bytes -= max_bytes
        return b"".join(parts)

    def clear(self) -> None:
        self._pieces.clear()
        self.size_bytes = 0
