"""What the log says about single clients: short lines, and of each client few.

A client that is refused tries again, many times a second, and what it sent may be long.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass

from barbicel.clock import Clock

__all__ = ["ClientNotes"]

_log = logging.getLogger(__name__)

INTERVAL_MS = 5_000
MAX_CLIENTS = 1000
MAX_CHARS = 300
# How many connections of a machine may end in that time, each with a line.
MAX_ENDS = 20
# In the place of a port: all connections of a machine.
ANY_PORT, ENDED = 0, -1


@dataclass(slots=True)
class _Told:
    at_ms: int
    left_out: int = 0
    lines: int = 1


class ClientNotes:
    """Reactor thread only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # The one that was told of longest ago first.
        self._told: OrderedDict[tuple[str, int], _Told] = OrderedDict()

    def tell(
        self, peer: tuple[str, int], text: str, level: int = logging.INFO, *, by_host: bool = False
    ) -> None:
        """Log it, unless something was logged about this client just now; then count it for the next line.

        `by_host` takes all connections of a machine for one client, for those that come and go.
        """
        more = self._more((peer[0], ANY_PORT) if by_host else peer, 1)
        if more is not None:
            _log.log(level, "%s:%d, %s%s", *peer, _short(text), more)

    def tell_end(self, peer: tuple[str, int], reason: str) -> None:
        """A connection is closed, for this reason. Of a machine that is sent away again and again the first
        ones are told, and the others counted."""
        more = self._more((peer[0], ENDED), MAX_ENDS)
        if more is not None:
            _log.warning("closing the connection of %s:%d: %s%s", *peer, reason, more)

    def _more(self, key: tuple[str, int], max_lines: int) -> str | None:
        """What to say of those that were left out; None if this is to be left out too."""
        now_ms = self._clock()
        told = self._told.get(key)
        # A clock that was set back counts as late enough.
        if told is not None and 0 <= now_ms - told.at_ms < INTERVAL_MS:
            if told.lines < max_lines:
                told.lines += 1
                return ""
            told.left_out += 1
            return None
        self._told[key] = _Told(now_ms)
        self._told.move_to_end(key)
        if len(self._told) > MAX_CLIENTS:
            self._told.popitem(last=False)
        return f" ({told.left_out} lines like this were left out)" if told and told.left_out else ""


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}..."
