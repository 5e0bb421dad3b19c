"""Whether a store has everything, or two stores the same: counts, offsets without gaps, checksums, digests.

Reading checks the CRC of every batch. What cannot be read does not keep all else from being looked at: it is
searched for in halves, down to what lies between two entries of a segment's index. Where two stores differ,
only the blocks of offsets that differ are compared row by row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

from barbicel.disk import RealDisk
from barbicel.errors import BarbicelError, CorruptLog, offsets_text
from barbicel.pipeline.jobs.reasons import reason_of, untold_failures
from barbicel.pipeline.jobs.stores import Store, planned_spans, read_records
from barbicel.pipeline.jobs.surveys import (
    BLOCK_OFFSETS,
    OffsetSpan,
    OffsetStretch,
    PartitionSurvey,
    put_together,
    record_digest,
    spans_of,
    stretches_of,
    survey_records,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from barbicel.pipeline.source.places import Place
    from barbicel.pipeline.source.shapes import Shape, Stretch

__all__ = ["Difference", "StoreSurvey", "compare_stores", "survey_store"]

# Spans of offsets that differ and are named, in all.
MAX_NAMED = 100_000
# Reads inside of one segment, in search of its damage. One place in the longest segment takes 40 of them.
READS_INSIDE = 64
_WHAT = re.compile("(?i)subscribe|topic$|assign$|starting|ending|partition$")


@dataclass
class StoreSurvey:
    partitions: list[PartitionSurvey] = field(default_factory=list)
    # What cannot be read, each with its place.
    problems: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return not self.problems and all(one.is_whole for one in self.partitions)


@dataclass
class Difference:
    """Of one partition: offsets that only one of the two has, and those at which the records differ."""

    topic: str
    partition: int
    only_left: list[OffsetSpan] = field(default_factory=list)
    only_right: list[OffsetSpan] = field(default_factory=list)
    differing: list[OffsetSpan] = field(default_factory=list)
    # There are more than are named, here and in what would follow.
    is_cut: bool = False


def survey_store(spark: SparkSession, store: Store, options: Mapping[str, str]) -> StoreSurvey:
    """Look at everything; only what a gateway as a whole does not answer is raised."""
    options = {**options, "failOnDataLoss": "false"}
    if store.servers is not None:
        return _survey_at_once(spark, store, options)
    with untold_failures(spark):
        try:
            return _survey_at_once(spark, store, options)
        except Exception:  # whatever it is, it is told of the part that has it
            return _survey_one_by_one(spark, store, options)


def _survey_at_once(spark: SparkSession, store: Store, options: Mapping[str, str]) -> StoreSurvey:
    spans = planned_spans(spark, store, options)
    return StoreSurvey(survey_records(read_records(spark, store, options), spans))


def _survey_one_by_one(spark: SparkSession, store: Store, options: Mapping[str, str]) -> StoreSurvey:
    """Partition by partition, and one that cannot be read piece by piece."""
    from barbicel.pipeline.source.options import parse_options
    from barbicel.pipeline.source.places import find_places

    parsed, found = parse_options({**store.options, **options}), StoreSurvey()
    for place in find_places(RealDisk(), parsed):
        try:
            survey = _survey_place(spark, store, place, options, found.problems)
        except BarbicelError as error:
            found.problems.append(f"{place.topic}-{place.partition}: {error}")
            continue
        if survey is not None:
            found.partitions.append(survey)
    return found


def _survey_place(
    spark: SparkSession, store: Store, place: Place, options: Mapping[str, str], problems: list[str]
) -> PartitionSurvey | None:
    """Raises BarbicelError if it cannot even be told what there is of it."""
    from barbicel.pipeline.source.options import ReadUpTo, parse_options
    from barbicel.pipeline.source.tiered import survey_place

    disk, end_offset = RealDisk(), 0
    try:
        shape = survey_place(disk, place, parse_options({**store.options, **options}))
    except CorruptLog as error:
        # In the segment that is written to. The others are there all the same.
        problems.append(f"{place.topic}-{place.partition}: {error}")
        options, end_offset = {**options, "readUpTo": ReadUpTo.SEALED}, error.end_offset
        shape = survey_place(disk, place, parse_options({**store.options, **options}))
    looking = _Looking(spark, store, place, _how_to_read(options))
    stretches = looking.look_at(shape)
    problems += looking.problems
    span = shape.start_offset, max(shape.end_offset, end_offset)
    if not stretches and span[0] >= span[1]:
        return None
    return put_together(place.topic, place.partition, stretches, span)


def _how_to_read(options: Mapping[str, str]) -> dict[str, str]:
    """Without those that say what."""
    return {name: value for name, value in options.items() if not _WHAT.match(name)}


class _Looking:
    """At one partition, in ever smaller pieces where something cannot be read."""

    def __init__(self, spark: SparkSession, store: Store, place: Place, options: Mapping[str, str]) -> None:
        self.problems: list[str] = []
        self._options = options
        self._spark = spark
        self._store = store
        self._place = place.key
        self._reads_left = 0

    def look_at(self, shape: Shape) -> list[OffsetStretch]:
        """What there is. Whatever cannot be read is in `problems` then."""
        return self._look(shape.stretches)

    def _look(self, segments: Sequence[Stretch]) -> list[OffsetStretch]:
        if not segments:
            return []
        first, end = segments[0].base_offset, segments[-1].end_offset
        try:
            return self._read(first, end)
        except Exception as error:
            if len(segments) == 1:
                return self._look_inside(segments[0], reason_of(error))
        middle = len(segments) // 2
        return [*self._look(segments[:middle]), *self._look(segments[middle:])]

    def _look_inside(self, segment: Stretch, reason: str) -> list[OffsetStretch]:
        from barbicel.pipeline.source.options import parse_options
        from barbicel.pipeline.source.splitting import record_starts

        known = len(self.problems)
        options = parse_options({**self._store.options, **self._options})
        starts = [segment.base_offset, *record_starts(RealDisk(), segment, options), segment.end_offset]
        self._reads_left = READS_INSIDE
        found = self._halves([*pairwise(starts)], reason)
        if len(self.problems) == known:  # it is in what only a look at all of it sees, as its own sum
            self._tell((segment.base_offset, segment.end_offset), reason)
        return found

    def _halves(self, pieces: Sequence[OffsetSpan], reason: str) -> list[OffsetStretch]:
        """Of pieces of a segment that cannot be read all at once, for that reason."""
        if len(pieces) == 1 or self._reads_left < 2:
            self._tell((pieces[0][0], pieces[-1][1]), reason)
            return []
        found: list[OffsetStretch] = []
        middle = len(pieces) // 2
        for half in (pieces[:middle], pieces[middle:]):
            self._reads_left -= 1
            try:
                found += self._read(half[0][0], half[-1][1])
            except Exception as error:
                found += self._halves(half, reason_of(error))
        return found

    def _tell(self, span: OffsetSpan, reason: str) -> None:
        topic, partition = self._place
        self.problems.append(f"{topic}-{partition}: in {offsets_text(*span)}: {reason}")

    def _read(self, first: int, end: int) -> list[OffsetStretch]:
        topic, partition = self._place
        options = {
            **self._options,
            "assign": json.dumps({topic: [partition]}),
            "startingOffsets": json.dumps({topic: {str(partition): first}}),
            "endingOffsets": json.dumps({topic: {str(partition): end}}),
        }
        return stretches_of(read_records(self._spark, self._store, options)).get(self._place, [])


# --- two stores -----------------------------------------------------------------------------------------


def compare_stores(
    left: tuple[DataFrame, StoreSurvey], right: tuple[DataFrame, StoreSurvey]
) -> list[Difference]:
    """Where they differ. The frames are what was surveyed."""
    (left_rows, left_survey), (right_rows, right_survey) = left, right
    differing = _differing_blocks(left_survey.partitions, right_survey.partitions)
    if not differing:
        return []
    return _compare_rows(_in_blocks(left_rows, differing), _in_blocks(right_rows, differing))


def _differing_blocks(
    left: Sequence[PartitionSurvey], right: Sequence[PartitionSurvey]
) -> dict[tuple[str, int], list[int]]:
    blocks: list[dict[tuple[str, int], dict[int, tuple[int, str]]]] = [
        {(one.topic, one.partition): one.blocks for one in side} for side in (left, right)
    ]
    found = {}
    for key in sorted({*blocks[0], *blocks[1]}):
        ours, theirs = (side.get(key, {}) for side in blocks)
        if numbers := sorted(number for number in {*ours, *theirs} if ours.get(number) != theirs.get(number)):
            found[key] = numbers
    return found


def _in_blocks(rows: DataFrame, blocks: Mapping[tuple[str, int], Sequence[int]]) -> DataFrame:
    from pyspark.sql import functions as f

    def within(topic: str, partition: int, first: int, end: int) -> Column:
        is_partition = (f.col("topic") == topic) & (f.col("partition") == partition)
        return (
            is_partition
            & (f.col("offset") >= first * BLOCK_OFFSETS)
            & (f.col("offset") < end * BLOCK_OFFSETS)
        )

    wanted = [within(*key, *span) for key, numbers in blocks.items() for span in spans_of(numbers)]
    chosen = rows.where(reduce(lambda one, other: one | other, wanted))
    return chosen.select("topic", "partition", "offset", record_digest().alias("digest"))


def _compare_rows(left: DataFrame, right: DataFrame) -> list[Difference]:
    from pyspark.sql import functions as f

    key = ["topic", "partition", "offset"]
    both = left.withColumnRenamed("digest", "left").join(
        right.withColumnRenamed("digest", "right"), key, "full"
    )
    kind = (
        f.when(f.col("right").isNull(), "only_left")
        .when(f.col("left").isNull(), "only_right")
        .when(f.col("left") != f.col("right"), "differing")
    )
    rows = both.select(*key, kind.alias("kind")).where("kind is not null")
    found = _spans(rows).orderBy("topic", "partition", "first").limit(MAX_NAMED + 1).collect()
    differences: dict[tuple[str, int], Difference] = {}
    for row in found[:MAX_NAMED]:
        place = row.topic, row.partition
        difference = differences.setdefault(place, Difference(*place))
        getattr(difference, row.kind).append((row.first, row.end))
    named = [*differences.values()]
    if len(found) > MAX_NAMED:
        named[-1].is_cut = True
    return named


def _spans(rows: DataFrame) -> DataFrame:
    """Offsets that follow each other as one row, from the first up to and without the end."""
    from pyspark.sql import functions as f
    from pyspark.sql.window import Window

    group = ["topic", "partition", "kind"]
    # The same for all that follow each other.
    run = f.col("offset") - f.dense_rank().over(Window.partitionBy(*group).orderBy("offset"))
    spans = rows.withColumn("run", run).groupBy(*group, "run")
    return spans.agg(f.min("offset").alias("first"), (f.max("offset") + 1).alias("end"))
