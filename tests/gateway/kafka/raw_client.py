"""Requests in any version over a real socket, with answers that are decoded strictly."""

from __future__ import annotations

import socket
import ssl
import struct
from itertools import count
from typing import Any

from barbicel.codecs.kafka.headers import has_flexible_response_header
from barbicel.codecs.kafka.messages import (
    Message,
    decode_response,
    encode_request,
    encode_response,
    is_flexible,
)

__all__ = ["RawClient"]

TIMEOUT_S = 20.0
NO_TAGS = b"\x00"
LENGTH = struct.Struct(">i")
HEADER = struct.Struct(">hhih")


class RawClient:
    """One connection."""

    def __init__(
        self, address: tuple[str, int], client_id: str = "raw", context: ssl.SSLContext | None = None
    ) -> None:
        """Over TLS, if there is a context for it."""
        plain = socket.create_connection(address, TIMEOUT_S)
        self._socket = plain if context is None else context.wrap_socket(plain)
        self._client_id = client_id.encode()
        self._numbers = count(1)
        # (correlation id, API key, version) of what has no answer yet.
        self._asked: list[tuple[int, int, int]] = []

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: Message, version: int) -> Any:
        self.send(request, version)
        return self.receive()

    def send(self, request: Message, version: int) -> None:
        key, number = request.API_KEY, next(self._numbers)
        self._asked.append((number, key, version))
        head = HEADER.pack(key, version, number, len(self._client_id)) + self._client_id
        frame = head + (NO_TAGS if is_flexible(key, version) else b"") + encode_request(request, version)
        self._socket.sendall(LENGTH.pack(len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        """That are no request."""
        self._socket.sendall(data)

    def is_at_end(self) -> bool:
        """Whether the gateway has closed the connection, and nothing else comes."""
        return not self._socket.recv(1)

    def receive(self) -> Any:
        """The next answer: to the oldest question, without a byte too many or too few."""
        number, key, version = self._asked.pop(0)
        frame = self._read(*LENGTH.unpack(self._read(LENGTH.size)))
        assert LENGTH.unpack_from(frame) == (number,)
        body = frame[LENGTH.size :]
        if has_flexible_response_header(key, is_flexible(key, version)):
            assert body[:1] == NO_TAGS
            body = body[1:]
        answer = decode_response(key, version, memoryview(body))
        assert encode_response(answer, version) == body
        return answer

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            assert piece, "the gateway closed the connection"
            data += piece
        return bytes(data)
