"""How long to wait after a failure: longer each time, up to a limit. A decision: the time is given."""

from __future__ import annotations

__all__ = ["BackOff"]


class BackOff:
    """One who tries again."""

    def __init__(self, first_ms: int, longest_ms: int) -> None:
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self.failures = 0
        self._not_before_ms = 0

    def is_due(self, now_ms: int) -> bool:
        # A clock that was set back must not make anybody wait for ever.
        return now_ms >= self._not_before_ms or now_ms < self._not_before_ms - self._longest_ms

    def failed(self, now_ms: int) -> None:
        # The exponent is bounded: nobody needs a number of a thousand digits.
        delay_ms = min(self._longest_ms, self._first_ms << min(self.failures, 32))
        self.failures += 1
        self._not_before_ms = now_ms + delay_ms

    def succeeded(self) -> None:
        self.failures = 0
        self._not_before_ms = 0
