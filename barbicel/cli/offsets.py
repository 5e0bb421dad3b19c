"""Ranges of offsets as the commands collect and count them; `offsets_text` puts one into words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barbicel.errors import offsets_text

__all__ = ["OffsetRange", "counted", "merge", "number_of_offsets", "range_lines", "without"]


class OffsetRange(NamedTuple):
    first_offset: int
    end_offset: int


def merge(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """The same offsets in ascending order, ranges that touch made one, empty ones left out."""
    merged: list[OffsetRange] = []
    for first_offset, end_offset in sorted(ranges):
        if first_offset >= end_offset:
            continue
        if merged and first_offset <= merged[-1].end_offset:
            last = merged.pop()
            first_offset, end_offset = last.first_offset, max(last.end_offset, end_offset)
        merged.append(OffsetRange(first_offset, end_offset))
    return tuple(merged)


def without(whole: OffsetRange, missing: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """What is left of a range."""
    left, first_offset = [], whole.first_offset
    for gap in merge(missing):
        left.append(OffsetRange(first_offset, min(gap.first_offset, whole.end_offset)))
        first_offset = max(first_offset, gap.end_offset)
    return merge([*left, OffsetRange(first_offset, whole.end_offset)])


def number_of_offsets(ranges: Iterable[OffsetRange]) -> int:
    return sum(end_offset - first_offset for first_offset, end_offset in ranges)


def counted(number: int, noun: str) -> str:
    """ "1 offset", "2 offsets"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def range_lines(ranges: Iterable[OffsetRange]) -> list[str]:
    return [offsets_text(*item) for item in ranges]
