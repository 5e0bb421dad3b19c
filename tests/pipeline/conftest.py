"""One Spark session for all tests that a worker runs: a JVM takes longer to start than most tests."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from barbicel.disk import RealDisk
from barbicel.pipeline import PipelineUnavailable, spark_session
from barbicel.pipeline.jars import fetch_jars, jar_directory
from tests.rig.skipping import REQUIRED
from tests.support.gateway import Gateway, running_gateway

# Two tasks at a time, and no more pieces than that in a shuffle: a test has a few hundred rows. Compiling
# Java for each query, and compiling that well, takes longer than the query.
SETTINGS = {
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


@pytest.fixture(scope="session")
def jars() -> list[str]:
    disk = RealDisk()
    try:
        return fetch_jars(disk, jar_directory(disk, os.environ))
    except PipelineUnavailable as error:
        if os.environ.get(REQUIRED):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(jars: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    here = tmp_path_factory.mktemp("spark")
    own = {"spark.local.dir": str(here), "spark.sql.warehouse.dir": str(here / "warehouse")}
    try:
        session = spark_session("tests", master="local[2]", settings={**SETTINGS, **own})
    except PipelineUnavailable as error:
        if os.environ.get(REQUIRED):
            raise
        pytest.skip(str(error))
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Spark leaves the sockets of its callbacks open
        session.stop()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    # Tests give records old timestamps, and may take longer than retention waits.
    own = {"num_partitions": "3", "log_retention_ms": "-1"}
    with running_gateway(tmp_path_factory.mktemp("gateway"), **own) as gateway:
        yield gateway
