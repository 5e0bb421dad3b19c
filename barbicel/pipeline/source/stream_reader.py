"""A streaming query: offsets out of the log's durable end, so that a batch, once planned, can always be read
again with the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from barbicel.clock import Clock, wall_clock_ms
from barbicel.disk import Disk, RealDisk
from barbicel.pipeline.source.admission import MinimumWait, at_most, new_offsets
from barbicel.pipeline.source.arrow import ArrowRows, RecordBatch
from barbicel.pipeline.source.options import LATEST, OffsetSpec, Options
from barbicel.pipeline.source.places import NoSuchTopic, Place, find_places
from barbicel.pipeline.source.reading import read_split
from barbicel.pipeline.source.resolving import held_against, resolve_start
from barbicel.pipeline.source.shapes import Shape
from barbicel.pipeline.source.splits import LogSplit, ObjectSplit, ReadRules
from barbicel.pipeline.source.splitting import OffsetRange, split_ranges
from barbicel.pipeline.source.stream_offsets import StreamOffsets
from barbicel.pipeline.source.tiered import survey_place

__all__ = ["StreamReader"]

Key = tuple[str, int]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What Spark asks of a streaming query. All but `read` is called in one process on the driver."""

    def __init__(self, options: Options, schema: StructType, clock: Clock = wall_clock_ms) -> None:
        self._options = options
        self._rows = ArrowRows(schema)
        self._rules = ReadRules(options, is_stream=True)
        self._clock = clock
        self._wait = MinimumWait(options.max_trigger_delay_ms, clock())
        self._shapes: dict[Key, Shape] = {}
        # The ends that a query with Trigger.AvailableNow has to reach.
        self._target: Mapping[Key, int] | None = None

    # --- offsets ------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        disk, options = RealDisk(), self._options
        places = find_places(disk, options)
        default = OffsetSpec(LATEST)
        offsets = {
            place.key: resolve_start(disk, place, self._look(disk, place), options, default)
            for place in places
        }
        return StreamOffsets.of(places, offsets).render()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        disk, begun = RealDisk(), StreamOffsets.parse(start)
        places, ends = self._ends(disk, begun)
        first = {place.key: self._first(begun, place) for place in places}
        admitted = self._admitted(first, ends, limit)
        return start if admitted is None else StreamOffsets.of(places, admitted).render()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        places, ends = self._ends(RealDisk(), StreamOffsets())
        return StreamOffsets.of(places, ends).render()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._ends(RealDisk(), StreamOffsets())[1]

    def _ends(self, disk: Disk, begun: StreamOffsets) -> tuple[list[Place], dict[Key, int]]:
        places = find_places(disk, self._options)
        self._check_missing(places, begun)
        if self._target is not None:
            places = [place for place in places if place.key in self._target]
        ends = {}
        for place in places:
            end = self._look(disk, place, begun).end_offset
            if self._target is not None:
                end = min(end, self._target[place.key])
            # Never backwards: a batch that was planned must be the same when it is planned again.
            ends[place.key] = max(end, self._first(begun, place))
        return places, ends

    def _look(self, disk: Disk, place: Place, begun: StreamOffsets | None = None) -> Shape:
        first = None if begun is None else begun.offsets.get(place.key)
        shape = survey_place(disk, place, self._options, self._shapes.get(place.key), first)
        self._shapes[place.key] = shape
        return shape

    def _first(self, begun: StreamOffsets, place: Place) -> int:
        """Where the next batch begins. A partition that is new to the stream is read from its beginning."""
        shape = self._shapes[place.key]
        offset = begun.offsets.get(place.key)
        if offset is None:
            return shape.start_offset
        if not begun.is_same_topic(place):
            return self._after_recreation(place, shape)
        return held_against(shape, place, offset, self._options.fail_on_data_loss)

    def _after_recreation(self, place: Place, shape: Shape) -> int:
        if self._options.fail_on_data_loss:
            raise NoSuchTopic(
                f"topic {place.topic!r} was deleted and created again since the stream has read it",
                path=place.directory,
                hint="begin with a new checkpoint; failOnDataLoss=false reads the new one from its start",
            )
        return shape.start_offset

    def _check_missing(self, places: list[Place], begun: StreamOffsets) -> None:
        missing = sorted(begun.offsets.keys() - {place.key for place in places})
        if missing and self._options.fail_on_data_loss:
            topic, partition = missing[0]
            raise NoSuchTopic(
                f"partition {partition} of topic {topic!r} is gone, which the stream has read",
                path=self._options.path,
                hint="failOnDataLoss=false goes on without it",
            )

    def _admitted(
        self, first: Mapping[Key, int], ends: Mapping[Key, int], limit: ReadLimit
    ) -> Mapping[Key, int] | None:
        """None: wait for more."""
        minimum = self._options.min_offsets_per_trigger
        is_limited = not isinstance(limit, ReadAllAvailable)
        if minimum is not None and is_limited and self._target is None:
            count = new_offsets(first, ends)
            if not self._wait.is_over(count, minimum, self._clock()):
                return None
        return at_most(first, ends, limit.max_rows) if isinstance(limit, ReadMaxRows) else ends

    # --- rows ---------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        disk, begun, until = RealDisk(), StreamOffsets.parse(start), StreamOffsets.parse(end)
        ranges = []
        places = find_places(disk, self._options)
        self._check_missing(places, until)
        for place in places:
            # What took the place of a topic is not in a batch that was planned before: the next one has it.
            is_in = place.key in until.offsets
            if is_in and (until.is_same_topic(place) or self._options.fail_on_data_loss):
                shape = self._look(disk, place, begun)
                first = self._first(begun, place)
                last = held_against(shape, place, until.offsets[place.key], self._options.fail_on_data_loss)
                ranges.append(OffsetRange(place, shape, first, last))
        return [*split_ranges(disk, ranges, self._options)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        assert isinstance(partition, LogSplit | ObjectSplit)
        return read_split(partition, self._rules, self._rows)
