"""Requests out of a stream of bytes: a 4-byte length, then so many bytes. No I/O.

A length is believed as far as the limit goes, and memory is taken as the bytes arrive, so that a length
alone costs nothing. What is not Kafka's protocol at all is told apart for the log.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NoReturn

from barbicel.errors import BarbicelError

__all__ = ["SMALLEST_FRAME_BYTES", "BadFrame", "FrameReader"]

LENGTH = struct.Struct(">i")
API_KEY = struct.Struct(">h")
# Of a request: api_key, api_version, correlation_id.
SMALLEST_FRAME_BYTES = 8
# A part of a frame that is worth keeping as it arrived.
LARGE_PART_BYTES = 16 << 10

TLS = "a TLS client, on a port without TLS"
HTTP = "an HTTP client"
# What other protocols begin with → what to tell the operator.
STRANGERS: tuple[tuple[bytes, str], ...] = (
    (b"\x16\x03", TLS),
    (b"GET ", HTTP),
    (b"POST", HTTP),
    (b"PUT ", HTTP),
    (b"HEAD", HTTP),
    (b"OPTI", HTTP),
    (b"DELE", HTTP),
    (b"CONN", HTTP),
    (b"PRI ", "an HTTP/2 client"),
    (b"SSH-", "an SSH client"),
)


class BadFrame(BarbicelError):
    """The stream cannot be understood from here on."""


class FrameReader:
    """Feed it what arrives, and take the frames that are whole, without their lengths.

    What is fed waits here until it is taken. `limit_of(api_key)` says how long a request of that kind may be;
    it is not asked about those of up to `any_bytes`.
    """

    def __init__(self, max_bytes: int, limit_of: Callable[[int], int], any_bytes: int = 0) -> None:
        self.max_bytes = max_bytes
        # The setting that the limit comes from.
        self.limit_name = "socket.request.max.bytes"
        self.smallest_bytes = SMALLEST_FRAME_BYTES
        self._limit_of = limit_of
        self._any_bytes = any_bytes
        self._data = b""
        self._position = 0
        # Of the frame whose rest has not arrived: what is here of it, joined once when it is whole.
        self._parts: list[bytearray | memoryview] | None = None
        self._arrived_bytes = 0
        self._wanted_bytes = 0
        self._returned: bytearray | None = None

    @property
    def is_within_a_frame(self) -> bool:
        # In the order of what is asked most: nothing is here, or all of several requests.
        return self._position < len(self._data) or self._parts is not None or self._returned is not None

    @property
    def has_returned(self) -> bool:
        """A frame was put back, and not taken again yet."""
        return self._returned is not None

    def put_back(self, frame: bytearray) -> None:
        """The frame that was taken last is to be taken again."""
        self._returned = frame

    def feed(self, data: bytes) -> None:
        self._data = self._data[self._position :] + data if self._position < len(self._data) else data
        self._position = 0

    def next_frame(self) -> bytearray | None:
        """None: more must arrive first. Raises BadFrame, the first time and whenever it is asked again."""
        returned, self._returned = self._returned, None
        if returned is not None:
            return returned
        parts = self._parts
        if parts is None:
            start = self._position + LENGTH.size
            left = len(self._data) - start
            if left < 0:
                return None
            (wanted_bytes,) = LENGTH.unpack_from(self._data, self._position)
            if not self.smallest_bytes <= wanted_bytes <= self.max_bytes:
                self._refuse_length(wanted_bytes)
            self._wanted_bytes = wanted_bytes
            if 0 < wanted_bytes <= left:  # the usual request has arrived in one piece
                frame = bytearray(memoryview(self._data)[start : start + wanted_bytes])
                self._check_limit(frame)
                self._position = start + wanted_bytes
                return frame
            parts, self._arrived_bytes = [], 0
            self._parts = parts
            self._position = start
        end = min(len(self._data), self._position + self._wanted_bytes - self._arrived_bytes)
        _put(parts, memoryview(self._data)[self._position : end])
        self._arrived_bytes += end - self._position
        self._position = end
        self._check_limit(parts[0])
        if self._arrived_bytes < self._wanted_bytes:
            return None
        self._parts = None
        first = parts[0]
        if len(parts) > 1:
            return bytearray().join(parts)
        return first if isinstance(first, bytearray) else bytearray(first)

    def _refuse_length(self, length: int) -> NoReturn:
        for start, stranger in STRANGERS:
            if self._data.startswith(start, self._position):
                raise BadFrame(f"not Kafka's protocol: {stranger}")
        raise BadFrame(
            f"a request of {length} bytes; allowed are {self.smallest_bytes} to {self.max_bytes}"
            f" ({self.limit_name})"
        )

    def _check_limit(self, start: bytearray | memoryview) -> None:
        if self._wanted_bytes <= self._any_bytes or len(start) < API_KEY.size:
            return
        (api_key,) = API_KEY.unpack_from(start)
        limit = self._limit_of(api_key)
        if self._wanted_bytes > limit:
            raise BadFrame(
                f"a request of API key {api_key} with {self._wanted_bytes} bytes; allowed are {limit}"
            )


def _put(parts: list[bytearray | memoryview], part: memoryview) -> None:
    """Small parts are put together: whoever sends single bytes must not cost an object for each."""
    if len(part) >= LARGE_PART_BYTES and (not parts or len(parts[0]) >= API_KEY.size):
        parts.append(part)
    elif parts and isinstance(parts[-1], bytearray):
        parts[-1] += part
    else:
        parts.append(bytearray(part))
