"""Where a job reads records: a gateway, by Spark's Kafka connector, or files, by the direct source.

Both have Kafka's schema and the same options, so a job asks for topics and does not care which it is.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barbicel.errors import BarbicelError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "Store",
    "check_servers",
    "connection_options",
    "parse_store",
    "planned_spans",
    "read_records",
    "stream_records",
    "topic_options",
    "write_records",
]

_ADDRESS = re.compile(
    r"(?:kafka://)?(?P<servers>[A-Za-z0-9.\[\]:_-]+:[0-9]{1,5}(?:,[A-Za-z0-9.\[\]:_-]+:[0-9]{1,5})*)"
)
CONNECT_DEADLINE_S = 10
# A path that looks like an address is told by one of these.
_PATH_SIGNS = ("/", ".", "~")


class Store(NamedTuple):
    """`servers` of a gateway, or the `path` of a data directory, a log or .kfs files (a URL too)."""

    servers: str | None
    path: str | None

    @property
    def options(self) -> dict[str, str]:
        if self.servers is not None:
            return {"kafka.bootstrap.servers": self.servers}
        return {"path": self.path or ""}

    @property
    def format(self) -> str:
        return "kafka" if self.servers is not None else "barbicel"

    def __str__(self) -> str:
        return self.servers or self.path or ""


def parse_store(text: str) -> Store:
    """`HOST:PORT` is a gateway, all else a path."""
    found = _ADDRESS.fullmatch(text)
    if found is None or text.startswith(_PATH_SIGNS):
        return Store(None, text)
    return Store(found["servers"], None)


def check_servers(servers: str) -> None:
    """Raises BarbicelError if none of them takes a connection: Spark would find out in some minutes."""
    problems = []
    for address in servers.split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_DEADLINE_S).close()
            return
        except (OSError, OverflowError) as error:
            problems.append(f"{address}: {error}")
    hint = "give the port of its Kafka clients; a directory whose name looks like an address begins with ./"
    raise BarbicelError(f"no gateway is there: {'; '.join(problems)}", hint=hint)


def topic_options(topics: Sequence[str], pattern: str | None) -> dict[str, str]:
    """Raises BarbicelError unless topics are named in exactly one way."""
    if bool(topics) == (pattern is not None):
        raise BarbicelError("the topics are named by their names or by a pattern")
    return {"subscribe": ",".join(topics)} if topics else {"subscribePattern": pattern or ""}


def read_records(spark: SparkSession, store: Store, options: Mapping[str, str]) -> DataFrame:
    """Records in Kafka's schema, with headers."""
    reader = spark.read.format(store.format).options(**store.options)
    return reader.option("includeHeaders", "true").options(**options).load()


def stream_records(spark: SparkSession, store: Store, options: Mapping[str, str]) -> DataFrame:
    reader = spark.readStream.format(store.format).options(**store.options)
    return reader.option("includeHeaders", "true").options(**options).load()


def planned_spans(
    spark: SparkSession, store: Store, options: Mapping[str, str]
) -> dict[tuple[str, int], tuple[int, int]]:
    """(topic, partition) → the offsets that a query with these options is to read now, the end not included.

    A store says them before it is read, so that what it then does not give is known to be missing.
    """
    if store.servers is None:
        from barbicel.pipeline.source.arrow import KAFKA_SCHEMA
        from barbicel.pipeline.source.batch_reader import BatchReader
        from barbicel.pipeline.source.options import parse_options

        reader = BatchReader(parse_options({**store.options, **options}), KAFKA_SCHEMA)
        return {one.place.key: (one.from_offset, one.end_offset) for one in reader.ranges()}
    planned = _connector_plan(spark, store, options)
    unknown = [key for key, (first, _) in planned.items() if first < 0]
    earliest = _earliest(spark, store, options, unknown) if unknown else {}
    return {key: (earliest.get(key, first), end) for key, (first, end) in planned.items()}


def _connector_plan(
    spark: SparkSession, store: Store, options: Mapping[str, str]
) -> dict[tuple[str, int], tuple[int, int]]:
    """What the connector is going to read: its own plan knows every option that it has.

    Where it begins at the earliest offset it does not know that yet, and says -2.
    """
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for part in read_records(spark, store, options)._jdf.queryExecution().toRdd().partitions():
        piece = part.offsetRange()
        key, first, end = (piece.topic(), piece.partition()), piece.fromOffset(), piece.untilOffset()
        known = spans.get(key, (first, end))
        spans[key] = min(first, known[0]), max(end, known[1])
    return spans


def _earliest(
    spark: SparkSession, store: Store, options: Mapping[str, str], keys: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """By the client that the connector has, with the settings that it has."""
    jvm: Any = spark.sparkContext._jvm
    settings = jvm.java.util.HashMap()
    for name, value in connection_options({**store.options, **options}).items():
        settings.put(name.removeprefix("kafka."), value)
    for name in ("key.deserializer", "value.deserializer"):
        settings.put(name, "org.apache.kafka.common.serialization.ByteArrayDeserializer")
    wanted = jvm.java.util.ArrayList()
    for topic, partition in keys:
        wanted.add(jvm.org.apache.kafka.common.TopicPartition(topic, partition))
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
    try:
        found = consumer.beginningOffsets(wanted)
        return {key: found[place] for key, place in zip(keys, wanted, strict=True)}
    finally:
        consumer.close()


def connection_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those that say how to connect and to log in, for who writes to where it reads."""
    return {name: value for name, value in options.items() if name.lower().startswith("kafka.")}


def write_records(
    frame: DataFrame, servers: str, topic: str | None = None, options: Mapping[str, str] | None = None
) -> None:
    """Append rows to topics, at least once; without a topic each row names its own."""
    writer = frame.write.format("kafka").options(**(options or {}))
    writer = writer.option("kafka.bootstrap.servers", servers).option("includeHeaders", "true")
    (writer if topic is None else writer.option("topic", topic)).save()
