"""One connection by Kafka's protocol, with TLS and a login if the settings ask for them; it waits for each
answer.

For requests whose bytes matter, which no client of Kafka sends as they are. An answer's length is told before
it comes: what is longer than any answer to these may be is refused, and not read.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barbicel.closing import Closing
from barbicel.codecs.kafka.headers import REQUEST_START
from barbicel.codecs.kafka.messages import Message, MetadataRequest, decode_response, encode_request
from barbicel.codecs.kafka.wire import INT32, encode_string
from barbicel.disk import Bytes
from barbicel.gateway.client.answers import Answers, seconds_for
from barbicel.gateway.client.connecting import address_text, breaking, connect
from barbicel.gateway.client.sasl_login import log_in

__all__ = ["KafkaConnection"]

MAX_ANSWER_BYTES = 1 << 20
# The first that tells the cluster's id.
METADATA_VERSION = 2
# Of the time for which a login counts. A server hangs up on whoever is too late with the next one.
RENEW_AFTER = 0.8
_HINT = "does it run? --bootstrap HOST:PORT says where, --client-config whether it wants TLS or a login"


class KafkaConnection(Closing):
    """Use `open`. Raises NoServer if the connection breaks; it is of no use any more then."""

    def __init__(self, connection: socket.socket, address: str, client_id: str) -> None:
        self.address = address
        self._socket = connection
        self._answers = Answers(connection)
        self._client_id = client_id
        self._correlation_id = 0
        self._renew_at_s: float | None = None

    @classmethod
    def open(cls, host: str, port: int, settings: Mapping[str, Any], client_id: str) -> KafkaConnection:
        """Raises NoServer; and ServerRefused or BadClientConfig, which another try would raise as well."""
        connected = connect(host, port, settings, _HINT, "Kafka")
        connection = cls(connected, address_text(host, port), settings.get("client_id", client_id))
        try:
            lifetime_ms = log_in(connection, settings)
        except BaseException:
            connection.close()
            raise
        if lifetime_ms:
            connection._renew_at_s = time.monotonic() + lifetime_ms / 1000 * RENEW_AFTER
        return connection

    def close(self) -> None:
        self._socket.close()

    @property
    def is_expiring(self) -> bool:
        """It would have to log in again: a new connection does that as well."""
        return self._renew_at_s is not None and time.monotonic() >= self._renew_at_s

    def greet(self) -> str | None:
        """On return it is one that serves this client: the first request that is not about logging in was
        answered. The cluster's id, if it has one."""
        cluster_id: str | None = self.ask(MetadataRequest(topics=[]), METADATA_VERSION).cluster_id
        return cluster_id

    def ask(self, request: Message, version: int) -> Message:
        """The answer, in a version of the classic encoding. Raises MalformedMessage too."""
        api_key = request.API_KEY
        body = encode_request(request, version)

        def encode(correlation_id: int, client_id: str) -> Sequence[Bytes]:
            head = REQUEST_START.pack(api_key, version, correlation_id) + encode_string(client_id)
            return INT32.pack(len(head) + len(body)), head, body

        frame = self.exchange(encode)
        return decode_response(api_key, version, memoryview(frame)[INT32.size :])

    def exchange(self, encode: Callable[[int, str], Sequence[Bytes]]) -> bytes:
        """The frame that answers the one which is made of a correlation id and this client's id."""
        self._correlation_id += 1
        with breaking(self.address, _HINT):
            request = b"".join(encode(self._correlation_id, self._client_id))
            self._socket.settimeout(seconds_for(len(request)))
            self._socket.sendall(request)
            self._answers.begin()
            frame = self._frame()
            if INT32.unpack_from(frame) != (self._correlation_id,):
                raise ConnectionError("an answer to another request")
        return frame

    def _frame(self) -> bytes:
        (size,) = INT32.unpack(self._read(INT32.size))
        if not INT32.size <= size <= MAX_ANSWER_BYTES:
            raise ConnectionError(f"an answer of {size} bytes")
        return self._read(size)

    def _read(self, size: int) -> bytes:
        return b"".join(self._answers.pieces(size))
