"""What goes through a Kestrel queue: items by minute and by kind, and the largest ones.

    python examples/spark_queue_dashboard.py 127.0.0.1:9092 127.0.0.1:22133 thumbnails

A queue is a topic, so Spark's Kafka connector reads it while Kestrel's workers drain it: looking takes
nothing out.
"""

import json
import sys

import memcache
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from barbicel.kestrel_compat.names import topic_of
from barbicel.pipeline import spark_session

KINDS = ("photo", "scan", "film")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


# 1. Something to look at: items as a producer of the queue puts them.
def put_items(kestrel: str, queue: str, count: int = 30) -> None:
    client = memcache.Client([kestrel])
    for number in range(count):
        item = {"kind": KINDS[number % 3], "picture": "x" * (100 * (number % 7))}
        if not client.set(queue, json.dumps(item)):
            sys.exit(f"nothing was stored; is there a gateway at {kestrel}?")
    client.disconnect_all()


# 2. The queue as a table. A worker's get changes the group's position, and not this.
def read_queue(spark: SparkSession, kafka: str, queue: str) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka)
    records = reader.option("subscribe", topic_of(queue)).option("includeHeaders", "true").load()
    item = f.from_json(f.col("value").cast("string"), "kind STRING, picture STRING")
    return records.select(
        "offset",
        f.date_trunc("minute", "timestamp").alias("minute"),
        f.length("value").alias("bytes"),
        item["kind"].alias("kind"),
    )


# 3. The dashboard.
def by_kind(items: DataFrame) -> None:
    counted = items.groupBy("kind").agg(
        f.count("*").alias("items"), f.sum("bytes").alias("bytes"), f.max("bytes").alias("largest")
    )
    for row in counted.orderBy("kind").collect():
        say(f"{row.kind:6} {row['items']:5} items {row.bytes:7} bytes, the largest {row.largest}")


def by_minute(items: DataFrame) -> None:
    counted = items.groupBy("minute").count().orderBy("minute").collect()
    most = max(row["count"] for row in counted)
    for row in counted:
        say(f"{row.minute:%H:%M} {'#' * max(1, 40 * row['count'] // most)} {row['count']}")


def main(kafka: str = "127.0.0.1:9092", kestrel: str = "127.0.0.1:22133", queue: str = "thumbnails") -> None:
    spark = spark_session("dashboard")
    put_items(kestrel, queue)
    items = read_queue(spark, kafka, queue).cache()
    by_kind(items)
    by_minute(items)
    items.unpersist()
    say(f"{items.count()} items have gone through {queue}")


if __name__ == "__main__":
    main(*sys.argv[1:])
