"""How serving ends, for every protocol: what was accepted is answered, and then every client is gone."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from twisted.internet.defer import Deferred, succeed

from barbicel.gateway.twisted_types import Reactor, Timer, Transport

__all__ = ["DRAIN_SECONDS", "Draining"]

# How long requests that were accepted have to be answered.
DRAIN_SECONDS = 5.0


class Draining:
    """Of the connections that a server has at present."""

    def __init__(self, connections: Collection[Drained], reactor: Reactor) -> None:
        self._connections = connections
        self._reactor = reactor
        self._done: Deferred[None] | None = None
        self._timer: Timer | None = None

    def begin(self) -> Deferred[None]:
        """Serve nothing new; fires when every client is gone."""
        if not self._connections:
            return succeed(None)
        done = self._done = Deferred()
        self._timer = self._reactor.callLater(DRAIN_SECONDS, self._abort_all)
        for connection in list(self._connections):
            connection.drain()
        return done

    def note_disconnected(self) -> None:
        """A client is gone."""
        if not self._connections:
            self._end()

    def _abort_all(self) -> None:
        for connection in list(self._connections):
            connection.transport.abortConnection()
        self._end()

    def _end(self) -> None:
        done, self._done = self._done, None
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if done is not None:
            done.callback(None)


class Drained(Protocol):
    """A connection, as far as its end goes."""

    transport: Transport

    def drain(self) -> None:
        """Serve no more, and close as soon as all is answered that is under way."""
