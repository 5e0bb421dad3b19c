"""Kestrel's journals with Spark: look at what is left in them, bring it over, and see that it has arrived.

    python examples/spark_migrate.py /var/spool/kestrel 127.0.0.1:9092 127.0.0.1:22133

The first argument is Kestrel's queuePath or a copy of it, which is only read. For a handful of queues
`barbicel import-journals` does the same without Spark.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from barbicel.cli.main import cli
from barbicel.disk import RealDisk
from barbicel.kestrel_compat.names import parse_queue_name, topic_of
from barbicel.pipeline import spark_session
from barbicel.pipeline.jobs.import_journals import list_journals, read_items


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


# 1. What is in there? Every item that is left is a row, and nothing was imported yet.
def look(items: DataFrame) -> None:
    of_queue = items.groupBy("queue").agg(
        f.count("*").alias("items"),
        f.sum(f.length("data")).alias("bytes"),
        f.min(f.timestamp_millis("added_ms")).alias("oldest"),
        f.sum(f.col("is_open").cast("int")).alias("open"),
    )
    for row in of_queue.orderBy("queue").collect():
        say(f"{row.queue}: {row['items']} items, {row.bytes} bytes, {row.open} open")


# 2. Bring it over: a task for each queue. Run it again after anything that has stopped it.
def bring_over(journals: str, kafka: str, kestrel: str) -> int:
    verb = ["pipeline", "import-journals", journals, "--bootstrap", kafka, "--kestrel", kestrel]
    return int(cli(verb, standalone_mode=False) or 0)


# 3. Has it arrived? The queues are topics now, and Spark's Kafka connector reads them.
def count_arrived(spark: SparkSession, kafka: str, queues: list[str]) -> int:
    topics = sorted({topic_of(parse_queue_name(queue).master) for queue in queues})
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka)
    return reader.option("subscribe", ",".join(topics)).load().count()


def main(journals: str, kafka: str = "127.0.0.1:9092", kestrel: str = "127.0.0.1:22133") -> None:
    spark = spark_session("migrate")
    found = list_journals(RealDisk(), journals)
    items, reports = read_items(spark, found)
    look(items)
    for doubt in (doubt for report in reports for doubt in report.doubts):
        say(f"look into this: {doubt.file}, byte {doubt.position}: {doubt.what}")
    code = bring_over(journals, kafka, kestrel)
    say(f"the import ended with exit code {code}")
    say(f"{count_arrived(spark, kafka, [line.queue for line in found.lines])} records are in the topics")


if __name__ == "__main__":
    main(*sys.argv[1:])
