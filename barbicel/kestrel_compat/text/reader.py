"""Bytes from a client of the text protocol → requests, whatever the pieces in which they came.

    command line, LF or CRLF
    command line with a colon at its end, LF or CRLF · items, a line each · an empty line

Any command may have items; only those of a put are kept. Items are kept as the bytes that they are (Kestrel
wrote every byte above 0x7F as two). Where a put has more of them than are kept, the rest is passed over up
to the empty line (Kestrel took it for commands), so that an item is never carried out.

With all whole requests taken, what is held is at most a line, or a put of `max_put_bytes`. After a Bad that
closes nothing more is read.
"""

from __future__ import annotations

from collections.abc import Callable

from barbicel.kestrel_compat.text.line_buffer import LineBuffer, Overlong
from barbicel.kestrel_compat.text.lines import parse_line
from barbicel.kestrel_compat.text.requests import Bad, Put, Request

__all__ = ["MAX_PUT_BYTES", "MAX_PUT_ITEMS", "RequestReader"]

# Kestrel's.
MAX_PUT_ITEMS = 1024

MAX_PUT_BYTES = 64 * 1024 * 1024


class RequestReader:
    """One connection's requests. `max_item_bytes` is asked for the limit of a queue, whatever its name is."""

    __slots__ = (
        "_dropped",
        "_is_over",
        "_items",
        "_items_bytes",
        "_lines",
        "_max_item_bytes",
        "_max_line_bytes",
        "_max_put_bytes",
        "_pending",
    )

    def __init__(
        self,
        max_line_bytes: int,
        max_item_bytes: Callable[[str], int],
        max_put_bytes: int = MAX_PUT_BYTES,
    ) -> None:
        self._max_line_bytes = max_line_bytes
        self._max_item_bytes = max_item_bytes
        self._max_put_bytes = max_put_bytes
        self._lines = LineBuffer()
        # The request whose items are being read, and those.
        self._pending: Request | None = None
        self._items: list[bytes] = []
        self._items_bytes = 0
        self._dropped = 0
        self._is_over = False

    @property
    def held_bytes(self) -> int:
        return self._lines.held_bytes + self._items_bytes

    @property
    def is_within_a_request(self) -> bool:
        """Something came that was not taken. If next_request() has none, it is a part of one."""
        return self._pending is not None or self._lines.held_bytes > 0

    def feed(self, data: bytes) -> None:
        if not self._is_over:
            self._lines.feed(data)

    def next_request(self) -> Request | None:
        """None: more has to come first."""
        request = None
        if self._pending is None:
            request = self._read_command()
        if self._pending is not None:
            request = self._read_items(self._pending)
        if isinstance(request, Bad) and request.closes:
            self._is_over = True
            self._lines = LineBuffer()
        return request

    def _read_command(self) -> Request | None:
        """None also where items follow: then the request is pending."""
        line = self._lines.next_line(self._max_line_bytes)
        if line is Overlong.LINE or self._lines.is_overlong:
            return Bad("Line too long.", closes=True)
        if line is None:
            return None
        if not line.endswith(b":"):
            return parse_line(line)
        self._pending = parse_line(line[:-1])
        return None

    def _read_items(self, request: Request) -> Request | None:
        while True:
            line = self._lines.next_line(self._item_limit(request))
            if line is None:
                return None
            if line is Overlong.LINE:
                self._dropped += 1
            elif line:
                self._items.append(line)
                self._items_bytes += len(line)
            else:
                return self._take(request)

    def _item_limit(self, request: Request) -> int:
        if not isinstance(request, Put) or len(self._items) >= MAX_PUT_ITEMS:
            return 0
        return min(self._max_item_bytes(request.queue), self._max_put_bytes - self._items_bytes)

    def _take(self, request: Request) -> Request:
        if isinstance(request, Put):
            request = request._replace(items=tuple(self._items), dropped=self._dropped)
        self._pending, self._items, self._items_bytes, self._dropped = None, [], 0, 0
        return request
