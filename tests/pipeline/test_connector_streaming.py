"""Spark's Kafka connector, unmodified, in streams: every record once, whatever stops a query in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from tests.pipeline.topics import (
    FIRST_MS,
    Sent,
    create_topic,
    delete_topic,
    every_codec,
    kafka,
    rows,
    send,
    trim,
)
from tests.support.gateway import Gateway

DEADLINE_S = 60
POLL_S = 0.05


def stream(spark: SparkSession, gateway: Gateway, **options: Any) -> DataStreamReader:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", gateway.bootstrap)
    for name, value in {"startingOffsets": "earliest", **options}.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader


def to_parquet(frame: DataFrame, directory: Path, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    return writer.option("path", str(directory / "rows")).trigger(**trigger).start()


def drain(frame: DataFrame, directory: Path) -> StreamingQuery:
    """All that there is now; on return it is written."""
    query = to_parquet(frame, directory, availableNow=True)
    assert query.awaitTermination(DEADLINE_S), query.status
    return query


def values(spark: SparkSession, directory: Path) -> list[int]:
    return sorted(int(row.value) for row in spark.read.parquet(str(directory / "rows")).collect())


def numbered(first: int, end: int, partitions: int = 2) -> list[Sent]:
    return [
        Sent(number % partitions, None, b"%d" % number, FIRST_MS + number) for number in range(first, end)
    ]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(POLL_S)


def test_available_now_reads_every_codec_in_bounded_batches(
    spark: SparkSession, gateway: Gateway, tmp_path: Path
) -> None:
    sent = every_codec(gateway, "stream.every-codec")
    frame = stream(
        spark, gateway, subscribe="stream.every-codec", includeHeaders="true", maxOffsetsPerTrigger=90
    )
    query = drain(frame.load(), tmp_path)
    found = rows(spark.read.parquet(str(tmp_path / "rows")))
    assert found == sorted(sent, key=lambda one: one.partition)
    sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert sum(sizes) == len(sent)
    assert max(sizes) <= 90


def test_a_second_run_goes_on_where_the_first_has_stopped(
    spark: SparkSession, gateway: Gateway, tmp_path: Path
) -> None:
    topic = "stream.resumed"
    create_topic(gateway, topic, 2)
    for first in (0, 70, 100):
        send(gateway, topic, numbered(first, first + 40), "lz4")
        drain(stream(spark, gateway, subscribe=topic).load(), tmp_path)
    expected = [*range(40), *range(70, 110), *range(100, 140)]
    assert values(spark, tmp_path) == sorted(expected)


def test_a_query_that_is_stopped_in_the_middle_and_a_gateway_that_is_killed(
    spark: SparkSession, gateway: Gateway, tmp_path: Path
) -> None:
    topic = "stream.interrupted"
    create_topic(gateway, topic, 2)
    send(gateway, topic, numbered(0, 600), "zstd")
    frame = stream(spark, gateway, subscribe=topic, maxOffsetsPerTrigger=50).load()
    query = to_parquet(frame, tmp_path, processingTime="0 seconds")
    until(lambda: len(query.recentProgress) >= 2)
    query.stop()
    gateway.kill()
    gateway.start()
    send(gateway, topic, numbered(600, 700))
    drain(frame, tmp_path)
    assert values(spark, tmp_path) == list(range(700))


def test_it_waits_for_enough_or_for_long_enough(
    spark: SparkSession, gateway: Gateway, tmp_path: Path
) -> None:
    topic = "stream.enough"
    create_topic(gateway, topic, 1)
    send(gateway, topic, numbered(0, 10, 1))
    options = {"subscribe": topic, "minOffsetsPerTrigger": 100, "maxTriggerDelay": "1h"}
    query = to_parquet(stream(spark, gateway, **options).load(), tmp_path, processingTime="0 seconds")
    until(lambda: any(progress.numInputRows == 10 for progress in query.recentProgress))
    send(gateway, topic, numbered(10, 60, 1))
    until(lambda: query.status["isDataAvailable"] is False)
    send(gateway, topic, numbered(60, 120, 1))
    until(lambda: sum(progress.numInputRows for progress in query.recentProgress) == 120)
    query.stop()
    sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert sizes == [10, 110]


def test_a_pattern_finds_topics_and_partitions_that_come_later(
    spark: SparkSession, gateway: Gateway, tmp_path: Path
) -> None:
    pattern = r"stream\.late\..*"
    frame = stream(spark, gateway, subscribePattern=pattern).load()
    for number in range(2):
        create_topic(gateway, f"stream.late.{number}", 2)
        send(gateway, f"stream.late.{number}", numbered(number * 10, number * 10 + 10))
        drain(frame, tmp_path)
    assert values(spark, tmp_path) == list(range(20))


def test_a_stream_is_written_and_read_again(spark: SparkSession, gateway: Gateway, tmp_path: Path) -> None:
    create_topic(gateway, "stream.in", 2)
    create_topic(gateway, "stream.out", 2)
    send(gateway, "stream.in", numbered(0, 100), "gzip")
    upper = (
        stream(spark, gateway, subscribe="stream.in")
        .load()
        .select(
            f.col("value").alias("key"),
            f.concat(f.lit("seen "), f.col("value").cast("string")).alias("value"),
        )
    )
    writer = upper.writeStream.format("kafka").option("kafka.bootstrap.servers", gateway.bootstrap)
    query = (
        writer.option("topic", "stream.out")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(DEADLINE_S)
    found = rows(kafka(spark, gateway, subscribe="stream.out"))
    assert sorted(one.value or b"" for one in found) == sorted(b"seen %d" % number for number in range(100))


# --- data that is gone ----------------------------------------------------------------------------------


def test_what_was_trimmed_before_it_was_read_fails_the_query(
    spark: SparkSession, gateway: Gateway, tmp_path: Path
) -> None:
    topic = "stream.trimmed"
    create_topic(gateway, topic, 1)
    send(gateway, topic, numbered(0, 20, 1))
    drain(stream(spark, gateway, subscribe=topic).load(), tmp_path)
    send(gateway, topic, numbered(20, 60, 1))
    trim(gateway, topic, 0, 40)
    with pytest.raises(Exception, match="(?i)data.?loss|missing|out of range"):
        drain(stream(spark, gateway, subscribe=topic).load(), tmp_path)
    drain(stream(spark, gateway, subscribe=topic, failOnDataLoss="false").load(), tmp_path)
    assert values(spark, tmp_path) == [*range(20), *range(40, 60)]


def test_a_topic_that_was_made_anew_fails_the_query(
    spark: SparkSession, gateway: Gateway, tmp_path: Path
) -> None:
    """Its offsets begin again: without an error the query would wait for those that it knows."""
    topic = "stream.anew"
    create_topic(gateway, topic, 1)
    send(gateway, topic, numbered(0, 50, 1))
    drain(stream(spark, gateway, subscribe=topic).load(), tmp_path)
    delete_topic(gateway, topic)
    create_topic(gateway, topic, 1)
    send(gateway, topic, numbered(0, 10, 1))
    with pytest.raises(Exception, match="(?i)data.?loss|changed from|some data may have been"):
        drain(stream(spark, gateway, subscribe=topic).load(), tmp_path)


def test_a_commit_that_is_gone_repeats_the_batch_and_no_row(
    spark: SparkSession, gateway: Gateway, tmp_path: Path
) -> None:
    """A driver that dies between its output and its commit has done the batch already."""
    topic = "stream.uncommitted"
    create_topic(gateway, topic, 2)
    send(gateway, topic, numbered(0, 80))
    frame = stream(spark, gateway, subscribe=topic, maxOffsetsPerTrigger=40).load()
    drain(frame, tmp_path)
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    commits[-1].unlink()
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)
    send(gateway, topic, numbered(80, 100))
    drain(frame, tmp_path)
    assert values(spark, tmp_path) == list(range(100))
