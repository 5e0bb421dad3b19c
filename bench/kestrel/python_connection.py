"""One client of the Python driver: what it asks next, and whether a reply is what it has to be."""

from __future__ import annotations

import socket
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

from bench.kestrel.job import Job

__all__ = ["Connection", "Tally", "Unexpected"]

STORED, END = b"STORED\r\n", b"END\r\n"
IN_BYTES = 256 << 10
SHOWN_BYTES = 60


@dataclass(slots=True)
class Tally:
    """What the connections of a process share."""

    deadline: float = float("inf")
    misses: int = 0
    latencies_us: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Unexpected(Exception):
    pass


class Connection:
    """One client. A request under way is its kind and the time that it was sent at."""

    def __init__(self, job: Job, number: int, quota: int, tally: Tally) -> None:
        self._job = job
        self._tally = tally
        self._queue = f"{job.queue}{number % job.queues}" if job.queues > 1 else job.queue
        self._get = f"get {self._queue}{job.key_options}\r\n".encode("latin-1")
        self._quota, self._done, self._asked, self._monitored = quota, 0, 0, 0
        self._number_put = self._number_got = job.number_from
        self._set = self._render_set(job.number_from)
        self._value = self._render_value(job.number_from)
        self._in = b""
        self._out = b""
        self._waiting: deque[tuple[str, float]] = deque()
        self.socket = socket.create_connection((job.host, job.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting)

    @property
    def is_writing(self) -> bool:
        return bool(self._out)

    def _item(self, number: int) -> bytes:
        digits = b"%d" % number if number >= 0 else b""
        return digits.ljust(self._job.item_bytes, b"x")[: self._job.item_bytes]

    def _render_set(self, number: int) -> bytes:
        item = self._item(number)
        return b"set %b 0 0 %d\r\n%b\r\n" % (self._queue.encode("latin-1"), len(item), item)

    def _render_value(self, number: int) -> bytes:
        item = self._item(number)
        return b"VALUE %b 0 %d\r\n%b\r\nEND\r\n" % (self._queue.encode("latin-1"), len(item), item)

    def fill(self) -> None:
        """Ask as much as may be under way."""
        now = time.monotonic()
        depth = 1 if self._job.operation == "monitor" else self._job.depth
        if now < self._tally.deadline and not (self._job.burst and self._waiting):
            while len(self._waiting) < depth and self._done + len(self._waiting) < self._quota:
                self._ask_next(now)
        self.flush()

    def _ask_next(self, now: float) -> None:
        operation = self._job.operation
        if operation == "monitor":
            items = min(self._quota - self._done, self._job.depth)
            line = f"monitor {self._queue} {self._job.monitor_seconds} {items}\r\n"
            self._monitored = 0
            self._ask("monitor", line.encode("latin-1"), now)
        elif operation == "get" or (operation == "set+get" and self._asked % 2):
            self._ask("get", self._get, now)
        else:
            if self._number_put >= 0:
                self._set = self._render_set(self._number_put)
                self._number_put += 1
            self._ask("set", self._set, now)

    def _ask(self, kind: str, request: bytes, now: float) -> None:
        self._out += request
        self._waiting.append((kind, now))
        self._asked += 1

    def flush(self) -> None:
        if self._out:
            with suppress(BlockingIOError):
                self._out = self._out[self.socket.send(self._out) :]

    def receive(self) -> None:
        try:
            data = self.socket.recv(IN_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise Unexpected("the server closed the connection")
        self._in += data
        position, now = 0, time.monotonic()
        while position < len(self._in) and (taken := self._match_reply(position, now)):
            position += taken
        self._in = self._in[position:]
        self.fill()

    def _match_reply(self, position: int, now: float) -> int:
        """How many bytes it had; 0 = they are not all there yet."""
        if not self._waiting:
            raise Unexpected(f"unexpected: {self._shown(position)}")
        kind, _ = self._waiting[0]
        is_end = self._in[position : position + 1] == END[:1]
        if kind == "monitor" and is_end:
            return self._match_end_of_monitor(position, now)
        if kind == "set":
            taken = self._match(position, STORED, 1)
            self._note(now, taken)
        elif kind == "confirm" or (is_end and self._job.may_miss):
            taken = self._match(position, END, 1)
            self._tally.misses += kind == "get" and taken > 0
        else:
            taken = self._match_value(position, now)
        if taken and kind != "monitor":
            self._waiting.popleft()
        return taken

    def _match_value(self, position: int, now: float) -> int:
        if self._number_got >= 0:
            self._value = self._render_value(self._number_got)
        taken = self._match(position, self._value, self._value.find(b"\n"))
        if taken:
            self._number_got += self._number_got >= 0
            self._monitored += 1
            self._note(now, taken)
        return taken

    def _match_end_of_monitor(self, position: int, now: float) -> int:
        taken = self._match(position, END, 1)
        if taken:
            self._waiting.popleft()
            if self._monitored:
                self._ask("confirm", f"confirm {self._queue} {self._monitored}\r\n".encode("latin-1"), now)
            else:
                self._tally.misses += 1
        return taken

    def _match(self, position: int, expected: bytes, head_bytes: int) -> int:
        there = self._in[position : position + len(expected)]
        if there == expected:
            return len(expected)
        if len(there) == len(expected) or there[:head_bytes] != expected[: min(head_bytes, len(there))]:
            raise Unexpected(f"unexpected: {self._shown(position)}")
        return 0

    def _shown(self, position: int) -> str:
        return ascii(self._in[position : position + SHOWN_BYTES])

    def _note(self, now: float, taken: int) -> None:
        if taken:
            self._done += 1
            self._tally.latencies_us.append((now - self._waiting[0][1]) * 1e6)
