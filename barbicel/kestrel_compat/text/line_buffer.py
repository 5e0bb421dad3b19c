"""Bytes → lines that end in LF or CRLF, each with a limit beyond which it is dropped as it comes.

Every byte is looked at once and copied at most twice, however small the pieces are in which it came.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TypeAlias

__all__ = ["Line", "LineBuffer", "Overlong"]


class Overlong(Enum):
    """Stands for a line that was longer than its limit."""

    LINE = "overlong"


Line: TypeAlias = bytes | Overlong


class LineBuffer:
    __slots__ = ("_fed", "_fed_bytes", "_part", "_position", "is_overlong")

    def __init__(self) -> None:
        self._fed: deque[bytes] = deque()
        self._fed_bytes = 0
        # In the first of what was fed.
        self._position = 0
        # What has been kept of the line that is not whole yet.
        self._part = bytearray()
        # That line is longer than its limit already.
        self.is_overlong = False

    @property
    def held_bytes(self) -> int:
        return self._fed_bytes - self._position + len(self._part)

    def feed(self, data: bytes) -> None:
        self._fed.append(data)
        self._fed_bytes += len(data)

    def next_line(self, limit_bytes: int) -> Line | None:
        """A line without its end; None: more has to come first."""
        while self._fed:
            piece = self._fed[0]
            end = piece.find(b"\n", self._position)
            self._keep(piece, len(piece) if end < 0 else end, limit_bytes)
            if end >= 0:
                self._position = end + 1
                return self._take(limit_bytes)
            self._fed.popleft()
            self._fed_bytes -= len(piece)
            self._position = 0
        return None

    def _keep(self, piece: bytes, end: int, limit_bytes: int) -> None:
        # The one byte more may be a CR. Once too long the line stays so: its limit may have changed since.
        if len(self._part) + end - self._position > limit_bytes + 1:
            self.is_overlong = True
            self._part.clear()
        if not self.is_overlong:
            self._part += piece[self._position : end]

    def _take(self, limit_bytes: int) -> Line:
        line = bytes(self._part.removesuffix(b"\r"))
        is_overlong = self.is_overlong or len(line) > limit_bytes
        self._part.clear()
        self.is_overlong = False
        return Overlong.LINE if is_overlong else line
