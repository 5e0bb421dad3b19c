"""Requests out of a stream of bytes: a 4-byte length, then so many bytes. No I/O.

A length is believed as far as the limit goes, and memory is taken as the bytes arrive, so that a length
alone costs nothing. What is not Kafka's protocol at all is told apart for the log.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from barbicel.errors import BarbicelError

__all__ = ["BadFrame", "FrameReader"]

LENGTH = struct.Struct(">i")
API_KEY = struct.Struct(">h")
# Of a request: api_key, api_version, correlation_id.
SMALLEST_FRAME_BYTES = 8

# What other protocols begin with → what to tell the operator.
STRANGERS: tuple[tuple[bytes, str], ...] = (
    (b"\x16\x03", "a TLS client, on a port without TLS"),
    (b"GET ", "an HTTP client"),
    (b"POST", "an HTTP client"),
    (b"PUT ", "an HTTP client"),
    (b"HEAD", "an HTTP client"),
)


class BadFrame(BarbicelError):
    """The stream cannot be understood from here on."""


class FrameReader:
    """Feed it what arrives; it returns the frames that are whole, without their lengths.

    `limit_of(api_key)` says how long a request of that kind may be.
    """

    def __init__(self, max_bytes: int, limit_of: Callable[[int], int]) -> None:
        self._max_bytes = max_bytes
        self._limit_of = limit_of
        self._head = b""
        self._frame: bytearray | None = None
        self._wanted_bytes = 0

    @property
    def is_within_a_frame(self) -> bool:
        return self._frame is not None or bool(self._head)

    def receive(self, data: bytes) -> list[bytearray]:
        """Raises BadFrame; the frames before it are lost with the connection."""
        frames: list[bytearray] = []
        if self._head:
            data, self._head = self._head + data, b""
        view, position = memoryview(data), 0
        while True:
            frame = self._frame
            if frame is None:
                if len(data) - position < LENGTH.size:
                    self._head = data[position:]
                    return frames
                self._wanted_bytes = self._check_length(data, position)
                frame = self._frame = bytearray()
                position += LENGTH.size
            has_key = len(frame) >= API_KEY.size
            end = min(len(data), position + self._wanted_bytes - len(frame))
            frame += view[position:end]
            position = end
            if not has_key and len(frame) >= API_KEY.size:
                self._check_limit(frame)
            if len(frame) < self._wanted_bytes:
                return frames
            frames.append(frame)
            self._frame = None

    def _check_length(self, data: bytes, position: int) -> int:
        (length,) = LENGTH.unpack_from(data, position)
        if SMALLEST_FRAME_BYTES <= length <= self._max_bytes:
            return int(length)
        for start, stranger in STRANGERS:
            if data.startswith(start, position):
                raise BadFrame(f"not Kafka's protocol: {stranger}")
        raise BadFrame(
            f"a request of {length} bytes; allowed are {SMALLEST_FRAME_BYTES} to {self._max_bytes}"
            " (socket.request.max.bytes)"
        )

    def _check_limit(self, frame: bytearray) -> None:
        (api_key,) = API_KEY.unpack_from(frame)
        limit = self._limit_of(api_key)
        if self._wanted_bytes > limit:
            raise BadFrame(
                f"a request of API key {api_key} with {self._wanted_bytes} bytes; allowed are {limit}"
            )
