"""A histogram of durations, in Prometheus' form: noted in any thread, told in any other."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from barbicel.gateway.admin.metrics import Sample

__all__ = ["Histogram"]


class Histogram:
    """`bounds` ascend, in seconds; what is beyond the last one is counted too."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum_s = 0.0
        self._lock = threading.Lock()

    def note(self, seconds: float) -> None:
        with self._lock:
            self._counts[bisect_left(self._bounds, seconds)] += 1
            self._sum_s += seconds

    @property
    def mean_s(self) -> float | None:
        with self._lock:
            count = sum(self._counts)
            return self._sum_s / count if count else None

    def quantile_s(self, share: float) -> float | None:
        """The bound below which so large a share of all lies; the last one if it is beyond."""
        with self._lock:
            totals = list(accumulate(self._counts))
        if not totals[-1]:
            return None
        place = bisect_left(totals, share * totals[-1])
        return self._bounds[min(place, len(self._bounds) - 1)]

    def samples(self) -> Iterator[Sample]:
        with self._lock:
            totals, sum_s = list(accumulate(self._counts)), self._sum_s
        for bound, total in zip((*map(repr, self._bounds), "+Inf"), totals, strict=True):
            yield Sample(total, (("le", bound),), "_bucket")
        yield Sample(sum_s, (), "_sum")
        yield Sample(totals[-1], (), "_count")
