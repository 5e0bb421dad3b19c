"""What the records of a log hold, counted. Every record is read for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barbicel.cli.offsets import OffsetRange, merge
from barbicel.codecs.keratin_format import LOG_HEADER_BYTES
from barbicel.codecs.keratin_record import Record
from barbicel.disk import Disk
from barbicel.keratin.examine import Run
from barbicel.keratin.layout import Layout
from barbicel.keratin.manifest import settings_of
from barbicel.keratin.plan import SegmentPlan
from barbicel.keratin.recovery import plan_recovery
from barbicel.keratin.walk import Walk

__all__ = ["Contents", "given_up_offsets", "read_contents"]


class Contents(NamedTuple):
    """What the sound records of a segment hold. Records of a loss count as `lost` and as nothing else."""

    base_offset: int
    records: int
    offsets: int
    payload_bytes: int
    first_timestamp_ms: int | None
    max_timestamp_ms: int | None
    lost: tuple[OffsetRange, ...]


def read_contents(disk: Disk, layout: Layout, segment: SegmentPlan) -> Contents:
    """Those of the sound stretches, so the plan must be a deep one."""
    return _read_runs(disk, layout, segment.base_offset, segment.runs)


def given_up_offsets(disk: Disk, layout: Layout) -> tuple[OffsetRange, ...]:
    """All that a sound log says is lost, whenever a repair wrote that down."""
    plan = plan_recovery(disk, layout, settings_of(disk, layout))
    lost: list[OffsetRange] = []
    for base_offset, end_offset, end_position in (segment[:3] for segment in plan.segments):
        whole = Run(LOG_HEADER_BYTES, end_position, base_offset, end_offset)
        lost += _read_runs(disk, layout, base_offset, [whole]).lost
    return merge(lost)


def _read_runs(disk: Disk, layout: Layout, base_offset: int, runs: Sequence[Run]) -> Contents:
    tally = _Tally()
    if runs:
        file = disk.open(layout.log(base_offset), "read")
        try:
            for run in runs:
                for record in Walk(file, run.position, run.end_position, run.first_offset):
                    tally.note(record)
        finally:
            file.close()
    return tally.contents(base_offset)


class _Tally:
    def __init__(self) -> None:
        self._records = self._offsets = self._payload_bytes = 0
        self._first_timestamp_ms: int | None = None
        self._max_timestamp_ms: int | None = None
        self._lost: list[OffsetRange] = []

    def note(self, record: Record) -> None:
        if record.lost:
            self._lost.append(OffsetRange(record.offset, record.end_offset))
            return
        self._records += 1
        self._offsets += record.span
        self._payload_bytes += len(record.payload)
        if self._first_timestamp_ms is None:
            self._first_timestamp_ms = record.timestamp_ms
        self._max_timestamp_ms = max(self._max_timestamp_ms or 0, record.timestamp_ms)

    def contents(self, base_offset: int) -> Contents:
        return Contents(
            base_offset,
            self._records,
            self._offsets,
            self._payload_bytes,
            self._first_timestamp_ms,
            self._max_timestamp_ms,
            merge(self._lost),
        )
