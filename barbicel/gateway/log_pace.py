"""How often the log tells of what clients can cause again and again."""

from __future__ import annotations

from barbicel.clock import Clock

__all__ = ["LogPace"]

INTERVAL_MS = 10_000


class LogPace:
    """`is_due` is true at most once in ten seconds."""

    __slots__ = ("_clock", "_told_at_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told_at_ms: int | None = None

    def is_due(self) -> bool:
        """Whether to tell; whoever asks does."""
        now_ms = self._clock()
        # A wall clock that was set back counts as due.
        if self._told_at_ms is not None and 0 <= now_ms - self._told_at_ms < INTERVAL_MS:
            return False
        self._told_at_ms = now_ms
        return True
