"""What is told once in a while."""

from __future__ import annotations

from barbicel.gateway.log_pace import LogPace


def test_once_in_ten_seconds_and_at_once_after_a_clock_was_set_back() -> None:
    times_ms = iter((50_000, 50_000, 59_999, 60_000, 60_001, 40_000, 40_001))
    pace = LogPace(lambda: next(times_ms))
    assert [pace.is_due() for _ in range(7)] == [True, False, False, True, False, True, False]
