"""A Spark session with everything set, so that `spark.read.format("kafka")` works at once.

What a caller sets wins over what is set here. Whatever is missing on the machine is found before a JVM is
started: afterwards Spark only says that its gateway has exited.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from barbicel.disk import Disk, RealDisk
from barbicel.pipeline.jars import HERE, find_jars, jar_directory, pinned_version
from barbicel.pipeline.java import check_java
from barbicel.pipeline.unavailable import PipelineUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Session", "session_settings", "spark_session"]

# For those who hand a session on and must not know pyspark.
Session: TypeAlias = "SparkSession"

INSTALL = "pip install 'barbicel[spark]'"
# Spark has started this process, and has its jars already.
SUBMITTED_VARIABLE = "PYSPARK_GATEWAY_PORT"
DIRECT_SOURCE = "barbicel.pipeline.source"

# Setting → value, each for a reason.
SETTINGS: Mapping[str, str] = {
    # Rows cross between Java and Python in columns.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The direct source reads only the offsets and times that a query asks for.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Spark's own form of a timestamp (INT96) is one that Iceberg refuses.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A progress bar between the lines of whoever prints.
    "spark.ui.showConsoleProgress": "false",
    # A log4j2 file has no other way to a driver.
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{HERE}/log4j2.properties",
}


def spark_session(
    name: str = "barbicel",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    disk: Disk | None = None,
) -> SparkSession:
    """A session that has the Kafka connector and the direct source; the running one if there is one.

    Without `master` it is what spark-submit or Spark's own settings say, and else every core of this machine.
    Raises PipelineUnavailable for what the machine lacks.
    """
    _check_pyspark()
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        session = _start(disk or RealDisk(), name, master, settings or {})
    else:
        _change(session, settings or {})
    _register_source(session)
    return session


def _start(disk: Disk, name: str, master: str | None, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    chosen = {**session_settings(disk, os.environ), **settings}
    # Workers must run the Python that has what the driver has.
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.setdefault(variable, sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _change(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Only queries can be given other settings once a session runs."""
    for key, value in settings.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)


def session_settings(disk: Disk, environment: Mapping[str, str]) -> dict[str, str]:
    """What a session is started with here. Raises PipelineUnavailable."""
    if environment.get(SUBMITTED_VARIABLE):
        return dict(SETTINGS)
    check_java(environment)
    _check_versions(pinned_version(disk))
    jars = find_jars(disk, jar_directory(disk, environment))
    return {**SETTINGS, "spark.jars": ",".join(jars)}


def _check_pyspark() -> None:
    if find_spec("pyspark") is None:
        raise PipelineUnavailable("pyspark is not installed", hint=INSTALL)


def _check_versions(wanted: str) -> None:
    from pyspark.version import __version__

    if __version__ != wanted:
        what = f"pyspark is {__version__}, and the Kafka connector is for {wanted}: the two go together"
        raise PipelineUnavailable(what, hint=INSTALL)


def _register_source(session: SparkSession) -> None:
    """`spark.read.format("barbicel")`."""
    if find_spec(DIRECT_SOURCE) is not None:
        import_module("barbicel.pipeline.source").register(session)
