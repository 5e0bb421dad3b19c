"""From a time to an offset, as Kafka's ListOffsets answers it: the first record at or after the time."""

from __future__ import annotations

from collections.abc import Iterator

from barbicel.codecs.kafka.records import find_timestamp
from barbicel.disk import Disk
from barbicel.keratin import Log
from barbicel.pipeline.source.options import Options
from barbicel.pipeline.source.places import Place
from barbicel.pipeline.source.shapes import LogStretch, ObjectStretch, Shape
from barbicel.pipeline.source.stored_batch import StoredBatch
from barbicel.pipeline.source.stored_batches import log_batches, object_batches

__all__ = ["first_batch_at", "first_offset_at"]


def first_offset_at(
    disk: Disk, place: Place, shape: Shape, timestamp_ms: int, options: Options
) -> int | None:
    """None if every record is earlier. Raises CorruptLog, CorruptFile, BadBatch, StoreError."""
    for _, data, _ in _late_batches(disk, place, shape, timestamp_ms, options):
        found = find_timestamp(
            data, timestamp_ms, max_bytes=options.max_batch_bytes, from_offset=shape.start_offset
        )
        if found is not None:
            return found.offset if found.offset < shape.end_offset else None
    return None


def first_batch_at(disk: Disk, place: Place, shape: Shape, timestamp_ms: int, options: Options) -> int:
    """An offset below which every record is earlier, found without opening a batch."""
    first = next(_late_batches(disk, place, shape, timestamp_ms, options), None)
    return shape.end_offset if first is None else max(first.header.base_offset, shape.start_offset)


def _late_batches(
    disk: Disk, place: Place, shape: Shape, timestamp_ms: int, options: Options
) -> Iterator[StoredBatch]:
    """Those that may have a record as late as that, in order."""
    for batch in _batches(disk, place, shape, timestamp_ms, options):
        header = batch.header
        if header.is_control or header.end_offset <= shape.start_offset:
            continue
        if header.max_timestamp >= timestamp_ms or header.understates_max_timestamp:
            yield batch


def _batches(
    disk: Disk, place: Place, shape: Shape, timestamp_ms: int, options: Options
) -> Iterator[StoredBatch]:
    for stretch in shape.stretches:
        if isinstance(stretch, ObjectStretch):
            latest = stretch.max_timestamp_ms
            if latest is None or latest >= timestamp_ms:
                yield from object_batches(disk, stretch, stretch.base_offset, stretch.end_offset, options)
    local = [stretch for stretch in shape.stretches if isinstance(stretch, LogStretch)]
    if local:
        yield from _from_time_index(disk, place, local, timestamp_ms)


def _from_time_index(
    disk: Disk, place: Place, stretches: list[LogStretch], timestamp_ms: int
) -> Iterator[StoredBatch]:
    """The log has an index of times, which says where to begin."""
    with Log.open(place.directory, disk=disk, read_only=True) as log:
        hit = log.offset_for_time(timestamp_ms)
    for stretch in stretches:
        if hit is not None and stretch.base_offset < stretch.end_offset and hit.offset < stretch.end_offset:
            first = max(hit.offset, stretch.base_offset)
            yield from log_batches(disk, stretch, first, stretch.end_offset)
