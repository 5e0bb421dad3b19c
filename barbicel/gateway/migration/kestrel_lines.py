"""A gateway's lines by Kestrel's protocol: made, and counted. Waits for the answers."""

from __future__ import annotations

import socket

from barbicel.closing import Closing
from barbicel.gateway.migration.target import TargetRefused

__all__ = ["TIMEOUT_S", "KestrelLines"]

TIMEOUT_S = 30.0
# The longest line that is an answer.
MAX_LINE_BYTES = 1 << 20
SKIP_BYTES = 1 << 16


class KestrelLines(Closing):
    """A connection that makes lines and counts their items."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, TIMEOUT_S)
        self._answers = self._socket.makefile("rb")

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def begin(self, name: str) -> None:
        """On return there is a line of this name."""
        self._send(f"get {name}/peek")
        answer = self._line()
        if answer.startswith("VALUE "):
            left = int(answer.split()[-1]) + len("\r\n")
            while left:
                left -= len(self._read(min(left, SKIP_BYTES)))
            answer = self._line()
        if answer != "END":
            raise TargetRefused(f"queue {name!r} cannot be made: {answer[:200]}")

    def items_by_queue(self) -> dict[str, int]:
        """Of every line."""
        self._send("dump_stats")
        found: dict[str, int] = {}
        name = ""
        while (line := self._line()) != "END":
            if line.startswith("queue '") and line.endswith("' {"):
                name = line[len("queue '") : -len("' {")]
            elif line.startswith("  items="):
                found[name] = int(line.partition("=")[2])
        return found

    def _send(self, command: str) -> None:
        self._socket.sendall(f"{command}\r\n".encode("latin-1"))

    def _line(self) -> str:
        line = self._answers.readline(MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise ConnectionError("the connection was closed")
        return line.rstrip(b"\r\n").decode("latin-1")

    def _read(self, size: int) -> bytes:
        data = self._answers.read(size)
        if not data:
            raise ConnectionError("the connection was closed")
        return data
