"""A gateway's lines by Kestrel's protocol: made, and counted. Waits for the answers, and for a gateway that
is restarted meanwhile: each new connection logs in anew."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from barbicel.closing import Closing
from barbicel.gateway.client.connecting import ServerRefused
from barbicel.gateway.client.kestrel_queues import KestrelServer, Queues, number_of
from barbicel.gateway.migration.patience import RETRY_S, patiently

__all__ = ["KestrelLines"]

T = TypeVar("T")


class KestrelLines(Closing):
    """A connection that makes lines and counts their items."""

    def __init__(self, server: KestrelServer, retry_s: float = RETRY_S) -> None:
        """Raises NoServer if nobody is there now; later it is tried again for so long. ServerRefused and
        BadClientConfig are raised at once, now and later."""
        self._server = server
        self._retry_s = retry_s
        self._queues: Queues | None = server.connect()

    def close(self) -> None:
        if self._queues is not None:
            queues, self._queues = self._queues, None
            with suppress(OSError):
                queues.close()

    def cluster_id(self) -> str | None:
        """None of a server that has no Kafka side."""
        return self._ask(Queues.cluster_id)

    def begin(self, name: str) -> None:
        """On return there is a line of this name."""
        self._ask(lambda queues: queues.make(name))

    def queue_names(self) -> list[str]:
        """Of every line."""
        return self._ask(Queues.names)

    def count_items(self, name: str) -> int:
        """What a line has to give."""
        return self._ask(lambda queues: number_of(queues.stats(name).get(name, {}), "items"))

    def _ask(self, question: Callable[[Queues], T]) -> T:
        try:
            return patiently(lambda: question(self._connected()), self._retry_s, self.close)
        except ServerRefused:
            # Nobody knows how much of the answer is still to come.
            self.close()
            raise

    def _connected(self) -> Queues:
        if self._queues is None:
            self._queues = self._server.connect()
        return self._queues
