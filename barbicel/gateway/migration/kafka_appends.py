"""Batches to a gateway by Kafka's protocol, one request at a time. Waits for the answers.

A batch is sent as it was built, so that its numbers are the import's own: a client of Kafka would get a new
producer id for each run, and the gateway could not tell what a killed run has sent from what the next one
sends. A batch with the same numbers is stored once however often it is sent: so it is sent again when the
connection breaks, by a new one that has logged in anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any

from barbicel.closing import Closing
from barbicel.codecs.kafka.produce_client import ProduceAnswer, decode_produce_answer, encode_produce
from barbicel.disk import Bytes
from barbicel.gateway.client.kafka_connection import KafkaConnection
from barbicel.gateway.migration.patience import RETRY_S, patiently

__all__ = ["KafkaAppends"]

CLIENT_ID = "barbicel-import"
TIMEOUT_MS = 30_000
NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})


class KafkaAppends(Closing):
    """A connection of its own, with what kafka-python calls its settings."""

    def __init__(
        self, address: tuple[str, int], settings: Mapping[str, Any] = NO_SETTINGS, retry_s: float = RETRY_S
    ) -> None:
        self._address = address
        self._settings = settings
        self._retry_s = retry_s
        self._connection: KafkaConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(OSError):
                connection.close()

    def greet(self) -> str | None:
        """The cluster's id; on return the gateway serves this client. Raises NoServer, ServerRefused,
        BadClientConfig: this is tried once."""
        return self._connected().greet()

    def append(self, topic: str, partition: int, batch: Bytes) -> ProduceAnswer:
        """What the gateway says to it. Raises NoServer if there is no gateway for too long, and what `greet`
        raises at once if it does not let this client in again."""
        return patiently(partial(self._ask, topic, partition, batch), self._retry_s, self.close)

    def _connected(self) -> KafkaConnection:
        if self._connection is not None and self._connection.is_expiring:
            self.close()
        if self._connection is None:
            self._connection = KafkaConnection.open(*self._address, self._settings, CLIENT_ID)
        return self._connection

    def _ask(self, topic: str, partition: int, batch: Bytes) -> ProduceAnswer:
        def encode(correlation_id: int, client_id: str) -> Sequence[Bytes]:
            return encode_produce(correlation_id, client_id, topic, partition, batch, TIMEOUT_MS)

        return decode_produce_answer(self._connected().exchange(encode))
