"""Answers that wait for their client to read: pieces as they were found, which the kernel takes from there.

A fetch may be answered with 50 MB. Joined, and once more in the transport's buffer, that would be in memory
three times; so a little is sent whenever there is room for it, and what was sent is let go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from barbicel.disk import Bytes

__all__ = ["Outbox"]

# The kernel takes 1024 in one call; so many, or ones so small, are sooner joined than looked at one by one.
PIECES_MAX = 256
SMALL_BYTES = 16 << 10


class Outbox:
    def __init__(self) -> None:
        self._pieces: deque[Bytes] = deque()
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return self.size_bytes > 0

    def put(self, pieces: Sequence[Bytes]) -> None:
        """Views among them must count in bytes, and stay as they are until they are dropped."""
        self._pieces.extend(pieces)
        self.size_bytes += sum(map(len, pieces))

    def front(self, max_bytes: int) -> Sequence[Bytes]:
        """What is to be sent next, in a few pieces."""
        if self.size_bytes <= max_bytes:
            parts: Sequence[Bytes] = tuple(self._pieces)
        else:
            parts = self._cut(max_bytes)
        if len(parts) == 1 or (len(parts) <= PIECES_MAX and self.size_bytes > SMALL_BYTES):
            return parts
        return (b"".join(parts),)

    def _cut(self, max_bytes: int) -> list[Bytes]:
        parts: list[Bytes] = []
        for piece in self._pieces:
            if len(piece) >= max_bytes:
                parts.append(memoryview(piece)[:max_bytes])
                break
            parts.append(piece)
            max_bytes -= len(piece)
        return parts

    def drop(self, size_bytes: int) -> None:
        """So much was sent."""
        self.size_bytes -= size_bytes
        if not self.size_bytes:
            self._pieces.clear()
            return
        while size_bytes:
            piece = self._pieces.popleft()
            if len(piece) > size_bytes:
                self._pieces.appendleft(memoryview(piece)[size_bytes:])
                return
            size_bytes -= len(piece)

    def clear(self) -> None:
        self._pieces.clear()
        self.size_bytes = 0
