"""Logs and data directories as a server leaves them, and what the source reads of them, without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from pyspark.sql.types import StructType

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.codecs.kafka.record_batch import decode_header, stamp
from barbicel.codecs.topic_file import Topic, TopicState, encode_topic, render_id
from barbicel.keratin import Log, LogSettings
from barbicel.keratin import NewRecord as LogRecord
from barbicel.pipeline.source.arrow import KAFKA_SCHEMA
from barbicel.pipeline.source.batch_reader import BatchReader
from barbicel.pipeline.source.options import parse_options

__all__ = [
    "SMALL_SEGMENTS",
    "T",
    "append",
    "batch",
    "make_topic",
    "offsets_of",
    "read",
    "reader",
    "records",
    "rows_of",
]

T = 1_700_000_000_000
SMALL_SEGMENTS = LogSettings(segment_max_bytes=4096, index_stride_bytes=256, preallocate_max_bytes=0)


def records(count: int, first: int = 0, size: int = 20) -> list[NewRecord]:
    return [
        NewRecord(T + number, b"k%d" % number, b"v%d" % number + bytes(size))
        for number in range(first, first + count)
    ]


def batch(new: Sequence[NewRecord], codec: Codec = Codec.NONE, **more: Any) -> bytes:
    return build_batch(new, codec=codec, **more)


def append(log: Log, *batches: bytes) -> None:
    """As the server stores what a producer has sent."""
    for data in batches:
        stored = bytearray(data)
        header = decode_header(memoryview(stored))

        def put(offset: int, stored: bytearray = stored) -> None:
            stamp(stored, offset, 0)

        span = header.last_offset_delta + 1
        log.append([LogRecord(stored, timestamp_ms=max(0, header.max_timestamp), span=span, stamp=put)])


def make_topic(
    data: Path, name: str, partitions: int = 1, identity: int = 1, state: TopicState = TopicState.LIVE
) -> list[Path]:
    """A topic's directory; the directories of its logs, which are yet to be made."""
    topic = Topic(name, UUID(int=identity << 64, version=4), partitions, T, {}, state)
    directory = data / "topics" / f"{name}-{render_id(topic.id)}"
    directory.mkdir(parents=True)
    (directory / "topic.json").write_bytes(encode_topic(topic))
    return [directory / str(partition) for partition in range(partitions)]


def reader(path: Path | str, schema: StructType = KAFKA_SCHEMA, /, **options: str) -> BatchReader:
    return BatchReader(parse_options({"path": str(path), **options}), schema)


def rows_of(source: Any, splits: Iterable[Any]) -> list[dict[str, Any]]:
    return [row for split in splits for found in source.read(split) for row in found.to_pylist()]


def read(path: Path | str, schema: StructType = KAFKA_SCHEMA, /, **options: str) -> list[dict[str, Any]]:
    source = reader(path, schema, **options)
    return rows_of(source, source.partitions())


def offsets_of(rows: Iterable[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows]
