"""Finds in a history what must not happen. Pure: a history in, anomalies out, a function for each kind.

A killed process loses nothing that it had written, and what a client is told is written before. So an item
comes again only to those who had not been told that it is confirmed, and only when whoever had it open gave
it up, or was cut off by a kill. `synced-came-back` is told apart: that would break the weaker promise too,
which holds when the power fails.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain, combinations
from typing import NamedTuple, TypeAlias

from tests.kestrel_clients.chaos.history import Delivery, History

__all__ = ["CHECKS", "SYNCED_S", "Anomaly", "check"]

# What was confirmed so long before a kill is synced: events are within 100 ms.
SYNCED_S = 0.2


class Anomaly(NamedTuple):
    kind: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.evidence}"


ByItem: TypeAlias = dict[tuple[str, bytes], list[Delivery]]


class Facts:
    """A history with what several checks look up."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._kills = sorted(history.kills)
        self.by_item: ByItem = defaultdict(list)
        for delivery in sorted(history.deliveries, key=lambda delivery: delivery.given):
            self.by_item[delivery.line, delivery.item].append(delivery)

    def first_kill(self, after: float, before: float) -> float | None:
        position = bisect_right(self._kills, after)
        if position < len(self._kills) and self._kills[position] < before:
            return self._kills[position]
        return None


def check(history: History) -> list[Anomaly]:
    facts = Facts(history)
    return list(chain.from_iterable(find(facts) for find in CHECKS))


def lost(facts: Facts) -> Iterator[Anomaly]:
    """It was answered STORED, and in the end nobody has had it and asked to close it."""
    history = facts.history
    for line in history.closed:
        for item in history.stored:
            deliveries = facts.by_item.get((line, item), [])
            if all(delivery.closing is None for delivery in deliveries):
                yield Anomaly("lost", f"{item[:40]!r} in {line}, delivered {len(deliveries)} times")


def came_back(facts: Facts) -> Iterator[Anomaly]:
    """It was delivered after somebody had been told that it is confirmed."""
    for deliveries in facts.by_item.values():
        confirmed = min((each.confirmed for each in deliveries if each.confirmed is not None), default=None)
        for delivery in deliveries:
            if confirmed is None or delivery.given <= confirmed:
                continue
            kill = facts.first_kill(confirmed, delivery.given)
            evidence = f"{delivery}, confirmed at {confirmed:.3f}, killed at {kill}"
            is_synced = kill is None or kill - confirmed >= SYNCED_S
            yield Anomaly("synced-came-back" if is_synced else "confirmed-came-back", evidence)


def handed_out_twice(facts: Facts) -> Iterator[Anomaly]:
    """It was given to somebody while another had it open."""
    for deliveries in facts.by_item.values():
        for first, second in combinations(deliveries, 2):
            is_open = first.ended is None or second.given < first.ended
            if is_open and facts.first_kill(first.given, second.given) is None:
                yield Anomaly("handed-out-twice", f"{first}, then {second}")


def foreign(facts: Facts) -> Iterator[Anomaly]:
    """Nobody has ever sent it."""
    for delivery in facts.history.deliveries:
        if delivery.item not in facts.history.sent:
            yield Anomaly("foreign", str(delivery))


def troubles(facts: Facts) -> Iterator[Anomaly]:
    for trouble in facts.history.troubles:
        yield Anomaly("trouble", trouble)


CHECKS: tuple[Callable[[Facts], Iterator[Anomaly]], ...] = (
    lost,
    came_back,
    handed_out_twice,
    foreign,
    troubles,
)
