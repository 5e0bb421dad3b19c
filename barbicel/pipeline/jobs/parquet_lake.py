"""Parquet files as a lake: a directory for each batch, written whole or written again.

    rows/batch=12/part-….parquet     a batch that was done again takes the place of what it left before
    dead_letters/batch=12/…
    checkpoint/                      of the stream that fills it: the two belong together

Only the newest batch can be unfinished, and it has no _SUCCESS then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from barbicel.pipeline.jobs.checkpoints import Offsets

__all__ = ["ParquetLake"]


class ParquetLake:
    def __init__(self, path: str, rows_per_file: int) -> None:
        self.path = path.rstrip("/")
        self._rows_per_file = rows_per_file

    @property
    def checkpoint(self) -> str:
        return f"{self.path}/checkpoint"

    def stored(self) -> Offsets:
        """Nothing: only the checkpoint says what is here, and a batch that is done again is the same one."""
        return {}

    def add(self, batch: int, rows: DataFrame, end: Offsets) -> None:
        """On return the batch is there, once."""
        self._write(rows, f"{self.path}/rows/batch={batch}")

    def add_dead_letters(self, batch: int, rows: DataFrame) -> None:
        self._write(rows, f"{self.path}/dead_letters/batch={batch}")

    def _write(self, rows: DataFrame, path: str) -> None:
        rows.write.mode("overwrite").option("maxRecordsPerFile", self._rows_per_file).parquet(path)
