"""Long lists, made a piece at a time: everybody waits for the reactor's thread."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import TypeVar

from twisted.internet.defer import Deferred

from barbicel.gateway.twisted_types import Reactor

__all__ = ["in_turns", "others_first"]

T = TypeVar("T")

ROWS_A_TURN = 250


def others_first(reactor: Reactor) -> Deferred[None]:
    """Fires when the reactor has served whoever waits now."""
    turn: Deferred[None] = Deferred()
    reactor.callLater(0, partial(turn.callback, None))
    return turn


async def in_turns(reactor: Reactor, rows: Iterable[T], rows_a_turn: int = ROWS_A_TURN) -> list[T]:
    """All rows. What they are made of may change in between: give a list of it, not a dictionary's view."""
    iterator = iter(rows)
    found = list(islice(iterator, rows_a_turn))
    while len(piece := list(islice(iterator, rows_a_turn))) > 0:
        found += piece
        await others_first(reactor)
    return found
