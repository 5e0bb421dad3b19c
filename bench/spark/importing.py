"""Journals into a data directory: by Spark on all cores, beside the importer, a queue at a time."""

from __future__ import annotations

import shutil
import time
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from barbicel.cli.pipeline_import_journals import into_directory
from barbicel.disk import RealDisk
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.importing import FamilyOutcome, ImportRules, import_family
from barbicel.gateway.migration.source import open_source
from barbicel.gateway.migration.watch import Quiet
from bench.migration.journals import ITEM_BYTES, JOURNALS, write_journal
from bench.report import Measurement, compare
from bench.rounds import interleave
from bench.spark import scale
from bench.spark.session import CORES, running_spark

__all__ = ["measure_import"]


def measure_import(directory: str) -> list[Measurement]:
    journals = f"{directory}/journals"
    Path(journals).mkdir()
    file, _ = write_journal(JOURNALS[-1], journals, scale.IMPORTED_ITEMS)
    for number in range(scale.QUEUES):
        shutil.copy(f"{journals}/{file.name}", f"{journals}/queue{number}")
    Path(journals, file.name).unlink()
    with running_spark(directory) as spark:
        contenders = {
            "spark": partial(_by_spark, spark, journals, f"{directory}/by-spark"),
            "alone": partial(_alone, journals, f"{directory}/alone"),
        }
        contenders["spark"]()
        took = interleave(contenders, scale.ROUNDS)
    items = scale.QUEUES * scale.IMPORTED_ITEMS
    return [
        compare(
            "import of journals",
            "items/s",
            [items / seconds for seconds in took["spark"]],
            [items / seconds for seconds in took["alone"]],
            against="the importer on one core",
            reading=(
                f"{scale.QUEUES} queues of {scale.IMPORTED_ITEMS:,} items of {ITEM_BYTES} bytes into a new"
                f" data directory, by local[{CORES}] in a session that runs already, until all is in the"
                " ledger."
            ),
        )
    ]


def _by_spark(spark: SparkSession, journals: str, data: str) -> float:
    start = time.perf_counter()
    source = open_source(RealDisk(), journals)
    _check(into_directory(spark, source, data, None, ImportRules()))
    return _ended(start, data)


def _alone(journals: str, data: str) -> float:
    start = time.perf_counter()
    disk = RealDisk()
    source = open_source(disk, journals)
    with DirectoryTarget.open(disk, data) as target:
        _check([import_family(source, one, target, [], ImportRules(), Quiet()) for one in source.families])
    return _ended(start, data)


def _check(outcomes: list[FamilyOutcome]) -> None:
    assert [one.records for one in outcomes] == [scale.IMPORTED_ITEMS] * scale.QUEUES, outcomes


def _ended(start: float, data: str) -> float:
    took = time.perf_counter() - start
    shutil.rmtree(data)
    return took
