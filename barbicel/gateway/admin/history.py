"""What went in and out lately, a sample every few seconds: for charts that begin before somebody looks.

Samples are totals; a rate is the difference of two. Bounded in time and in topics. No clock and no I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

__all__ = ["ALL", "History", "Rates", "Totals"]

SAMPLES = 150
# With more topics than this only the sum of all is kept: the memory for the others would be 10 MB and more.
MAX_TOPICS = 2000
# Stands for all topics together. No topic has this name.
ALL = ""
RECENT = 40
# A rate is told over so many of the last samples.
RATE_SAMPLES = 3


class Totals(NamedTuple):
    """Since the server started, but for messages: since the topic was made."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class _Sample(NamedTuple):
    time_ms: int
    totals: Totals


class Rates(NamedTuple):
    """A second."""

    messages_in: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0


class History:
    def __init__(self) -> None:
        self._samples: dict[str, deque[_Sample]] = {}

    def note(self, now_ms: int, topics: Mapping[str, Totals]) -> None:
        """The totals of every topic, which together are ALL's."""
        everything = Totals(*map(sum, zip(*topics.values(), strict=True))) if topics else Totals()
        kept = topics if len(topics) <= MAX_TOPICS else {}
        for name in self._samples.keys() - kept.keys() - {ALL}:
            del self._samples[name]
        for name, totals in (*kept.items(), (ALL, everything)):
            samples = self._samples.setdefault(name, deque(maxlen=SAMPLES))
            # A topic that was made anew begins anew, and so does the sum when a topic is gone.
            if samples and _is_less(totals, samples[-1].totals):
                samples.clear()
            samples.append(_Sample(now_ms, totals))

    def rates(self, name: str = ALL) -> Rates:
        """Of the last few samples."""
        samples = self._samples.get(name)
        if samples is None or len(samples) < 2:
            return Rates()
        return _rates_between(samples[max(0, len(samples) - 1 - RATE_SAMPLES)], samples[-1])

    def series(self, name: str = ALL) -> list[tuple[int, Rates]]:
        """(the time, the rates up to it), the oldest first."""
        samples = list(self._samples.get(name, ()))
        return [(after.time_ms, _rates_between(before, after)) for before, after in pairwise(samples)]

    def recent(self, name: str) -> list[float]:
        """Messages a second, lately, for a small chart."""
        return [round(rates.messages_in, 1) for _, rates in self.series(name)[-RECENT:]]


def _is_less(totals: Totals, before: Totals) -> bool:
    return any(now < then for now, then in zip(totals, before, strict=True))


def _rates_between(before: _Sample, after: _Sample) -> Rates:
    seconds = max(0.001, (after.time_ms - before.time_ms) / 1000)
    return Rates(*((now - then) / seconds for now, then in zip(after.totals, before.totals, strict=True)))
