"""Clocks, as values that can be passed in and replaced in tests."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Clock", "steady_clock_ms", "wall_clock_ms"]

Clock = Callable[[], int]


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def steady_clock_ms() -> int:
    """Milliseconds since some moment, for time-outs: nobody sets this clock."""
    return time.monotonic_ns() // 1_000_000
