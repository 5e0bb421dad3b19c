"""One Spark session for all measurements: two cores, as much memory as a laptop gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from barbicel.pipeline import PipelineUnavailable, spark_session
from tests.rig.jars import RigUnavailable

__all__ = ["CORES", "running_spark"]

CORES = 2


@contextmanager
def running_spark(directory: str) -> Iterator[SparkSession]:
    """Raises RigUnavailable for what this machine lacks. A session that runs already is used."""
    before = SparkSession.getActiveSession()
    settings = {
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(Path(directory) / "spark"),
    }
    try:
        session = spark_session("bench", master=f"local[{CORES}]", settings=settings)
    except PipelineUnavailable as error:
        raise RigUnavailable(str(error)) from error
    try:
        yield session
    finally:
        if before is None:
            session.stop()
