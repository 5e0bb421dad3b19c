"""A batch query: the ranges of all partitions as they are now, cut into splits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from barbicel.disk import Disk, RealDisk
from barbicel.pipeline.source.arrow import ArrowRows, RecordBatch
from barbicel.pipeline.source.filters import Bounds, push_filters
from barbicel.pipeline.source.options import EARLIEST, OffsetSpec, Options
from barbicel.pipeline.source.places import Place, find_places
from barbicel.pipeline.source.reading import read_split
from barbicel.pipeline.source.resolving import resolve_end, resolve_start
from barbicel.pipeline.source.splits import LogSplit, Nothing, ObjectSplit, ReadRules
from barbicel.pipeline.source.splitting import OffsetRange, split_ranges
from barbicel.pipeline.source.tiered import survey_place
from barbicel.pipeline.source.times import first_batch_at

__all__ = ["BatchReader", "FilteringReader"]


class BatchReader(DataSourceReader):
    """What Spark asks of a batch query: `partitions` on the driver, `read` on the executors."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._rows = ArrowRows(schema)
        self._rules = ReadRules(options, is_stream=False)
        self._bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        return [*split_ranges(RealDisk(), self.ranges(), self._options)] or [Nothing()]

    def ranges(self) -> list[OffsetRange]:
        """What is to be read of each partition."""
        disk = RealDisk()
        places = find_places(disk, self._options)
        return [self._range(disk, place) for place in places if self._bounds.has(*place.key)]

    def _range(self, disk: Disk, place: Place) -> OffsetRange:
        options, bounds = self._options, self._bounds
        shape = survey_place(disk, place, options)
        first = resolve_start(disk, place, shape, options, OffsetSpec(EARLIEST))
        end = resolve_end(disk, place, shape, options)
        if bounds.from_timestamp_ms is not None:
            first = max(first, first_batch_at(disk, place, shape, bounds.from_timestamp_ms, options))
        return OffsetRange(place, shape, max(first, bounds.from_offset), min(end, bounds.end_offset))

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        if not isinstance(partition, LogSplit | ObjectSplit):
            return iter(())
        return read_split(partition, self._rules, self._rows)


class FilteringReader(BatchReader):
    """A batch query that takes filters.

    Spark 4.2 keeps what a DataFrame's last query has pushed down, and reads by it in that DataFrame's next
    queries too, whatever they ask for. So this is for those who say that theirs has one query.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        self._bounds, left = push_filters(filters, self._bounds)
        self._rules = replace(self._rules, from_timestamp_ms=self._bounds.from_timestamp_ms)
        return left
