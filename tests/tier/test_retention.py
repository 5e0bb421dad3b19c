"""Which segments may go, by age, by size, and by whether they may go at all."""

from __future__ import annotations

import pytest

from barbicel.tier.retention import Held, Limits, end_of_passed

NOW_MS = 10_000


def held(*, ages: list[int], size: int = 100, stays: int | None = None) -> list[Held]:
    """A segment of 10 offsets for each age in ms; -1 is one whose age nobody knows."""
    return [
        Held((number + 1) * 10, size, -1 if age < 0 else NOW_MS - age, may_go=number != stays)
        for number, age in enumerate(ages)
    ]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), None),
        (Limits(max_age_ms=1000), None),
        (Limits(max_age_ms=500), 10),
        (Limits(max_age_ms=200), 20),
        (Limits(max_age_ms=0), 30),
        # What stays, the open segment's 50 bytes among it, is at least the limit.
        (Limits(max_bytes=350), None),
        (Limits(max_bytes=250), 10),
        (Limits(max_bytes=249), 10),
        (Limits(max_bytes=150), 20),
        (Limits(max_bytes=50), 30),
        (Limits(max_bytes=0), 30),
        (Limits(max_bytes=250, max_age_ms=200), 20),
    ],
)
def test_the_oldest_go_as_far_as_a_limit_says(limits: Limits, expected: int | None) -> None:
    segments = held(ages=[900, 400, 100])
    assert end_of_passed(segments, 50, limits, NOW_MS) == expected


def test_nothing_goes_behind_one_that_has_to_stay() -> None:
    assert end_of_passed(held(ages=[900, 800, 700], stays=1), 0, Limits(max_age_ms=0), NOW_MS) == 10
    assert end_of_passed(held(ages=[900, 800, 700], stays=0), 0, Limits(max_bytes=0), NOW_MS) is None


def test_one_of_unknown_age_stays_and_so_do_those_behind_it() -> None:
    assert end_of_passed(held(ages=[900, -1, 700]), 0, Limits(max_age_ms=1), NOW_MS) == 10
    assert end_of_passed(held(ages=[-1]), 0, Limits(max_bytes=0), NOW_MS) == 10


def test_nothing_is_nothing() -> None:
    assert end_of_passed([], 10**9, Limits(0, 0), NOW_MS) is None
