"""What readers may see of a log: one immutable value, replaced as a whole when the log changes.

A reader takes the value once and never waits for a writer, nor a writer for it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from barbicel.codecs.keratin_format import SealedSegment
from barbicel.keratin.indexes import SegmentIndexes

__all__ = ["Stretch", "View"]


class Stretch(NamedTuple):
    """The readable part of one segment."""

    base_offset: int
    end_offset: int
    end_position: int
    # The live ones if this is the active segment, else they are read from their files.
    indexes: SegmentIndexes | None


class View(NamedTuple):
    segments: tuple[SealedSegment, ...]
    active_base_offset: int
    active_indexes: SegmentIndexes
    start_offset: int
    # Where the readable records of the active segment end.
    end_offset: int
    end_position: int

    def stretch_at(self, offset: int) -> Stretch:
        """The stretch that an offset of the log lies in."""
        if offset >= self.active_base_offset:
            return Stretch(
                self.active_base_offset,
                self.end_offset,
                self.end_position,
                self.active_indexes,
            )
        number = bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1
        return _sealed_stretch(self.segments[number])

    def stretches(self) -> list[Stretch]:
        """All of them, ascending."""
        return [
            *(_sealed_stretch(segment) for segment in self.segments),
            self.stretch_at(self.active_base_offset),
        ]


def _sealed_stretch(segment: SealedSegment) -> Stretch:
    return Stretch(segment.base_offset, segment.end_offset, segment.log_bytes, None)
