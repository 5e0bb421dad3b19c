"""The data source in a real Spark: the connector's rows, streams that are killed, filters, errors."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.codecs.kafka.produce_client import decode_produce_answer, encode_produce
from barbicel.keratin import Log
from barbicel.pipeline.source.arrow import KAFKA_SCHEMA
from barbicel.pipeline.source.batch_reader import BatchReader
from barbicel.pipeline.source.options import parse_options
from barbicel.pipeline.source.splits import LogSplit, ObjectSplit
from tests.pipeline.conftest import SETTINGS
from tests.pipeline.source.stored import append, batch, make_topic, records
from tests.pipeline.topics import create_topic, every_codec, kafka, put_items
from tests.support.gateway import Gateway
from tests.tier.clients.tiered_gateway import Bucket, tiered_gateway

DEADLINE_S = 300
POLL_S = 0.2


def barbicel(spark: SparkSession, path: Path | str, **options: str) -> DataFrame:
    return spark.read.format("barbicel").options(**options).load(str(path))


def digest(frame: DataFrame) -> tuple[int, int]:
    """The number of rows, and a sum that any difference in any column changes."""
    columns = [
        f.transform("headers", lambda one: f.struct(one.key, one.value)) if name == "headers" else f.col(name)
        for name in sorted(frame.columns)
    ]
    hashed = frame.select(f.xxhash64(*columns).cast("decimal(38,0)").alias("hash"))
    row = hashed.agg(f.count("*"), f.sum("hash")).first()
    assert row is not None
    return row[0], int(row[1] or 0)


def test_the_same_rows_as_the_connector(spark: SparkSession, gateway: Gateway) -> None:
    sent = every_codec(gateway, "source.codecs")
    put_items(gateway, "source_items", [b"item %d" % number for number in range(50)])
    topics = "source.codecs,source_items"
    through_server = kafka(spark, gateway, subscribe=topics, includeHeaders="true")
    direct = barbicel(spark, gateway.data, subscribe=topics, includeHeaders="true")
    assert direct.schema == through_server.schema
    found = digest(direct)
    assert found[0] == len(sent) + 50
    assert found == digest(through_server)
    # And without the headers, in the connector's schema for that.
    assert (
        barbicel(spark, gateway.data, subscribe=topics).schema
        == kafka(spark, gateway, subscribe=topics).schema
    )


def test_the_same_rows_as_the_connector_of_a_topic_that_is_partly_in_a_store(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One queue with all that there is: every codec, headers, nulls, keys, text that is none, Kestrel's
    items, and a beginning that lies in the object store, in front of what is on the disk."""
    (tmp_path / "objects").mkdir()
    bucket = Bucket(f"file://{tmp_path}/objects", {}, {})
    with tiered_gateway(tmp_path / "gateway", bucket) as server:
        server.create("everything", retention_ms="-1")
        sent = every_codec(server, "everything", partitions=1, is_new=False)
        odd = [(b"\xed\xa0\x80", b"\xff"), (b"\xc3", None), ("\xe4".encode(), b"")]
        append_with_headers(server, "everything", odd)
        put_items(server, "everything", [b"item %d" % number for number in range(30)])
        stored = len(sent) + 1 + 30
        server.wait_until_tiered("everything", stored)
        keep_on_disk(server, "everything")
        put_items(server, "everything", [b"late %d" % number for number in range(20)])
        options = {"subscribe": "everything", "includeHeaders": "true"}
        direct = barbicel(spark, server.data, store=bucket.url, **options)
        kinds = {type(split) for split in planned(server.data, store=bucket.url, subscribe="everything")}
        assert kinds == {ObjectSplit, LogSplit}
        found = digest(direct)
        assert found[0] == stored + 20
        assert found == digest(kafka(spark, server, **options))
        streamed = spark.readStream.format("kafka").option("kafka.bootstrap.servers", server.bootstrap)
        query = (
            streamed.options(**options, startingOffsets="earliest", maxOffsetsPerTrigger="100")
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "rows"))
        )
        assert query.awaitTermination(DEADLINE_S)
        assert digest(spark.read.parquet(str(tmp_path / "rows"))) == found


def append_with_headers(server: Gateway, topic: str, headers: list[tuple[bytes, bytes | None]]) -> None:
    """A record whose keys of headers are any bytes: clients for Python only send text."""
    data = build_batch([NewRecord(-1, b"", b"odd", tuple(headers))])
    with (
        socket.create_connection((server.host, server.port), DEADLINE_S) as connection,
        connection.makefile("rb") as answers,
    ):
        connection.sendall(b"".join(encode_produce(1, "test", topic, 0, data, 10_000)))
        size = int.from_bytes(answers.read(4))
        assert decode_produce_answer(answers.read(size)).error_code == 0


def keep_on_disk(server: Gateway, topic: str) -> None:
    """What comes from now on stays where it is, whether it is copied or not."""
    setting = ConfigEntry("local.retention.bytes", "-1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[setting])
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)


def planned(path: Path, **options: str) -> list[object]:
    return list(BatchReader(parse_options({"path": str(path), **options}), KAFKA_SCHEMA).partitions())


def test_a_frame_has_the_same_rows_in_every_query(spark: SparkSession, tmp_path: Path) -> None:
    """Spark keeps the filters of a DataFrame's last query, so by default none are taken."""
    with Log.open(str(tmp_path)) as log:
        append(log, batch(records(50)))
    frame = barbicel(spark, tmp_path)
    assert frame.filter("offset < 12").count() == 12
    assert frame.count() == 50
    assert frame.filter("offset < 12").union(frame.filter("offset >= 45")).count() == 17


def test_filters_are_pushed_down_where_that_is_wanted(spark: SparkSession, tmp_path: Path) -> None:
    with Log.open(str(tmp_path)) as log:
        append(log, batch(records(50)))
    wanted = barbicel(spark, tmp_path, pushFilters="true").filter(
        "offset >= 5 and offset < 12 and partition = 0"
    )
    plan = wanted._jdf.queryExecution().executedPlan().toString()
    assert "Filter" not in plan.replace("RuntimeFilters", "")
    assert wanted.count() == 7
    late = barbicel(spark, tmp_path, pushFilters="true").filter(
        f.col("timestamp") >= f.timestamp_millis(f.lit(1_700_000_000_040))
    )
    assert late.count() == 10


def test_errors_say_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    (directory,) = make_topic(tmp_path, "orders")
    with Log.open(str(directory)) as log:
        append(log, batch(records(50)))
    with pytest.raises(PySparkException, match="there is no topic 'absent'.*there are orders"):
        barbicel(spark, tmp_path, subscribe="absent").count()
    segment = next(directory.glob("segments/*.log"))
    data = bytearray(segment.read_bytes())
    data[400] ^= 1
    segment.write_bytes(data)
    with pytest.raises(PySparkException, match=f"{segment}: at byte 68: .*offsets 0 to 49 cannot be read"):
        barbicel(spark, tmp_path, subscribe="orders").collect()


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(POLL_S)


STREAM = """
import json, sys
from barbicel.pipeline import spark_session

data, out, checkpoint, settings = sys.argv[1:]
spark = spark_session("killed", master="local[1]", settings=json.loads(settings))
source = spark.readStream.format("barbicel").option("subscribe", "orders")
frame = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 100).load(data)
query = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint).start(out)
query.awaitTermination()
"""


def test_a_stream_that_is_killed_goes_on_without_a_loss_or_a_repetition(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = [Log.open(str(directory)) for directory in make_topic(tmp_path / "data", "orders", 2)]
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    for log in logs:
        append(log, *(batch(records(25, first)) for first in range(0, 1000, 25)))
    settings = json.dumps({**SETTINGS, "spark.local.dir": str(tmp_path)})
    arguments = [sys.executable, "-c", STREAM, str(tmp_path / "data"), str(out), str(checkpoint), settings]
    with (tmp_path / "killed.log").open("wb") as output:
        process = subprocess.Popen(arguments, stdout=output, stderr=output, start_new_session=True)
    try:
        wait_until(lambda: len(list(checkpoint.glob("commits/[0-9]*"))) >= 1, "the stream does not start")
    finally:
        # The driver, its JVM and its workers, in the middle of whatever they do.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = len(list(checkpoint.glob("commits/[0-9]*")))
    assert done < 20, "it was too fast to be killed"
    for log in logs:
        append(log, batch(records(25, 1000)))
    # The server goes on writing, and the query is started again.
    source = (
        spark.readStream.format("barbicel")
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
    )
    frame = source.option("maxOffsetsPerTrigger", "400").load(str(tmp_path / "data"))
    writing = frame.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    query = writing.trigger(availableNow=True).start(str(out))
    assert query.awaitTermination(DEADLINE_S)
    for log in logs:
        log.close()
    found = (
        spark.read.parquet(str(out))
        .groupBy("partition")
        .agg(f.count("*"), f.count_distinct("offset"), f.min("offset"), f.max("offset"))
    )
    assert sorted(tuple(row) for row in found.collect()) == [(n, 1025, 1025, 0, 1024) for n in range(2)]


def test_a_stream_beside_the_server(spark: SparkSession, gateway: Gateway, tmp_path: Path) -> None:
    create_topic(gateway, "source.live", 1)
    source = spark.readStream.format("barbicel").option("subscribe", "source.live")
    frame = source.option("startingOffsets", "earliest").load(str(gateway.data))
    query = (
        frame.writeStream.format("memory")
        .queryName("live")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        rows = spark.createDataFrame([(None, b"%d" % n) for n in range(100)], "key binary, value binary")
        for count in (100, 200):
            writing = rows.write.format("kafka").option("kafka.bootstrap.servers", gateway.bootstrap)
            writing.option("topic", "source.live").save()

            def all_read(count: int = count) -> bool:
                query.processAllAvailable()
                return spark.table("live").count() == count

            wait_until(all_read, "rows that were written do not come")
    finally:
        query.stop()
    assert spark.table("live").select("offset").distinct().count() == 200
