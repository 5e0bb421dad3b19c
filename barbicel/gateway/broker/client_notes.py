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


@dataclass(slots=True)
class _Told:
    at_ms: int
    left_out: int = 0


class ClientNotes:
    """Reactor thread only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # The one that was told of longest ago first.
        self._told: OrderedDict[tuple[str, int], _Told] = OrderedDict()

    def tell(self, peer: tuple[str, int], text: str, level: int = logging.INFO) -> None:
        """Log it, unless something was logged about this client just now; then count it for the next line."""
        now_ms = self._clock()
        told = self._told.get(peer)
        if told is not None and now_ms - told.at_ms < INTERVAL_MS:
            told.left_out += 1
            return
        more = f" ({told.left_out} lines like this were left out)" if told and told.left_out else ""
        _log.log(level, "%s:%d, %s%s", *peer, _short(text), more)
        self._told[peer] = _Told(now_ms)
        self._told.move_to_end(peer)
        if len(self._told) > MAX_CLIENTS:
            self._told.popitem(last=False)


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}..."
