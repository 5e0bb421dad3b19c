"""The measurements of the Kafka front end, in the order of the table."""

from __future__ import annotations

from bench.kafka.hostile import measure_hostile
from bench.kafka.java import measure_java
from bench.kafka.partitions import measure_partitions
from bench.kafka.startup import measure_startup
from bench.kafka.throughput import measure_throughput

__all__ = ["KAFKA"]

KAFKA = (measure_startup, measure_throughput, measure_partitions, measure_hostile, measure_java)
