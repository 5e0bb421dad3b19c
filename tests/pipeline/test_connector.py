"""Spark's Kafka connector, unmodified, in batches: what it reads and writes is what is in the topic."""

from __future__ import annotations

import json
from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.pipeline.topics import (
    CODECS,
    FIRST_MS,
    Sent,
    create_topic,
    every_codec,
    kafka,
    put_items,
    rows,
    send,
    sent_rows,
    trim,
)
from tests.support.gateway import Gateway

TOPIC = "spark.every-codec"


def in_order(sent: list[Sent]) -> list[Sent]:
    """As the topic has them: partition after partition."""
    return sorted(sent, key=lambda one: one.partition)


@pytest.fixture(scope="module")
def sent(gateway: Gateway) -> list[Sent]:
    return in_order(every_codec(gateway, TOPIC))


def test_every_codec_with_keys_nulls_and_headers(
    spark: SparkSession, gateway: Gateway, sent: list[Sent]
) -> None:
    frame = kafka(spark, gateway, subscribe=TOPIC, includeHeaders="true")
    assert rows(frame) == sent
    kept = {row.timestampType for row in frame.select("timestampType").distinct().collect()}
    assert kept == {0}
    assert [(name, kind) for name, kind in frame.dtypes] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]


def test_offsets_are_those_of_the_log(spark: SparkSession, gateway: Gateway, sent: list[Sent]) -> None:
    found = kafka(spark, gateway, subscribe=TOPIC).groupBy("partition")
    counted = found.agg(f.min("offset"), f.max("offset"), f.count("*")).collect()
    each = len(sent) // 3
    assert sorted(tuple(row) for row in counted) == [(number, 0, each - 1, each) for number in range(3)]


WAYS: list[dict[str, str]] = [
    {"subscribe": TOPIC},
    {"subscribePattern": r"spark\.every.*"},
    {"assign": json.dumps({TOPIC: [0, 1, 2]})},
    {"subscribe": TOPIC, "startingOffsets": "earliest", "endingOffsets": "latest"},
    {"subscribe": TOPIC, "minPartitions": "9"},
    {"subscribe": TOPIC, "kafka__isolation__level": "read_committed"},
    {"subscribe": TOPIC, "groupIdPrefix": "reports", "failOnDataLoss": "false"},
    {"subscribe": TOPIC, "kafka__group__id": "a-group-of-its-own"},
    {"subscribe": TOPIC, "kafka__max__poll__records": "7", "kafka__max__partition__fetch__bytes": "512"},
]


def by_query(spark: SparkSession, gateway: Gateway, queries: list[dict[str, str]]) -> list[list[Sent]]:
    """What each of these options finds, by one job: a job of its own for each would take far longer."""
    frames = [
        kafka(spark, gateway, **options).withColumn("query", f.lit(number))
        for number, options in enumerate(queries)
    ]
    found = reduce(DataFrame.union, frames).collect()
    return [sent_rows(row for row in found if row.query == number) for number in range(len(queries))]


def test_ways_to_name_all_of_it(spark: SparkSession, gateway: Gateway, sent: list[Sent]) -> None:
    without_headers = [one._replace(headers=()) for one in sent]
    for options, found in zip(WAYS, by_query(spark, gateway, WAYS), strict=True):
        assert found == without_headers, options


def test_offsets_by_partition(spark: SparkSession, gateway: Gateway, sent: list[Sent]) -> None:
    """-2 is the first offset there is, -1 the end."""
    frame = kafka(
        spark,
        gateway,
        assign=json.dumps({TOPIC: [0, 1]}),
        startingOffsets=json.dumps({TOPIC: {"0": 10, "1": -2}}),
        endingOffsets=json.dumps({TOPIC: {"0": -1, "1": 4}}),
    )
    each = len(sent) // 3
    assert [row.offset for row in frame.orderBy("partition", "offset").collect()] == [
        *range(10, each),
        *range(4),
    ]


BY_PARTITION = json.dumps({TOPIC: {"0": FIRST_MS + 2000, "1": FIRST_MS + 3000, "2": FIRST_MS + 4000}})


# Options, and where each partition begins by them.
BY_TIME: list[tuple[dict[str, str], dict[int, int]]] = [
    ({"startingTimestamp": str(FIRST_MS + 3000)}, {0: 3000, 1: 3000, 2: 3000}),
    ({"startingOffsetsByTimestamp": BY_PARTITION}, {0: 2000, 1: 3000, 2: 4000}),
    # No record is that young.
    (
        {"startingTimestamp": str(FIRST_MS + 10**9), "startingOffsetsByTimestampStrategy": "latest"},
        {0: 10**9, 1: 10**9, 2: 10**9},
    ),
]


def test_by_time(spark: SparkSession, gateway: Gateway, sent: list[Sent]) -> None:
    queries = [{"subscribe": TOPIC, **options} for options, _ in BY_TIME]
    up_to = {"subscribe": TOPIC, "endingTimestamp": str(FIRST_MS + 1000)}
    *by_start, by_end = by_query(spark, gateway, [*queries, up_to])
    bare = [one._replace(headers=()) for one in sent]
    for (options, first_ms), found in zip(BY_TIME, by_start, strict=True):
        assert found == [one for one in bare if one.timestamp_ms >= FIRST_MS + first_ms[one.partition]], (
            options
        )
    assert by_end == [one for one in bare if one.timestamp_ms < FIRST_MS + 1000]


def test_what_kestrel_clients_have_put(spark: SparkSession, gateway: Gateway) -> None:
    items = [f"item {number}".encode() for number in range(50)]
    put_items(gateway, "thumbnails", items)
    frame = kafka(spark, gateway, subscribe="thumbnails", includeHeaders="true")
    assert [one.value for one in rows(frame)] == items


# --- writing --------------------------------------------------------------------------------------------


def written(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).select(
        f.when(f.col("id") % 3 > 0, f.concat(f.lit("key "), f.col("id")).cast("binary")).alias("key"),
        f.when(f.col("id") % 5 > 0, f.concat(f.lit("value "), f.col("id")).cast("binary")).alias("value"),
        (f.col("id") % 2).cast("int").alias("partition"),
        f.array(f.struct(f.lit("by").alias("key"), f.lit(b"spark").alias("value"))).alias("headers"),
    )


def test_batches_are_written(spark: SparkSession, gateway: Gateway) -> None:
    topics = {codec: f"spark.written.{codec}" for codec in CODECS}
    for codec, topic in topics.items():
        create_topic(gateway, topic, 2)
        writer = written(spark, 60).write.format("kafka").option("kafka.bootstrap.servers", gateway.bootstrap)
        writer = writer.option("topic", topic).option("kafka.compression.type", codec)
        writer.option("includeHeaders", "true").save()
    expected = {
        (
            number % 2,
            f"key {number}".encode() if number % 3 else None,
            f"value {number}".encode() if number % 5 else None,
            (("by", b"spark"),),
        )
        for number in range(60)
    }
    found = kafka(spark, gateway, subscribe=",".join(topics.values()), includeHeaders="true").collect()
    for topic in topics.values():
        of_topic = sent_rows(row for row in found if row.topic == topic)
        assert len(of_topic) == 60
        assert {(one.partition, one.key, one.value, one.headers) for one in of_topic} == expected, topic


def test_rows_may_name_their_topic(spark: SparkSession, gateway: Gateway) -> None:
    """Topics that there are not yet are made, as by any producer."""
    frame = spark.range(20).select(
        f.concat(f.lit("spark.named."), f.col("id") % 2).alias("topic"),
        f.col("id").cast("string").alias("value"),
    )
    frame.write.format("kafka").option("kafka.bootstrap.servers", gateway.bootstrap).save()
    for number in range(2):
        found = rows(kafka(spark, gateway, subscribe=f"spark.named.{number}"))
        assert sorted(int(one.value or b"") for one in found) == list(range(number, 20, 2))


# --- what is missing ------------------------------------------------------------------------------------


def test_offsets_that_were_trimmed_fail_the_query_or_are_left_out(
    spark: SparkSession, gateway: Gateway
) -> None:
    topic = "spark.trimmed"
    create_topic(gateway, topic, 1)
    send(gateway, topic, [Sent(0, None, b"%d" % number, FIRST_MS) for number in range(100)])
    trim(gateway, topic, 0, 40)
    options = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 10}})}
    with pytest.raises(Exception, match="(?i)data.?loss|out of range|missing offsets|failOnDataLoss"):
        kafka(spark, gateway, **options).collect()
    found = rows(kafka(spark, gateway, failOnDataLoss="false", **options))
    assert [int(one.value or b"") for one in found] == list(range(40, 100))


def test_a_topic_that_is_not_there_fails_the_query(spark: SparkSession, gateway: Gateway) -> None:
    with pytest.raises(Exception, match="UnknownTopicOrPartitionException"):
        kafka(spark, gateway, assign=json.dumps({"spark.nobody-made-it": [0]})).collect()
