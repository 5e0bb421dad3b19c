"""The units of work that go to the executors: values that hold all that is needed to read them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from barbicel.pipeline.source.options import Options
from barbicel.pipeline.source.places import Place
from barbicel.pipeline.source.shapes import LogStretch, ObjectStretch

__all__ = ["LogSplit", "Nothing", "ObjectSplit", "ReadRules", "Split"]


@dataclass(frozen=True)
class ReadRules:
    """What holds for all splits of a query."""

    options: Options
    # Rows of a transaction without an end are passed over by a batch query; a stream must not lose them.
    is_stream: bool
    # Batches whose latest record is earlier need not be opened.
    from_timestamp_ms: int | None = None


@dataclass(frozen=True)
class Split(InputPartition):
    """The offsets from_offset up to end_offset of one partition, in one file or object."""

    topic: str
    partition: int
    from_offset: int
    end_offset: int


@dataclass(frozen=True)
class LogSplit(Split):
    """A part of a segment file. The hint says where to begin, if there is a record of that offset there."""

    stretch: LogStretch
    hint_offset: int
    hint_position: int
    place: Place
    # Where the log ends for this query.
    log_end_offset: int


@dataclass(frozen=True)
class ObjectSplit(Split):
    """A part of a .kfs object, or all of it."""

    stretch: ObjectStretch
    place: Place
    log_end_offset: int


@dataclass(frozen=True)
class Nothing(InputPartition):
    """Spark makes a partition of its own where there is none, and asks for its rows."""

    value: None = None
