"""Which segments may go. Whole segments only, the oldest first, and never the active one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from barbicel.codecs.keratin_format import SealedSegment

__all__ = ["RetentionRules", "count_below", "count_expired", "count_over_size"]


class RetentionRules(NamedTuple):
    """None means that there is no such limit."""

    max_bytes: int | None = None
    max_age_ms: int | None = None


def count_below(segments: Sequence[SealedSegment], offset: int) -> int:
    """How many lie wholly below the offset."""
    return sum(segment.end_offset <= offset for segment in segments)


def count_over_size(segments: Sequence[SealedSegment], active_bytes: int, max_bytes: int) -> int:
    """How many can go so that at least `max_bytes` stay: retention keeps what it promised, or more."""
    total = active_bytes + sum(segment.log_bytes for segment in segments)
    for count, segment in enumerate(segments):
        if total - segment.log_bytes < max_bytes:
            return count
        total -= segment.log_bytes
    return len(segments)


def count_expired(
    segments: Sequence[SealedSegment],
    oldest_kept_ms: int,
    max_timestamp_ms: Callable[[SealedSegment], int],
) -> int:
    """How many hold only records older than `oldest_kept_ms`, up to the first that does not.

    One of which no record can be read has no known age: it stays until somebody has looked at it.
    """
    for count, segment in enumerate(segments):
        if not 0 <= max_timestamp_ms(segment) < oldest_kept_ms:
            return count
    return len(segments)
