"""Whether a Kafka server answers, asked with its own protocol and nothing of this project's code.

A server is ready when ApiVersions succeeds and Metadata names a broker: Kafka opens its port a little
before its broker may hold partitions.
"""

from __future__ import annotations

import socket
import struct

__all__ = ["is_ready"]

API_VERSIONS = 18
METADATA = 3
ANSWER_DEADLINE_S = 5.0
# More than both answers ever have; a port may belong to somebody else.
ANSWER_MAX_BYTES = 1 << 20


def is_ready(host: str, port: int) -> bool:
    """Ask once. False if nobody listens, or if the answer is not that of a ready broker."""
    try:
        with socket.create_connection((host, port), timeout=ANSWER_DEADLINE_S) as connection:
            return _has_api_versions(connection) and _has_broker(connection)
    except (OSError, EOFError):
        return False


def _has_api_versions(connection: socket.socket) -> bool:
    answer = _ask(connection, API_VERSIONS, 0, b"")
    return answer[:2] == b"\0\0" and len(answer) > 6


def _has_broker(connection: socket.socket) -> bool:
    no_topics = struct.pack(">i", 0)
    (brokers,) = struct.unpack(">i", _ask(connection, METADATA, 1, no_topics)[:4])
    return bool(brokers > 0)


def _ask(connection: socket.socket, api_key: int, version: int, body: bytes) -> bytes:
    """The answer's body. The request's header is version 1, the answer's version 0."""
    client_id = b"rig"
    header = struct.pack(">hhih", api_key, version, api_key, len(client_id)) + client_id
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    (size,) = struct.unpack(">i", _receive(connection, 4))
    if not 8 <= size <= ANSWER_MAX_BYTES:
        raise EOFError(f"an answer of {size} bytes")
    answer = _receive(connection, size)
    if answer[:4] != struct.pack(">i", api_key):
        raise EOFError("the answer to another question")
    return answer[4:]


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise EOFError("the connection was closed")
        received += piece
    return received
