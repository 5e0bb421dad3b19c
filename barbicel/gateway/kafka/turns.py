"""Who is served next, when clients send more requests at once than may be served at once.

The reactor has one thread. A connection is served for a moment; if it has more at hand then, it waits here
and goes on in the next turn of the reactor, after those that waited before it. So whoever sends one request
waits for a moment of each who sends thousands, and not for all of their requests.
"""

from __future__ import annotations

from typing import Protocol

from barbicel.gateway.twisted_types import Reactor, Timer

__all__ = ["Turns"]

# How long a connection is served at a time; a request that takes longer is served all the same.
TURN_SECONDS = 0.005
# For how long those that wait are served before others are read from again.
ROUND_SECONDS = 0.01


class Waiting(Protocol):
    def take_turn(self) -> None: ...


class Turns:
    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        # The first first.
        self._waiting: dict[Waiting, None] = {}
        self._round: Timer | None = None

    def end_of_turn_s(self) -> float:
        return self._reactor.seconds() + TURN_SECONDS

    def is_over(self, end_s: float) -> bool:
        return self._reactor.seconds() >= end_s

    def wait(self, connection: Waiting) -> None:
        """Its `take_turn` is called when it may go on."""
        self._waiting[connection] = None
        self._call_round()

    def leave(self, connection: Waiting) -> None:
        self._waiting.pop(connection, None)

    def _call_round(self) -> None:
        if self._waiting and self._round is None:
            self._round = self._reactor.callLater(0, self._serve_round)

    def _serve_round(self) -> None:
        """Each of those that wait once, as far as there is time."""
        self._round = None
        end_s = self._reactor.seconds() + ROUND_SECONDS
        for connection in list(self._waiting):
            if connection in self._waiting:
                del self._waiting[connection]
                connection.take_turn()
            if self.is_over(end_s):
                break
        self._call_round()
