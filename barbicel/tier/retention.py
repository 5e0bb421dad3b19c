"""Which segments may go, from the disk or for good: the oldest first, never the one that is open. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Held", "Limits", "end_of_passed"]

NOT_KNOWN = -1


class Limits(NamedTuple):
    """None is no limit."""

    max_bytes: int | None = None
    max_age_ms: int | None = None


class Held(NamedTuple):
    """A sealed segment. One of which the highest timestamp is not known has no age: it stays."""

    end_offset: int
    size_bytes: int
    max_timestamp_ms: int
    # Whether it may be let go at all: from the disk, only if the store has it.
    may_go: bool = True


def end_of_passed(held: Sequence[Held], active_bytes: int, limits: Limits, now_ms: int) -> int | None:
    """The offset below which everything is beyond the limits and may go; None if nothing is."""
    count = max(_count_expired(held, limits, now_ms), _count_over_size(held, active_bytes, limits))
    while count and not all(segment.may_go for segment in held[:count]):
        count -= 1
    return held[count - 1].end_offset if count else None


def _count_expired(held: Sequence[Held], limits: Limits, now_ms: int) -> int:
    if limits.max_age_ms is None:
        return 0
    for count, segment in enumerate(held):
        if not NOT_KNOWN < segment.max_timestamp_ms < now_ms - limits.max_age_ms:
            return count
    return len(held)


def _count_over_size(held: Sequence[Held], active_bytes: int, limits: Limits) -> int:
    """As many as can go so that at least `max_bytes` stay: what was promised is kept, or more."""
    if limits.max_bytes is None:
        return 0
    total = active_bytes + sum(segment.size_bytes for segment in held)
    for count, segment in enumerate(held):
        total -= segment.size_bytes
        if total < limits.max_bytes:
            return count
    return len(held)
