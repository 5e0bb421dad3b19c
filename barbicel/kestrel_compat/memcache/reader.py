r"""Bytes from a client → requests, whatever the pieces in which they came.

    line, LF or CRLF
    line of a set, LF or CRLF · n bytes of data · 2 bytes that nobody looks at

What is fed waits until it is asked for. A request is read at a position in one buffer; pieces are joined
only where a line lies across them, and the data of a large item is gathered apart. So every byte is copied
a bounded number of times, and with all whole requests taken, what is held is at most one line or one item.

After a Bad that closes nothing more is read: what follows it cannot be told from data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from barbicel.kestrel_compat.memcache.body import END_BYTES, Body
from barbicel.kestrel_compat.memcache.lines import (
    MAX_KEPT_LINE_BYTES,
    DataHeader,
    parse_kept_line,
    parse_line,
)
from barbicel.kestrel_compat.memcache.requests import Bad, Refusal, Request, Set

__all__ = ["RequestReader"]

_CR = 13


class RequestReader:
    """One connection's requests. `max_item_bytes` is asked for the limit of a queue, whatever its name is."""

    __slots__ = (
        "_body",
        "_buffer",
        "_fed",
        "_fed_bytes",
        "_is_over",
        "_max_item_bytes",
        "_max_line_bytes",
        "_position",
    )

    def __init__(self, max_line_bytes: int, max_item_bytes: Callable[[str], int]) -> None:
        self._max_line_bytes = max_line_bytes
        self._max_item_bytes = max_item_bytes
        self._buffer = b""
        self._position = 0
        # What came while the buffer was not used up.
        self._fed: deque[bytes] = deque()
        self._fed_bytes = 0
        self._body: Body | None = None
        self._is_over = False

    @property
    def held_bytes(self) -> int:
        body_bytes = 0 if self._body is None else self._body.held_bytes
        return len(self._buffer) - self._position + self._fed_bytes + body_bytes

    @property
    def is_within_a_request(self) -> bool:
        """Something came that was not taken. If next_request() has none, it is a part of one."""
        return self._body is not None or self.held_bytes > 0

    def feed(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._position == len(self._buffer) and not self._fed:
            self._buffer, self._position = data, 0
        else:
            self._fed.append(data)
            self._fed_bytes += len(data)

    def next_request(self) -> Request | None:
        """None: more has to come first."""
        if self._body is not None:
            return self._read_body(self._body)
        buffer, start = self._buffer, self._position
        if start == len(buffer) and not self._fed:
            self._buffer, self._position = b"", 0
            return None
        end = buffer.find(b"\n", start, start + self._max_line_bytes + 1)
        if end < 0:
            return self._without_a_line()
        stop = end - 1 if end > start and buffer[end - 1] == _CR else end
        parse = parse_kept_line if stop - start <= MAX_KEPT_LINE_BYTES else parse_line
        request = parse(buffer[start:stop])
        self._position = end + 1
        if type(request) is DataHeader:
            return self._read_data(request)
        if type(request) is Bad and request.closes:
            self._stop()
        return request

    def _read_data(self, header: DataHeader) -> Set | Bad | None:
        data_bytes, queue, flags, expiry_s, noreply, refused = header
        start = self._position
        end = start + data_bytes
        keeps = refused is None and data_bytes <= self._max_item_bytes(queue)
        if keeps and end + END_BYTES <= len(self._buffer):
            self._position = end + END_BYTES
            return Set(queue, flags, expiry_s, self._buffer[start:end], noreply)
        self._body = Body(header, keeps)
        return self._read_body(self._body)

    def _read_body(self, body: Body) -> Set | Bad | None:
        self._position = body.take(self._buffer, self._position)
        while not body.is_whole and self._fed:
            self._buffer = self._fed.popleft()
            self._fed_bytes -= len(self._buffer)
            self._position = body.take(self._buffer, 0)
        if not body.is_whole:
            self._drop_what_is_read()
            return None
        self._body = None
        return body.request()

    def _without_a_line(self) -> Request | None:
        if len(self._buffer) - self._position > self._max_line_bytes:
            self._stop()
            return Bad(Refusal.CLIENT_ERROR, closes=True, reason="a line is too long")
        self._drop_what_is_read()
        if not self._fed:
            return None
        self._buffer = b"".join((self._buffer, *self._fed))
        self._fed.clear()
        self._fed_bytes = 0
        return self.next_request()

    def _drop_what_is_read(self) -> None:
        """So that a connection which waits keeps no more than it has to."""
        self._buffer, self._position = self._buffer[self._position :], 0

    def _stop(self) -> None:
        self._is_over = True
        self._buffer, self._position = b"", 0
        self._fed.clear()
        self._fed_bytes = 0
