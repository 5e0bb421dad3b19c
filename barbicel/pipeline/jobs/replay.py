"""Stored records back into a topic, chosen by their offsets or by their times.

Records of a partition keep their order. They are appended at least once: a task that is lost is done again,
and what it had sent stays. Each carries a header that says where it comes from, so that whoever reads them
can tell. Timestamps are those of the replay; a Spark sink has no way to set them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barbicel.pipeline.jobs.stores import Store, write_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SOURCE_HEADER", "Chosen", "choose", "reading_options", "replay"]

SOURCE_HEADER = "replayed-from"


@dataclass(frozen=True)
class Chosen:
    """Which records; None is no bound. Ends are not included."""

    partitions: tuple[int, ...] = ()
    from_offset: int | None = None
    to_offset: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None


def reading_options(store: Store, chosen: Chosen) -> dict[str, str]:
    """What keeps a source from reading all of a topic. `choose` still has the last word."""
    options = {} if store.servers is not None else {"pushFilters": "true"}
    if chosen.from_ms is not None:
        # No record that is as late lies in front of the first one that is.
        options |= {
            "startingTimestamp": str(chosen.from_ms),
            "startingOffsetsByTimestampStrategy": "latest",
        }
    return options


def choose(records: DataFrame, chosen: Chosen) -> DataFrame:
    from pyspark.sql import functions as f

    offset, time = f.col("offset"), f.col("timestamp")
    if chosen.partitions:
        records = records.where(f.col("partition").isin(*chosen.partitions))
    for bound, condition in (
        (chosen.from_offset, lambda value: offset >= value),
        (chosen.to_offset, lambda value: offset < value),
        (chosen.from_ms, lambda value: time >= f.timestamp_millis(f.lit(value))),
        (chosen.to_ms, lambda value: time < f.timestamp_millis(f.lit(value))),
    ):
        if bound is not None:
            records = records.where(condition(bound))
    return records


def replay(
    records: DataFrame,
    servers: str,
    topic: str,
    *,
    keep_partitions: bool,
    options: Mapping[str, str] | None = None,
) -> None:
    """Append the records to a topic. With `keep_partitions` each goes to the number that it had."""
    from pyspark.sql import functions as f

    source = f.expr("concat(topic, '/', partition, '/', offset)").cast("binary")
    header = f.struct(f.lit(SOURCE_HEADER).alias("key"), source.alias("value"))
    # A partition is read in many pieces: only one task may write it.
    ordered = records.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    columns = [
        f.col("key"),
        f.col("value"),
        f.concat(f.coalesce(f.col("headers"), f.array()), f.array(header)).alias("headers"),
    ]
    if keep_partitions:
        columns.append(f.col("partition"))
    write_records(ordered.select(*columns), servers, topic, options)
