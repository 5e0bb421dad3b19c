"""What a stream's checkpoint says about a batch: up to which offsets it goes, and from where.

Spark writes it before a batch begins, so that a batch which is done again has the same offsets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Offsets",
    "batch_end",
    "batch_start",
    "count_rows",
    "merge_offsets",
    "parse_offsets",
    "render_offsets",
]

# (topic, partition) → the first offset that does not belong to it any more.
Offsets: TypeAlias = Mapping[tuple[str, int], int]


def batch_end(spark: SparkSession, checkpoint: str, batch: int) -> Offsets:
    """The end of a batch that has begun."""
    return parse_offsets(_last_line(spark, f"{checkpoint}/offsets/{batch}"))


def batch_start(spark: SparkSession, checkpoint: str, batch: int) -> Offsets:
    """The end of the batch before it; of the first one it is empty."""
    return batch_end(spark, checkpoint, batch - 1) if batch else {}


def _last_line(spark: SparkSession, path: str) -> str:
    # Spark reads every file system that a checkpoint can be on.
    lines = [row.value for row in spark.read.text(path).collect()]
    return str(lines[-1])


def parse_offsets(text: str) -> Offsets:
    """{"topic": {"0": 12}}; what has another form, as ids of topics, is left out."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in json.loads(text).items()
        for partition, offset in partitions.items()
        if partition.isdecimal() and isinstance(offset, int)
    }


def render_offsets(offsets: Offsets) -> str:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(found, sort_keys=True)


def merge_offsets(left: Offsets, right: Offsets) -> Offsets:
    """The farther one of each partition."""
    return {key: max(left.get(key, 0), right.get(key, 0)) for key in {*left, *right}}


def count_rows(start: Offsets, end: Offsets) -> int:
    """At most so many: of a partition that has no start it is not known where it begins."""
    return sum(offset - start.get(key, 0) for key, offset in end.items())
