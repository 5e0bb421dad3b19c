"""`spark.read.format("barbicel")`: the data source as Spark sees it. docs/data_source.md is its manual."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from barbicel.pipeline.source.arrow import KAFKA_SCHEMA, KAFKA_SCHEMA_WITH_HEADERS
from barbicel.pipeline.source.batch_reader import BatchReader, FilteringReader
from barbicel.pipeline.source.options import parse_options
from barbicel.pipeline.source.stream_reader import StreamReader

__all__ = ["BarbicelDataSource", "register"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class BarbicelDataSource(DataSource):
    """Logs, data directories and .kfs files as DataFrames, without a server."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._parsed = parse_options(options)

    @classmethod
    def name(cls) -> str:
        return "barbicel"

    def schema(self) -> StructType:
        return KAFKA_SCHEMA_WITH_HEADERS if self._parsed.include_headers else KAFKA_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        kind = FilteringReader if self._parsed.push_filters else BatchReader
        return kind(self._parsed, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return StreamReader(self._parsed, schema)


def register(spark: SparkSession) -> None:
    """Let a session know the format, and let it push filters down where a query wants that."""
    spark.dataSource.register(BarbicelDataSource)
    spark.conf.set(PUSHDOWN, "true")
