"""Ranges of offsets, collected and put into words."""

from __future__ import annotations

import pytest

from barbicel.cli.offsets import OffsetRange, counted, merge, number_of_offsets, range_lines, without


def ranges(*pairs: tuple[int, int]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(*pair) for pair in pairs)


def test_ranges_that_touch_are_one() -> None:
    assert merge(ranges((5, 6), (9, 9), (0, 3), (3, 4), (2, 3))) == ranges((0, 4), (5, 6))


@pytest.mark.parametrize(
    ("missing", "left"),
    [
        ([], [(10, 20)]),
        ([(10, 20)], []),
        ([(5, 25)], []),
        ([(12, 14)], [(10, 12), (14, 20)]),
        ([(18, 30), (0, 11)], [(11, 18)]),
        ([(0, 5), (25, 30)], [(10, 20)]),
        ([(12, 14), (13, 16), (17, 18)], [(10, 12), (16, 17), (18, 20)]),
    ],
)
def test_what_is_left_of_a_range(missing: list[tuple[int, int]], left: list[tuple[int, int]]) -> None:
    assert without(OffsetRange(10, 20), ranges(*missing)) == ranges(*left)


def test_one_offset_is_told_as_one() -> None:
    assert range_lines(ranges((3, 4), (3, 6))) == ["offset 3", "offsets 3 to 5"]
    assert [counted(number, "offset") for number in range(3)] == ["0 offsets", "1 offset", "2 offsets"]
    assert number_of_offsets(ranges((3, 4), (5, 8))) == 4
