"""Waiting longer after each failure, up to a limit."""

from __future__ import annotations

from barbicel.tier.back_off import BackOff


def test_each_failure_doubles_the_wait_up_to_the_longest() -> None:
    back_off, now_ms, waits = BackOff(100, 1000), 5000, []
    for _ in range(6):
        assert back_off.is_due(now_ms)
        back_off.failed(now_ms)
        wait_ms = next(ms for ms in range(2000) if back_off.is_due(now_ms + ms))
        waits.append(wait_ms)
        now_ms += wait_ms
    assert waits == [100, 200, 400, 800, 1000, 1000]


def test_a_success_ends_it() -> None:
    back_off = BackOff(100, 1000)
    back_off.failed(0)
    back_off.failed(0)
    back_off.succeeded()
    assert back_off.is_due(0)
    back_off.failed(0)
    assert (back_off.is_due(99), back_off.is_due(100)) == (False, True)


def test_a_thousand_failures_are_no_huge_number() -> None:
    back_off = BackOff(100, 1000)
    for _ in range(1000):
        back_off.failed(0)
    assert (back_off.is_due(999), back_off.is_due(1000)) == (False, True)


def test_a_clock_that_was_set_back_keeps_nobody_waiting() -> None:
    back_off = BackOff(100, 1000)
    back_off.failed(1_000_000)
    assert back_off.is_due(1000)
