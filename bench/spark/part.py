"""The measurements of the pipeline, in the order of the table."""

from __future__ import annotations

from bench.spark.decoding import measure_decoding
from bench.spark.importing import measure_import
from bench.spark.reading import measure_reading

__all__ = ["SPARK"]

SPARK = (measure_decoding, measure_reading, measure_import)
