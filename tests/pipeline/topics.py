"""Topics as Spark's users have them: every codec, keys, nulls, headers, and what Kestrel's clients put."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, Row, SparkSession

from tests.support.gateway import Gateway

__all__ = [
    "CODECS",
    "Sent",
    "create_topic",
    "delete_topic",
    "every_codec",
    "kafka",
    "put_items",
    "rows",
    "send",
    "sent_rows",
    "trim",
]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DEADLINE_S = 30
FIRST_MS = 1_700_000_000_000


class Sent(NamedTuple):
    """A record as a producer has sent it; it compares with a row of Spark's."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


def create_topic(gateway: Gateway, topic: str, partitions: int = 3, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    named = {name.replace("_", "."): value for name, value in settings.items()}
    created = admin.create_topics([NewTopic(topic, partitions, 1, config=named)])
    created[topic].result(DEADLINE_S)


def delete_topic(gateway: Gateway, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    deleted = admin.delete_topics([topic])
    deleted[topic].result(DEADLINE_S)


def send(gateway: Gateway, topic: str, records: Iterable[Sent], codec: str = "none") -> None:
    """On return all of them are stored, in order within each partition."""
    producer = Producer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 50,
        }
    )
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )
    assert producer.flush(DEADLINE_S) == 0


def every_codec(
    gateway: Gateway, topic: str, each: int = 20, partitions: int = 3, *, is_new: bool = True
) -> list[Sent]:
    """Records of every codec, one batch or more of each in every partition."""
    if is_new:
        create_topic(gateway, topic, partitions)
    sent: list[Sent] = []
    for turn, codec in enumerate(CODECS):
        records = [
            Sent(
                number % partitions,
                None if number % 4 == 0 else f"key {number}".encode(),
                None if number % 7 == 3 else f"{codec} {number} ".encode() * 5,
                FIRST_MS + turn * 1000 + number,
                (("codec", codec.encode()), ("empty", b""), ("null", None)) if number % 2 else (),
            )
            for number in range(each * partitions)
        ]
        send(gateway, topic, records, codec)
        sent += records
    return sent


def put_items(gateway: Gateway, queue: str, items: Sequence[bytes]) -> None:
    """By Kestrel's protocol."""
    address = (gateway.host, gateway.kestrel_port)
    with socket.create_connection(address, DEADLINE_S) as connection, connection.makefile("rb") as answers:
        for item in items:
            connection.sendall(f"set {queue} 0 0 {len(item)}\r\n".encode() + item + b"\r\n")
            assert answers.readline() == b"STORED\r\n"


def trim(gateway: Gateway, topic: str, partition: int, offset: int) -> None:
    """The partition begins at this offset from now on."""
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    asked = TopicPartition(topic, partition, offset)
    admin.delete_records([asked])[asked].result(DEADLINE_S)


def kafka(spark: SparkSession, gateway: Gateway, **options: Any) -> DataFrame:
    """A batch query; names of options with two underscores for each dot."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", gateway.bootstrap)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.load()


def rows(frame: DataFrame) -> list[Sent]:
    """What a query has, by partition and offset; headers if it has them."""
    return sent_rows(frame.collect())


def sent_rows(found: Iterable[Row]) -> list[Sent]:
    """Rows of Kafka's schema as what was sent, by topic, partition and offset."""
    return [
        Sent(
            row.partition,
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            round(row.timestamp.timestamp() * 1000),
            tuple(
                (one.key, None if one.value is None else bytes(one.value))
                for one in (row.headers if "headers" in row else None) or ()
            ),
        )
        for row in sorted(found, key=lambda row: (row.topic, row.partition, row.offset))
    ]
