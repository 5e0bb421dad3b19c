"""What a store has, partition by partition: which offsets, which are missing or there twice, and a digest of
it.

Each task turns the rows it reads into stretches of offsets that follow each other, with their sums. Nothing
is shuffled and nothing sorted: rows come in order within a task. The driver puts the stretches together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from barbicel.pipeline.digest import (
    WORDS,
    add_digests,
    digest_words,
    headers_field,
    render_digest,
    row_digest,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = [
    "BLOCK_OFFSETS",
    "OffsetSpan",
    "OffsetStretch",
    "PartitionSurvey",
    "put_together",
    "record_digest",
    "spans_of",
    "stretches_of",
    "survey_records",
]

# The digest is also known of every so many offsets: where two stores differ is found without comparing rows.
BLOCK_OFFSETS = 1 << 16

# From, and up to but not including.
OffsetSpan: TypeAlias = tuple[int, int]

_WORD_COLUMNS = [f"word{number}" for number in range(WORDS)]
STRETCH_SCHEMA = "topic string, partition int, first long, end long, " + ", ".join(
    f"{name} decimal(20)" for name in _WORD_COLUMNS
)


class OffsetStretch(NamedTuple):
    """Offsets that follow each other in one block."""

    first: int
    end: int
    words: tuple[int, ...]


@dataclass
class PartitionSurvey:
    topic: str
    partition: int
    first_offset: int = 0
    end_offset: int = 0
    records: int = 0
    digest: str = ""
    missing: list[OffsetSpan] = field(default_factory=list)
    repeated: list[OffsetSpan] = field(default_factory=list)
    # Number of a block → its records and their digest.
    blocks: dict[int, tuple[int, str]] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        return not self.missing and not self.repeated


def record_digest() -> Column:
    """Of all that a record has beside its place."""
    from pyspark.sql import functions as f

    def text(column: Column) -> Column:
        return column.cast("string").cast("binary")

    return row_digest(
        [
            f.col("key"),
            f.col("value"),
            text(f.unix_millis("timestamp")),
            text(f.col("timestampType")),
            headers_field(f.col("headers")),
        ]
    )


def survey_records(
    frame: DataFrame, spans: Mapping[tuple[str, int], OffsetSpan] | None = None
) -> list[PartitionSurvey]:
    """Of every partition that has a record, or should have, by topic and partition.

    The spans say which offsets there should be; without them nothing is known to be missing at the ends.
    """
    found, wanted = stretches_of(frame), spans or {}
    places = sorted({*found, *(place for place, (first, end) in wanted.items() if first < end)})
    return [put_together(*place, found.get(place, ()), wanted.get(place)) for place in places]


def stretches_of(frame: DataFrame) -> dict[tuple[str, int], list[OffsetStretch]]:
    """(topic, partition) → its stretches, sorted."""
    rows = frame.select("topic", "partition", "offset", record_digest().alias("digest"))
    found = sorted(tuple(row) for row in rows.mapInArrow(_stretches, STRETCH_SCHEMA).collect())
    return {
        place: [OffsetStretch(row[2], row[3], tuple(map(int, row[4:]))) for row in stretches]
        for place, stretches in groupby(found, key=lambda row: (row[0], row[1]))
    }


def put_together(
    topic: str, partition: int, stretches: Sequence[OffsetStretch], span: OffsetSpan | None = None
) -> PartitionSurvey:
    """What sorted stretches are, of which there is at least one, or a span of what there should be."""
    first, end = span or (stretches[0].first, stretches[0].first)
    first = min(first, stretches[0].first) if stretches else first
    survey = PartitionSurvey(topic, partition, first, first)
    by_block: dict[int, list[OffsetStretch]] = {}
    for stretch in stretches:
        if stretch.first > survey.end_offset:
            survey.missing.append((survey.end_offset, stretch.first))
        elif stretch.first < survey.end_offset:
            survey.repeated.append((stretch.first, min(stretch.end, survey.end_offset)))
        survey.end_offset = max(survey.end_offset, stretch.end)
        survey.records += stretch.end - stretch.first
        by_block.setdefault(stretch.first // BLOCK_OFFSETS, []).append(stretch)
    if end > survey.end_offset:
        survey.missing.append((survey.end_offset, end))
        survey.end_offset = end
    survey.digest = render_digest(add_digests(one.words for one in stretches))
    for block, members in by_block.items():
        records = sum(one.end - one.first for one in members)
        survey.blocks[block] = (records, render_digest(add_digests(one.words for one in members)))
    survey.missing, survey.repeated = _joined(survey.missing), _joined(survey.repeated)
    return survey


def _joined(spans: Iterable[OffsetSpan]) -> list[OffsetSpan]:
    """Those that touch as one."""
    joined: list[OffsetSpan] = []
    for first, end in spans:
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    return joined


def spans_of(offsets: Iterable[int]) -> list[OffsetSpan]:
    """Sorted offsets as the fewest spans."""
    return _joined((offset, offset + 1) for offset in offsets)


# --- in the workers -------------------------------------------------------------------------------------


def _stretches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow.compute as pc

    for batch in batches:
        pairs = {*zip(batch.column("topic").to_pylist(), batch.column("partition").to_pylist(), strict=True)}
        for topic, partition in sorted(pairs):
            is_here = pc.and_(
                pc.equal(batch.column("topic"), topic), pc.equal(batch.column("partition"), partition)
            )
            yield _stretch_batch(topic, partition, batch.filter(is_here))


def _stretch_batch(topic: str, partition: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    offsets = rows.column("offset").to_numpy(zero_copy_only=False)
    is_break = (np.diff(offsets) != 1) | (np.diff(offsets // BLOCK_OFFSETS) != 0)
    starts = np.concatenate(([0], np.flatnonzero(is_break) + 1))
    ends = np.concatenate((starts[1:], [len(offsets)])) - 1
    sums = np.add.reduceat(digest_words(rows.column("digest")), starts, axis=0)
    columns = {
        "topic": pa.array([topic] * len(starts), pa.string()),
        "partition": pa.array([partition] * len(starts), pa.int32()),
        "first": pa.array(offsets[starts], pa.int64()),
        "end": pa.array(offsets[ends] + 1, pa.int64()),
    }
    for number, name in enumerate(_WORD_COLUMNS):
        columns[name] = pa.array(sums[:, number].tolist(), pa.decimal128(20))
    return pa.RecordBatch.from_pydict(columns)
