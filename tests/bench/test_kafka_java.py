"""Kafka's own performance tools are understood, and drive both servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.kafka import scale
from bench.kafka.java import measure_java
from bench.kafka.java_tools import parse_consumed, parse_produced
from tests.bench.rows import check_rows
from tests.rig.skipping import skip_without_rig

PRODUCED = """\
5001 records sent, 1000.2 records/sec (0.95 MB/sec), 1.8 ms avg latency, 30.0 ms max latency.
60000 records sent, 20054.146195 records/sec (19.13 MB/sec), 1361.95 ms avg latency, 2030.00 ms max latency,\
 1530 ms 50th, 1738 ms 95th, 1956 ms 99th, 2025 ms 99.9th.
"""
CONSUMED = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms,\
 fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-11-16 07:28:27:479, 2026-11-16 07:28:30:598, 381.4697, 122.3051, 40000, 12824.6233, 707, 2412, 158.1549,\
 16583.7479
"""


def test_what_the_java_tools_print_is_understood() -> None:
    assert parse_produced(PRODUCED) == (60_000, 20_054.146195)
    assert parse_consumed(CONSUMED) == (40_000, 16_583.7479)


def test_side_by_side_with_a_real_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scale.VARIABLE, "tiny")
    with skip_without_rig():
        rows = measure_java(str(tmp_path))
    compared = {row.name: str(row.target) for row in rows if row.target is not None}
    assert compared == {
        "Java produce 1 KB, write": ">= 1",
        "Java produce 1 KB, fsync": ">= 0.6",
        "Java consume 1 KB, write": ">= 1",
    }
    check_rows(rows, tmp_path / "kafka.json")
