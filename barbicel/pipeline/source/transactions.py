"""How transactions ended, told by the markers in the log behind them.

A log without transactions pays nothing for it. At the first batch of one, the headers of the batches behind
it are read, as far as the query goes, until its producer's marker comes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace

from barbicel.codecs.kafka.new_batch import ControlType
from barbicel.codecs.kafka.record_batch import BadBatch, BatchHeader
from barbicel.codecs.kafka.records import decode_records
from barbicel.disk import Disk
from barbicel.errors import BarbicelError
from barbicel.pipeline.source.options import Options
from barbicel.pipeline.source.places import find_places
from barbicel.pipeline.source.shapes import LogStretch, Shape
from barbicel.pipeline.source.splits import LogSplit, ObjectSplit, ReadRules
from barbicel.pipeline.source.stored_batch import StoredBatch
from barbicel.pipeline.source.stored_batches import log_batches, object_batches
from barbicel.pipeline.source.tiered import survey_place

__all__ = ["OpenTransaction", "Outcomes"]

CONTROL_TYPE_AT = 2  # behind the version, in the key of a control record


class OpenTransaction(BarbicelError):
    """A stream has come to rows of which nobody knows yet whether they will count."""


class Outcomes:
    """Which batches of transactions were committed, for one split."""

    def __init__(self, disk: Disk, split: LogSplit | ObjectSplit, rules: ReadRules) -> None:
        self._disk = disk
        self._split = split
        self._rules = rules
        self._ahead: Iterator[tuple[BatchHeader, bool]] | None = None
        # By producer: the offsets of its markers, and whether each says that it was committed.
        self._markers: dict[int, tuple[list[int], list[bool]]] = {}

    def is_committed(self, header: BatchHeader) -> bool:
        """Raises OpenTransaction where a stream would lose rows that may still be committed."""
        known = self._known(header)
        if self._ahead is None:
            self._ahead = self._markers_from(header.base_offset)
        while known is None and (found := next(self._ahead, None)) is not None:
            marker, is_commit = found
            offsets, outcomes = self._markers.setdefault(marker.producer_id, ([], []))
            offsets.append(marker.base_offset)
            outcomes.append(is_commit)
            known = self._known(header)
        if known is None and self._rules.is_stream:
            raise OpenTransaction(
                f"the transaction of producer {header.producer_id} around offset {header.base_offset} of"
                f" {self._split.topic}-{self._split.partition} has not ended",
                hint="start the query again when it has, or read with kafka.isolation.level=read_uncommitted",
            )
        return bool(known)

    def _known(self, header: BatchHeader) -> bool | None:
        offsets, outcomes = self._markers.get(header.producer_id, ([], []))
        number = bisect_right(offsets, header.base_offset)
        return outcomes[number] if number < len(offsets) else None

    def _markers_from(self, offset: int) -> Iterator[tuple[BatchHeader, bool]]:
        for header, data, _ in self._batches_from(offset):
            if header.is_control and (is_commit := _is_commit(data)) is not None:
                yield header, is_commit

    def _batches_from(self, offset: int) -> Iterator[StoredBatch]:
        """As far as the query goes. What is lost there is no marker, and for others to tell."""
        split, options = self._split, replace(self._rules.options, fail_on_data_loss=False)
        end_offset = split.log_end_offset
        for stretch in self._shape(options).between(offset, end_offset):
            first, end = max(offset, stretch.base_offset), min(end_offset, stretch.end_offset)
            if isinstance(stretch, LogStretch):
                hint = None
                if isinstance(split, LogSplit) and stretch.path == split.stretch.path:
                    hint = (split.hint_offset, split.hint_position)
                yield from log_batches(self._disk, stretch, first, end, hint)
            else:
                yield from object_batches(self._disk, stretch, first, end, options)

    def _shape(self, options: Options) -> Shape:
        place = self._split.place
        if place.objects:  # a split has no more than its own
            (place,) = (found for found in find_places(self._disk, options) if found.key == place.key)
        return survey_place(self._disk, place, options)


def _is_commit(data: memoryview) -> bool | None:
    """What a control batch says; None if it is not the end of a transaction."""
    try:
        for record in decode_records(data, max_bytes=len(data)):
            kind = int.from_bytes((record.key or b"")[CONTROL_TYPE_AT : CONTROL_TYPE_AT + 2])
            if record.key is not None and kind in (ControlType.ABORT, ControlType.COMMIT):
                return kind == ControlType.COMMIT
    except BadBatch:
        return None
    return None
