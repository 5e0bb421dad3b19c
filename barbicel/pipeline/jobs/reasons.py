"""Why something has failed in a worker, without the stacks of Python and Java around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["reason_of", "untold_failures"]

# Spark's own messages carry the stack of the JVM behind them.
TOLD_LINES = 12
# Who logs the stacks of a task that has failed.
_TELLERS = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.python",
)
_STACK = re.compile(r"at [\w.$/<>]+\(|\.\.\. \d+ more|An error occurred while calling ")
_OWN_ERROR = re.compile(r"^(?:[\w.]*\.)?barbicel\.[\w.]+: (?P<message>.+)$", re.MULTILINE)


def reason_of(error: BaseException) -> str:
    """What our own code has said there, with its hint; or else what Spark says of it, and of its causes."""
    told = _OWN_ERROR.findall(str(error))
    if told:
        return str(told[-1])
    lines = (line.strip().removeprefix(": ") for line in str(error).splitlines())
    kept = [line for line in lines if line and not _STACK.match(line)]
    return "; ".join(kept[:TOLD_LINES])


@contextmanager
def untold_failures(spark: SparkSession) -> Iterator[None]:
    """While it lasts Spark does not log why tasks have failed: for who expects that, and tells it better."""
    # The JVM is None before a context is there, and this one is.
    log4j: Any = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    configurator = log4j.core.config.Configurator
    levels = {name: log4j.LogManager.getLogger(name).getLevel() for name in _TELLERS}
    for name in _TELLERS:
        configurator.setLevel(name, log4j.Level.OFF)
    try:
        yield
    finally:
        for name, level in levels.items():
            configurator.setLevel(name, level)
