"""On an executor: a split → its rows, in bounded memory.

Every byte that becomes a row was checked by a CRC. Whatever is wrong is an error that names the file, the
position and the offsets; no row is left out in silence.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import closing

from barbicel.codecs.kafka.columns import Columns, OpenedBatch, Wanted, decode_columns, open_batch
from barbicel.codecs.kafka.record_batch import BadBatch, Batch, BatchHeader
from barbicel.disk import Disk, RealDisk
from barbicel.errors import CorruptLog, DiskError, ObjectMissing, OffsetOutOfRange
from barbicel.pipeline.source.arrow import ArrowRows, RecordBatch
from barbicel.pipeline.source.segment_cursor import SegmentCursor
from barbicel.pipeline.source.splits import LogSplit, ObjectSplit, ReadRules
from barbicel.pipeline.source.splitting import OffsetRange, split_ranges
from barbicel.pipeline.source.stored_batch import GO_ON_HINT, StoredBatch
from barbicel.pipeline.source.stored_batches import object_batches
from barbicel.pipeline.source.tiered import survey_place
from barbicel.pipeline.source.transactions import Outcomes

__all__ = ["read_split"]

# One record batch for Spark, unless a single batch is larger.
CHUNK_ROWS = 1 << 16
CHUNK_BYTES = 16 << 20
# So much is read batch by batch before it is tried again whether a run of small ones comes.
BETWEEN_RUNS_BYTES = 64 << 20


def read_split(
    split: LogSplit | ObjectSplit, rules: ReadRules, rows: ArrowRows, disk: Disk | None = None
) -> Iterator[RecordBatch]:
    """The rows of a split.

    Raises CorruptLog, CorruptFile, OffsetsLost, OffsetOutOfRange, DiskError, StoreError.
    """
    for columns in _columns(disk or RealDisk(), split, rules, rows.wanted(split)):
        if columns.rows:
            yield rows.batch(columns, split)


def _columns(
    disk: Disk, split: LogSplit | ObjectSplit, rules: ReadRules, wanted: Wanted
) -> Iterator[Columns]:
    """From where they were when the query was planned, or else from where they are now."""
    try:
        yield from _planned(disk, split, rules, wanted)
    except (DiskError, ObjectMissing) as error:
        if isinstance(error, DiskError) and error.errno != errno.ENOENT:
            raise
        for found in _moved(disk, split, rules):
            yield from _planned(disk, found, rules, wanted)


def _planned(
    disk: Disk, split: LogSplit | ObjectSplit, rules: ReadRules, wanted: Wanted
) -> Iterator[Columns]:
    outcomes = Outcomes(disk, split, rules)
    if isinstance(split, ObjectSplit):
        batches = object_batches(disk, split.stretch, split.from_offset, split.end_offset, rules.options)
        yield from _decoded(split, _opened(split, rules, batches, outcomes), wanted)
        return
    with closing(disk.open(split.stretch.path, "read")) as file:
        hint = (split.hint_offset, split.hint_position)
        cursor = SegmentCursor(file, split.stretch, split.from_offset, split.end_offset, hint)
        while not cursor.is_done:
            run = cursor.run(wanted)
            if run is not None:
                yield run
                continue
            batches = cursor.batches(
                fail_on_data_loss=rules.options.fail_on_data_loss, max_bytes=BETWEEN_RUNS_BYTES
            )
            yield from _decoded(split, _opened(split, rules, batches, outcomes), wanted)


def _decoded(
    split: LogSplit | ObjectSplit, batches: Iterable[OpenedBatch], wanted: Wanted
) -> Iterator[Columns]:
    for chunk in _chunks(batches):
        try:
            yield decode_columns(chunk, wanted)
        except BadBatch as problem:
            raise _first_damage(split, chunk, wanted) from problem


def _first_damage(split: LogSplit | ObjectSplit, chunk: list[OpenedBatch], wanted: Wanted) -> CorruptLog:
    """Which of the batches it is."""
    for batch in chunk:
        try:
            decode_columns([batch], wanted)
        except BadBatch as problem:
            return _corrupt(split, batch.header.base_offset, batch.header.end_offset, problem.message)
    raise AssertionError("all of them together were damaged, and none of them is")


def _opened(
    split: LogSplit | ObjectSplit, rules: ReadRules, batches: Iterable[StoredBatch], outcomes: Outcomes
) -> Iterator[OpenedBatch]:
    """Those with rows that may be wanted, decompressed."""
    for header, data, position in batches:
        if header.is_control or _is_too_early(header, rules):
            continue
        if header.is_transactional and rules.options.read_committed and not outcomes.is_committed(header):
            continue
        try:
            yield open_batch(Batch(header, data), max_bytes=rules.options.max_batch_bytes)
        except BadBatch as problem:
            end = max(header.end_offset, header.base_offset + 1)
            raise _corrupt(split, header.base_offset, end, problem.message, position) from problem


def _is_too_early(header: BatchHeader, rules: ReadRules) -> bool:
    limit = rules.from_timestamp_ms
    return limit is not None and not header.understates_max_timestamp and header.max_timestamp < limit


def _chunks(batches: Iterable[OpenedBatch]) -> Iterator[list[OpenedBatch]]:
    """Together they have so many rows and bytes that the work on a chunk as a whole does not matter."""
    chunk: list[OpenedBatch] = []
    rows = size = 0
    for batch in batches:
        if chunk and (rows >= CHUNK_ROWS or size + len(batch.records) > CHUNK_BYTES):
            yield chunk
            chunk, rows, size = [], 0, 0
        chunk.append(batch)
        rows += batch.header.records_count
        size += len(batch.records)
    if chunk:
        yield chunk


def _moved(disk: Disk, split: LogSplit | ObjectSplit, rules: ReadRules) -> Iterator[LogSplit | ObjectSplit]:
    """A segment that is gone is in the store by now, or was given up."""
    shape, options = None, rules.options
    if isinstance(split, LogSplit):
        shape = survey_place(disk, split.place, options)
    if shape is None or shape.start_offset > split.from_offset:
        if options.fail_on_data_loss:
            start = split.end_offset if shape is None else shape.start_offset
            raise _given_up(split, start)
        if shape is None:
            return
    wanted = OffsetRange(split.place, shape, split.from_offset, split.end_offset)
    for found in split_ranges(disk, [wanted], options):
        assert isinstance(found, LogSplit | ObjectSplit)
        yield found


def _given_up(split: LogSplit | ObjectSplit, start_offset: int) -> OffsetOutOfRange:
    error = OffsetOutOfRange(split.from_offset, start_offset, split.log_end_offset, split.place.directory)
    error.hint = f"its segment was deleted while the query ran; {GO_ON_HINT}"
    return error


def _corrupt(
    split: LogSplit | ObjectSplit,
    first_offset: int,
    end_offset: int,
    reason: str,
    position: int | None = None,
) -> CorruptLog:
    where = split.stretch.where
    return CorruptLog(reason, first_offset=first_offset, end_offset=end_offset, path=where, position=position)
