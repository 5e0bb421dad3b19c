"""Ranges of offsets → splits: a split a segment, and more where its index allows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from barbicel.codecs.keratin_format import LOG_HEADER_BYTES
from barbicel.codecs.kfs import KFS_HEADER_BYTES
from barbicel.disk import Disk
from barbicel.errors import CorruptFile, StoreError
from barbicel.pipeline.source.log_shape import index_entries
from barbicel.pipeline.source.objects import open_object
from barbicel.pipeline.source.options import Options
from barbicel.pipeline.source.places import Place
from barbicel.pipeline.source.shapes import LogStretch, ObjectStretch, Shape, Stretch
from barbicel.pipeline.source.splits import LogSplit, ObjectSplit, Split
from barbicel.pipeline.source.stored_batch import lost

__all__ = ["OffsetRange", "record_starts", "split_ranges"]

I64 = npt.NDArray[np.int64]


class OffsetRange(NamedTuple):
    """What is to be read of one partition."""

    place: Place
    shape: Shape
    from_offset: int
    end_offset: int

    @property
    def size_bytes(self) -> int:
        return sum(stretch.size_bytes for stretch in self.shape.between(self.from_offset, self.end_offset))


def split_ranges(disk: Disk, ranges: Sequence[OffsetRange], options: Options) -> list[Split]:
    """All of the ranges, each offset that there is in exactly one split."""
    split_bytes = options.split_bytes
    if options.min_partitions:
        total_bytes = sum(wanted.size_bytes for wanted in ranges)
        split_bytes = max(1, min(split_bytes, total_bytes // options.min_partitions))
    return [split for wanted in ranges for split in _split_range(disk, wanted, options, split_bytes)]


def record_starts(disk: Disk, stretch: Stretch, options: Options) -> list[int]:
    """Offsets inside of a stretch at which it can be read from, as its index says; none if it has no use."""
    offsets = np.empty(0, np.int64)
    if isinstance(stretch, LogStretch):
        if disk.exists(stretch.path):
            offsets, _ = _log_index(disk, stretch)
    else:
        with suppress(CorruptFile, StoreError):
            offsets, _ = _object_index(disk, stretch, options)
    return [int(one) for one in offsets if stretch.base_offset < one < stretch.end_offset]


def _log_index(disk: Disk, stretch: LogStretch) -> tuple[I64, I64]:
    return index_entries(disk, f"{stretch.path.removesuffix('.log')}.idx", stretch.base_offset)


def _split_range(disk: Disk, wanted: OffsetRange, options: Options, split_bytes: int) -> Iterator[Split]:
    reached = wanted.from_offset
    for stretch in wanted.shape.between(wanted.from_offset, wanted.end_offset):
        if stretch.base_offset > reached and options.fail_on_data_loss:
            raise lost(reached, stretch.base_offset, wanted.place.directory)
        reached = stretch.end_offset
        if isinstance(stretch, LogStretch):
            yield from _split_log(disk, wanted, stretch, split_bytes)
        else:
            yield from _split_object(disk, wanted, stretch, options, split_bytes)


def _split_log(disk: Disk, wanted: OffsetRange, stretch: LogStretch, split_bytes: int) -> Iterator[Split]:
    first = max(wanted.from_offset, stretch.base_offset)
    end = min(wanted.end_offset, stretch.end_offset)
    offsets, positions = _log_index(disk, stretch)
    usable = positions < stretch.size_bytes
    start = (stretch.base_offset, LOG_HEADER_BYTES)
    cuts = _cuts(offsets[usable], positions[usable], start, first, end, split_bytes)
    place = wanted.place
    for (offset, position), (next_offset, _) in pairwise([*cuts, (end, 0)]):
        yield LogSplit(
            place.topic,
            place.partition,
            max(first, offset),
            next_offset,
            stretch,
            offset,
            position,
            place,
            wanted.shape.end_offset,
        )


def _split_object(
    disk: Disk, wanted: OffsetRange, stretch: ObjectStretch, options: Options, split_bytes: int
) -> Iterator[Split]:
    first = max(wanted.from_offset, stretch.base_offset)
    end = min(wanted.end_offset, stretch.end_offset)
    offsets = positions = np.empty(0, np.int64)
    if stretch.size_bytes > split_bytes:
        offsets, positions = _object_index(disk, stretch, options)
    cuts = _cuts(offsets, positions, (stretch.base_offset, KFS_HEADER_BYTES), first, end, split_bytes)
    # Not the list of all objects, which can be long.
    place = wanted.place._replace(objects=(stretch,) if wanted.place.objects else ())
    for (offset, _), (next_offset, _) in pairwise([*cuts, (end, 0)]):
        yield ObjectSplit(
            place.topic,
            place.partition,
            max(first, offset),
            next_offset,
            stretch,
            place,
            wanted.shape.end_offset,
        )


def _object_index(disk: Disk, stretch: ObjectStretch, options: Options) -> tuple[I64, I64]:
    """None of its entries if it is missing or damaged: then the object is one split."""
    with open_object(disk, stretch.store_url, stretch.key, options.store_options) as segment:
        index = None
        with suppress(CorruptFile):
            index = segment.read_index()
    if index is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.array(index.offsets, np.int64), np.array(index.positions, np.int64)


def _cuts(
    offsets: I64, positions: I64, start: tuple[int, int], first: int, end: int, split_bytes: int
) -> Iterator[tuple[int, int]]:
    """(offset, position) of the first record of each split, by the index. They are hints."""
    number = int(np.searchsorted(offsets, first, side="right")) - 1
    at = (int(offsets[number]), int(positions[number])) if number >= 0 else start
    while True:
        yield at
        number = int(np.searchsorted(positions, at[1] + split_bytes))
        if number >= len(positions) or offsets[number] >= end or offsets[number] <= first:
            return
        at = int(offsets[number]), int(positions[number])
