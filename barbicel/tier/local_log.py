"""What the tier has to know of a partition's own log, and may ask of it. Whoever has the log implements this.

A batch is one record of that log; a segment here is one of its sealed ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from barbicel.disk import Bytes

__all__ = ["LocalLog", "LocalSegment", "StoredBatch"]


class StoredBatch(NamedTuple):
    """A batch, wherever it is stored; the timestamp is the highest of its records."""

    offset: int
    timestamp_ms: int
    payload: memoryview


class LocalSegment(NamedTuple):
    """A sealed segment: it never changes any more, and is on the disk whole."""

    base_offset: int
    end_offset: int
    size_bytes: int


class LocalLog(Protocol):
    """Any thread. Everything raises BarbicelError, LogClosed when the log is being closed."""

    @property
    def path(self) -> str: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def active_bytes(self) -> int:
        """Of the segment that is not sealed yet."""

    def sealed(self) -> Sequence[LocalSegment]:
        """Ascending, without a gap."""

    def max_timestamp_ms(self, segment: LocalSegment) -> int:
        """The highest timestamp of its records, -1 if that is not known."""

    def batches(self, segment: LocalSegment) -> Iterator[Bytes]:
        """Every batch of a segment, in order, each time anew. Offsets that a repair gave up are missing."""

    def drop_before(self, offset: int) -> None:
        """Delete what lies below: whole segments, and of the one that the offset lies in nothing."""

    def seal(self) -> None:
        """End the active segment, if it holds anything."""

    def seal_if_due(self) -> None:
        """The same, if it has reached its age."""
