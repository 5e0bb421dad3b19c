"""The measurements of the pipeline, small: every row comes out, and the sides have done the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.spark import scale
from bench.spark.part import SPARK


def test_every_row(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "ROWS": 2000,
        "ROUNDS": 1,
        "DECODED_ROWS": 2000,
        "QUEUES": 2,
        "IMPORTED_ITEMS": 50,
    }.items():
        monkeypatch.setattr(scale, name, value)
    names = []
    for measure in SPARK:
        directory = tmp_path / measure.__name__
        directory.mkdir()
        names += [row.name for row in measure(str(directory)) if row.value > 0 and row.ratio]
    assert names == ["decode to columns", "read a topic, none", "read a topic, lz4", "import of journals"]
