"""How much of what is there a stream takes at a time: the connector's rules, as decisions without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor

__all__ = ["MinimumWait", "at_most", "new_offsets"]

Key = tuple[str, int]


def new_offsets(start: Mapping[Key, int], end: Mapping[Key, int]) -> int:
    return sum(max(0, end[key] - start[key]) for key in end)


def at_most(start: Mapping[Key, int], end: Mapping[Key, int], limit: int) -> dict[Key, int]:
    """Ends that are `limit` offsets away at most, shared out by how much there is in each partition.

    As in the connector, one with little gets one offset at least, so that it comes to its turn.
    """
    total = new_offsets(start, end)
    if total <= limit:
        return dict(end)
    reached = {}
    for key, last in end.items():
        share = limit * ((last - start[key]) / total)
        reached[key] = min(last, start[key] + (floor(share) if share >= 1 else ceil(max(share, 0))))
    return reached


class MinimumWait:
    """Waits until there is enough, but not longer than so long."""

    def __init__(self, max_delay_ms: int, now_ms: int) -> None:
        self._max_delay_ms = max_delay_ms
        self._last_ms = now_ms

    def is_over(self, count: int, minimum: int, now_ms: int) -> bool:
        """Whether to take what there is. Asked again after it was taken, the wait begins anew."""
        if count < minimum and now_ms - self._last_ms < self._max_delay_ms:
            return False
        self._last_ms = now_ms
        return True
