"""Rows a second of the direct source beside Spark's Kafka connector, over the same topic."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from bench.report import Measurement, Target, compare
from bench.rounds import interleave
from bench.spark import scale
from bench.spark.session import CORES, running_spark
from tests.support.gateway import Gateway, running_gateway

__all__ = ["measure_reading"]

TOPIC = "rows"
VALUE_BYTES = 100
CODECS = ("none", "lz4")
FLUSH_DEADLINE_S = 300
GOAL = Target(">=", 3)


def measure_reading(directory: str) -> list[Measurement]:
    rows = []
    with running_spark(directory) as spark:
        for codec in CODECS:
            here = Path(directory) / codec
            here.mkdir()
            with running_gateway(here, num_partitions=str(CORES), durability="write") as gateway:
                _fill(gateway, codec)
                # What is in the gateway's memory is not in its files' indexes yet.
                gateway.stop()
                gateway.start()
                rows.append(_measure(spark, gateway, codec))
    return rows


def _measure(spark: SparkSession, gateway: Gateway, codec: str) -> Measurement:
    kafka = spark.read.format("kafka").option("kafka.bootstrap.servers", gateway.bootstrap)
    direct = spark.read.format("barbicel").option("subscribe", TOPIC)
    contenders = {
        "direct": partial(_seconds, direct.load(str(gateway.data))),
        "connector": partial(_seconds, kafka.option("subscribe", TOPIC).load()),
    }
    for warm_up in contenders.values():
        warm_up()
    took = interleave(contenders, scale.ROUNDS)
    return compare(
        f"read a topic, {codec}",
        "rows/s",
        [scale.ROWS / seconds for seconds in took["direct"]],
        [scale.ROWS / seconds for seconds in took["connector"]],
        against="Spark's Kafka connector",
        reading=(
            f"{scale.ROWS:,} records of {VALUE_BYTES} bytes in {CORES} partitions, batches compressed with"
            f" {codec}, all columns, by local[{CORES}] into Spark's noop sink; the direct source reads the"
            " files beside the gateway."
        ),
        target=GOAL,
    )


def _seconds(frame: DataFrame) -> float:
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def _fill(gateway: Gateway, codec: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "compression.type": codec,
            "linger.ms": 50,
            "batch.size": 100_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    # Half of it compresses.
    value = os.urandom(VALUE_BYTES // 2) + b"x" * (VALUE_BYTES // 2)
    for number in range(scale.ROWS):
        while True:
            try:
                producer.produce(TOPIC, value, partition=number % CORES)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(FLUSH_DEADLINE_S):
        raise RuntimeError("not everything was stored")
