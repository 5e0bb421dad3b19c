"""Whether a store has everything, or two stores the same: counts, offsets without gaps, checksums, digests.

Reading checks the CRC of every batch. A segment that cannot be read does not keep the others from being
looked at. Where two stores differ, only the blocks of offsets that differ are compared row by row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from barbicel.disk import RealDisk
from barbicel.errors import BarbicelError, offsets_text
from barbicel.pipeline.jobs.reasons import reason_of
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

__all__ = ["Difference", "StoreSurvey", "compare_stores", "survey_store"]

# Rows that differ and are named one by one, in all.
MAX_NAMED = 100_000
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


def survey_store(spark: SparkSession, store: Store, options: Mapping[str, str]) -> StoreSurvey:
    """Look at everything; only what a gateway as a whole does not answer is raised."""
    options = {**options, "failOnDataLoss": "false"}
    try:
        spans = planned_spans(spark, store, options)
        return StoreSurvey(survey_records(read_records(spark, store, options), spans))
    except Exception:
        if store.servers is not None:
            raise
    return _survey_one_by_one(spark, store, options)


def _survey_one_by_one(spark: SparkSession, store: Store, options: Mapping[str, str]) -> StoreSurvey:
    """Partition by partition, and one that cannot be read piece by piece."""
    from barbicel.pipeline.source.options import parse_options
    from barbicel.pipeline.source.places import find_places
    from barbicel.pipeline.source.tiered import survey_place

    disk, parsed, found = RealDisk(), parse_options({**store.options, **options}), StoreSurvey()
    for place in find_places(disk, parsed):
        looking = _Looking(spark, store, place.topic, place.partition, _how_to_read(options))
        try:
            shape = survey_place(disk, place, parsed)
        except BarbicelError as error:
            found.problems.append(f"{looking.name}: {error}")
            continue
        stretches = looking.look([(one.base_offset, one.end_offset) for one in shape.stretches])
        found.problems += looking.problems
        span = shape.start_offset, shape.end_offset
        if stretches or span[0] < span[1]:
            found.partitions.append(put_together(place.topic, place.partition, stretches, span))
    return found


def _how_to_read(options: Mapping[str, str]) -> dict[str, str]:
    """Without those that say what."""
    return {name: value for name, value in options.items() if not _WHAT.match(name)}


class _Looking:
    """At one partition, in ever smaller pieces where something cannot be read, down to a segment."""

    def __init__(
        self, spark: SparkSession, store: Store, topic: str, partition: int, options: Mapping[str, str]
    ) -> None:
        self._options = options
        self.name = f"{topic}-{partition}"
        self.problems: list[str] = []
        self._spark = spark
        self._store = store
        self._place = (topic, partition)

    def look(self, segments: Sequence[OffsetSpan]) -> list[OffsetStretch]:
        if not segments:
            return []
        try:
            return self._read(segments[0][0], segments[-1][1])
        except Exception as error:
            if len(segments) == 1:
                self.problems.append(f"{self.name}: in {offsets_text(*segments[0])}: {reason_of(error)}")
                return []
        middle = len(segments) // 2
        return [*self.look(segments[:middle]), *self.look(segments[middle:])]

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
    rows = both.select(*key, kind.alias("kind")).where("kind is not null").orderBy(*key).limit(MAX_NAMED)
    offsets: dict[tuple[str, int], dict[str, list[int]]] = {}
    for row in rows.collect():
        offsets.setdefault((row.topic, row.partition), {}).setdefault(row.kind, []).append(row.offset)
    return [
        Difference(
            *place, *(spans_of(kinds.get(kind, ())) for kind in ("only_left", "only_right", "differing"))
        )
        for place, kinds in sorted(offsets.items())
    ]
