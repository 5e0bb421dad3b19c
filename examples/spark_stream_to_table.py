"""A topic as a table: orders that are JSON become rows of an Iceberg table, each once.

    python examples/spark_stream_to_table.py 127.0.0.1:9092 /tmp/lake

Run it again: it goes on where it has stopped, and the table has no order twice. What is no order is put aside
with the reason, and holds nobody up. `barbicel pipeline to-lake` does the same from a shell.
"""

import json
import sys
from pathlib import Path

from kafka import KafkaProducer
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from barbicel.pipeline import spark_session
from barbicel.pipeline.jobs.iceberg_lake import IcebergLake, open_catalog
from barbicel.pipeline.jobs.stores import parse_store
from barbicel.pipeline.jobs.to_lake import LakeRules, start_stream

TOPIC, TABLE = "shop.orders", "shop.orders"
SCHEMA = "id BIGINT, customer STRING, cents BIGINT"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


# 1. Somebody sends orders, and somebody else sends nonsense.
def send_orders(kafka: str, count: int = 20) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka, acks="all")
    for number in range(count):
        order = {"id": number, "customer": f"customer {number % 3}", "cents": 100 * number}
        producer.send(TOPIC, json.dumps(order).encode(), key=b"%d" % number)
    producer.send(TOPIC, b"hello?")
    producer.flush()
    producer.close()


# 2. A catalogue in a file, for a machine of one's own. A company has one that everybody uses.
def open_lake(directory: Path) -> Catalog:
    (directory / "warehouse").mkdir(parents=True, exist_ok=True)
    database = f"sqlite:///{directory}/catalogue.db"
    return open_catalog(
        "shop", {"type": "sql", "uri": database, "warehouse": f"file://{directory}/warehouse"}
    )


# 3. All that the topic has, into the table. With `every="1 minute"` it would go on.
def fill(spark: SparkSession, kafka: str, catalog: Catalog, directory: Path) -> None:
    lake = IcebergLake(catalog, TABLE, f"{directory}/checkpoint", rows_per_file=1_000_000)
    rules = LakeRules(topics=[TOPIC], value_schema=SCHEMA)
    start_stream(spark, parse_store(kafka), lake, rules).awaitTermination()


# 4. Whatever reads Iceberg reads it: here it is pyiceberg, without Spark.
def report(catalog: Catalog) -> None:
    orders = catalog.load_table(TABLE).scan(selected_fields=("customer", "cents")).to_arrow()
    totals = orders.group_by("customer").aggregate([("cents", "sum"), ("cents", "count")]).sort_by("customer")
    for row in totals.to_pylist():
        say(f"{row['customer']}: {row['cents_count']} orders, {row['cents_sum']} cents")


def main(kafka: str = "127.0.0.1:9092", directory: str = "lake") -> None:
    spark = spark_session("stream to a table")
    here = Path(directory).resolve()
    send_orders(kafka)
    catalog = open_lake(here)
    fill(spark, kafka, catalog, here)
    report(catalog)
    letters = spark.read.parquet(f"{here}/checkpoint/dead_letters").select("value", "reason").distinct()
    for letter in letters.collect():
        say(f"put aside: {bytes(letter.value).decode()!r}, because {letter.reason}")


if __name__ == "__main__":
    main(*sys.argv[1:])
