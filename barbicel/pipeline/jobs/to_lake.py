"""Topics into a lake: all that there is, then what comes, each record exactly once.

It is one stream whether it ends at what there is now or goes on. Spark's checkpoint says which offsets a
batch has, before it begins; the lake says what it has, with the batch itself. A kill at any moment, or a lost
checkpoint of an Iceberg table, repeats work and no rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from barbicel.pipeline.jobs.callbacks import check_callbacks
from barbicel.pipeline.jobs.checkpoints import Offsets, batch_end, batch_start, count_rows
from barbicel.pipeline.jobs.stores import (
    Store,
    connection_options,
    stream_records,
    topic_options,
    write_records,
)
from barbicel.pipeline.jobs.values import parse_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Lake", "LakeRules", "LakeStream", "start_stream"]


class Lake(Protocol):
    """Something that takes batches, each once."""

    @property
    def checkpoint(self) -> str: ...

    def stored(self) -> Offsets:
        """What it has for sure, whichever stream has brought it; rows below are not given to it again."""

    def add(self, batch: int, rows: DataFrame, end: Offsets) -> None:
        """On return the batch is there. It may be called again with the same batch."""

    def add_dead_letters(self, batch: int, rows: DataFrame) -> None: ...


@dataclass(frozen=True)
class LakeRules:
    topics: Sequence[str] = ()
    pattern: str | None = None
    # What a batch has at most, and how much a stream that goes on waits for, so that files are not tiny.
    max_rows: int = 4_000_000
    min_rows: int | None = None
    max_delay: str = "5m"
    # A file has at most so many rows, and as many as there are if they are fewer.
    rows_per_file: int = 1_000_000
    # A schema for values that are JSON, and a topic for those that are not; without one they are in the lake.
    value_schema: str | None = None
    dead_letter_topic: str | None = None
    dead_letter_servers: str | None = None
    fail_on_data_loss: bool = True
    # More of the source's: where tiered segments are, how to log in.
    reading: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> dict[str, str]:
        options = {
            **self.reading,
            **topic_options(self.topics, self.pattern),
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self.max_rows),
            "failOnDataLoss": str(self.fail_on_data_loss).lower(),
        }
        if self.min_rows is not None:
            options |= {"minOffsetsPerTrigger": str(self.min_rows), "maxTriggerDelay": self.max_delay}
        return options


def start_stream(
    spark: SparkSession, store: Store, lake: Lake, rules: LakeRules, every: str | None = None
) -> StreamingQuery:
    """Start it. Without `every` it ends at what there is now; with it (`30 seconds`) it goes on."""
    check_callbacks()
    records = stream_records(spark, store, rules.options())
    stream = LakeStream(spark, lake, rules)
    writer = records.writeStream.option("checkpointLocation", lake.checkpoint).foreachBatch(stream.add)
    trigger = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    return trigger.start()


class LakeStream:
    """What is done with each batch."""

    def __init__(self, spark: SparkSession, lake: Lake, rules: LakeRules) -> None:
        self._spark = spark
        self._lake = lake
        self._rules = rules

    def add(self, records: DataFrame, batch: int) -> None:
        checkpoint = self._lake.checkpoint
        start, end = batch_start(self._spark, checkpoint, batch), batch_end(self._spark, checkpoint, batch)
        stored = self._lake.stored()
        # By all partitions, those of which the batch has nothing too: a lake must not be given a batch again
        # that it has, as it writes it to the same place.
        if end and all(stored.get(key, 0) >= offset for key, offset in end.items()):
            return
        known = {key: offset for key, offset in stored.items() if start.get(key, 0) < offset}
        self._add(batch, self._sized(_without(records, known), start, end), end)

    def _add(self, batch: int, records: DataFrame, end: Offsets) -> None:
        if self._rules.value_schema is None:
            self._lake.add(batch, records, end)
            return
        # Read once: both halves come from it.
        records = records.persist()
        try:
            parsed = parse_values(records, self._rules.value_schema)
            # First, and again if the batch is: a dead letter may come twice, and is never lost.
            self._bury(batch, parsed.dead_letters)
            self._lake.add(batch, parsed.rows, end)
        finally:
            records.unpersist()

    def _bury(self, batch: int, rows: DataFrame) -> None:
        if rows.isEmpty():
            return
        topic, servers = self._rules.dead_letter_topic, self._rules.dead_letter_servers
        if topic is None or servers is None:
            self._lake.add_dead_letters(batch, rows)
        else:
            write_records(_letters(rows), servers, topic, connection_options(self._rules.reading))

    def _sized(self, records: DataFrame, start: Offsets, end: Offsets) -> DataFrame:
        """In no more pieces than files are wanted."""
        rows = min(count_rows(start, end), self._rules.max_rows)
        return records.coalesce(max(1, -(-rows // self._rules.rows_per_file)))


def _without(records: DataFrame, stored: Offsets) -> DataFrame:
    """What lies at or above these offsets."""
    from pyspark.sql import functions as f

    if not stored:
        return records
    known = [
        (f.col("topic") == topic) & (f.col("partition") == partition) & (f.col("offset") < offset)
        for (topic, partition), offset in stored.items()
    ]
    return records.where(~reduce(lambda left, right: left | right, known))


def _letters(rows: DataFrame) -> DataFrame:
    """Records as they were, with headers that say where from and why."""
    from pyspark.sql import functions as f

    def header(name: str, value: str) -> str:
        return f"named_struct('key', 'dead-letter-{name}', 'value', cast(cast({value} as string) as binary))"

    added = ", ".join(header(name, name) for name in ("reason", "topic", "partition", "offset"))
    headers = f.expr(f"concat(coalesce(headers, array()), array({added}))")
    return rows.select("key", "value", headers.alias("headers"))
