"""A Keratin log as the tier sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from barbicel.codecs.keratin_format import SealedSegment
from barbicel.disk import Bytes
from barbicel.errors import OffsetOutOfRange
from barbicel.keratin import Log
from barbicel.tier.local_log import LocalSegment

__all__ = ["KeratinLog"]


class KeratinLog:
    """See barbicel.tier.local_log.LocalLog."""

    def __init__(self, log: Log, before_drop: Callable[[int], None] = lambda offset: None) -> None:
        """`before_drop` is called before what lies below an offset goes; if it raises, all of it stays."""
        self._log = log
        self.before_drop = before_drop

    @property
    def path(self) -> str:
        return self._log.path

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def active_bytes(self) -> int:
        return self._log.size_bytes - sum(segment.log_bytes for segment in self._log.segments)

    def sealed(self) -> Sequence[LocalSegment]:
        return [
            LocalSegment(segment.base_offset, segment.end_offset, segment.log_bytes)
            for segment in self._log.segments
        ]

    def max_timestamp_ms(self, segment: LocalSegment) -> int:
        return self._log.max_timestamp_ms(self._of(segment))

    def batches(self, segment: LocalSegment) -> Iterator[Bytes]:
        # Of one that the log's start has cut through, what is left.
        for record in self._log.scan(max(segment.base_offset, self._log.start_offset)):
            if record.offset >= segment.end_offset:
                return
            yield record.payload

    def drop_before(self, offset: int) -> None:
        self.before_drop(offset)
        self._log.truncate_before(offset)

    def seal(self) -> None:
        self._log.roll()

    def seal_if_due(self) -> None:
        self._log.roll_if_due()

    def _of(self, segment: LocalSegment) -> SealedSegment:
        for sealed in self._log.segments:
            if sealed.base_offset == segment.base_offset:
                return sealed
        raise OffsetOutOfRange(segment.base_offset, self.start_offset, self.end_offset, self.path)
