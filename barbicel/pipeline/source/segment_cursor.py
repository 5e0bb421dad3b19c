"""One segment file, read from an offset on: batch by batch, or a run of small batches at once.

Both ways move the same cursor, so that a reader takes whichever suits what comes next. The walk of the first
one is the judge: what a run does not take, it reads or refuses.
"""

from __future__ import annotations

from collections.abc import Iterator

from barbicel.codecs.kafka.columns import SMALL_RECORD_BYTES, Columns, Wanted, decode_run
from barbicel.codecs.kafka.record_batch import BadBatch, BatchHeader, decode_header
from barbicel.codecs.keratin_format import LOG_HEADER_BYTES
from barbicel.codecs.keratin_record import RECORD_OVERHEAD_BYTES, Record, peek_record
from barbicel.disk import File
from barbicel.errors import CorruptLog
from barbicel.keratin.walk import Walk, is_record
from barbicel.pipeline.source.shapes import LogStretch
from barbicel.pipeline.source.stored_batch import StoredBatch, lost

__all__ = ["SegmentCursor"]

RUN_BYTES = 4 << 20
# Fewer batches than these are no run that is worth a call.
MIN_RUN_BATCHES = 16


class SegmentCursor:
    """Goes through the records of a stretch that hold any of the offsets."""

    def __init__(
        self, file: File, stretch: LogStretch, from_offset: int, end_offset: int, hint: tuple[int, int]
    ) -> None:
        """The hint is (offset, position) of a record; if there is none, it begins at the front."""
        self._file = file
        self._stretch = stretch
        self._from_offset = from_offset
        self._end_offset = end_offset
        self._offset, self._position = hint
        if not is_record(file, self._position, stretch.size_bytes, self._offset):
            self._offset, self._position = stretch.base_offset, LOG_HEADER_BYTES

    @property
    def is_done(self) -> bool:
        return self._offset >= self._end_offset

    def batches(self, *, fail_on_data_loss: bool, max_bytes: int | None = None) -> Iterator[StoredBatch]:
        """To the end, or until so many bytes were read. Raises CorruptLog, OffsetsLost."""
        walk = Walk(self._file, self._position, self._stretch.size_bytes, self._offset, max_bytes)
        for record in walk:
            self._offset, self._position = record.end_offset, record.position + record.size
            if record.end_offset > self._from_offset:
                if not record.lost:
                    yield StoredBatch(self._header_of(record), record.payload, record.position)
                elif fail_on_data_loss:
                    raise lost(record.offset, record.end_offset, self._stretch.path)
            if self.is_done:
                return
        if not walk.is_spent:
            raise self._damage(walk.problem or "the file ends before its last record", walk.position)

    def run(self, wanted: Wanted) -> Columns | None:
        """The rows of the small batches that come next; None, and nothing is passed, if there are few."""
        head = peek_record(memoryview(self._file.pread(RECORD_OVERHEAD_BYTES, self._position)), 0)
        if head is None or head.size > SMALL_RECORD_BYTES:
            return None
        left = self._stretch.size_bytes - self._position
        data = self._file.pread(min(RUN_BYTES, left), self._position)
        found = decode_run(data, self._offset, self._end_offset, wanted, MIN_RUN_BATCHES)
        if found is None:
            return None
        self._position += found.size
        self._offset = found.next_offset
        return found.columns

    def _header_of(self, record: Record) -> BatchHeader:
        """A batch's place is said twice, and must be the same."""
        try:
            header = decode_header(record.payload)
        except BadBatch as error:
            raise self._bad_batch(record, error.message) from error
        if (header.base_offset, header.end_offset) != (record.offset, record.end_offset):
            said = f"the batch says offsets {header.base_offset} to {header.last_offset}"
            raise self._bad_batch(record, said)
        return header

    def _bad_batch(self, record: Record, reason: str) -> CorruptLog:
        return CorruptLog(
            reason,
            first_offset=record.offset,
            end_offset=record.end_offset,
            path=self._stretch.path,
            position=record.position,
        )

    def _damage(self, reason: str, position: int) -> CorruptLog:
        return CorruptLog(
            reason,
            first_offset=max(self._offset, self._from_offset),
            end_offset=self._end_offset,
            path=self._stretch.path,
            position=position,
        )
