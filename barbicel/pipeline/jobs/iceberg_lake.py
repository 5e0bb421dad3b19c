"""An Iceberg table as a lake: files and offsets come into it by one commit.

Spark writes Parquet files beside the table's data; then one commit adds them and sets, in the table's
properties, the offsets up to which it has every topic. So the table itself says what it has: a batch that is
done again, also by a stream whose checkpoint was lost, adds only what is not there. Files of a run that was
killed before its commit belong to nobody: the next run writes its own, in another place, because what is left
of the killed one may still be writing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

from barbicel.errors import BarbicelError
from barbicel.pipeline.jobs.checkpoints import Offsets, merge_offsets, parse_offsets, render_offsets
from barbicel.pipeline.unavailable import PipelineUnavailable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["IcebergLake", "open_catalog"]

PROPERTY = "barbicel.offsets"
COMMIT_TRIES = 5
DEFAULT_CATALOG = "default"


def open_catalog(name: str | None, properties: Mapping[str, str]) -> Catalog:
    """A catalogue of pyiceberg's, by its own configuration or by properties. Raises BarbicelError."""
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError:
        raise PipelineUnavailable(
            "pyiceberg is not installed", hint="pip install 'barbicel[spark]'"
        ) from None
    try:
        return load_catalog(name or DEFAULT_CATALOG, **properties)
    except Exception as error:
        what = f"the catalogue cannot be opened: {error}"
        raise BarbicelError(
            what, hint="see --catalog and --catalog-property, or ~/.pyiceberg.yaml"
        ) from error


class IcebergLake:
    """`checkpoint` is where the stream keeps its own."""

    def __init__(self, catalog: Catalog, table: str, checkpoint: str, rows_per_file: int) -> None:
        self.checkpoint = checkpoint.rstrip("/")
        self._catalog = catalog
        self._name = table
        self._rows_per_file = rows_per_file

    def stored(self) -> Offsets:
        """Up to where the table has each partition."""
        table = self._find()
        return {} if table is None else _offsets(table)

    def add(self, batch: int, rows: DataFrame, end: Offsets) -> None:
        """On return the rows are in the table, and the table says so."""
        table = self._find() or self._create(rows)
        directory = f"{table.location().rstrip('/')}/data/barbicel-{uuid4()}"
        rows.write.option("maxRecordsPerFile", self._rows_per_file).parquet(directory)
        self._commit(table, _files_with_rows(rows.sparkSession, directory), end)

    def add_dead_letters(self, batch: int, rows: DataFrame) -> None:
        """Beside the table: they have another schema."""
        rows.write.mode("overwrite").parquet(f"{self.checkpoint}/dead_letters/batch={batch}")

    def _find(self) -> Table | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return self._catalog.load_table(self._name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def _create(self, rows: DataFrame) -> Table:
        from pyspark.sql.pandas.types import to_arrow_schema

        namespace = self._name.rpartition(".")[0]
        if namespace:
            self._catalog.create_namespace_if_not_exists(namespace)
        schema = to_arrow_schema(_nullable(rows.schema), timezone="UTC")
        return self._catalog.create_table_if_not_exists(self._name, schema)

    def _commit(self, table: Table, files: list[str], end: Offsets) -> None:
        from pyiceberg.exceptions import CommitFailedException

        for left in reversed(range(COMMIT_TRIES)):
            text = render_offsets(merge_offsets(_offsets(table), end))
            try:
                with table.transaction() as transaction:
                    if files:
                        transaction.add_files(files)
                    transaction.set_properties({PROPERTY: text})
                return
            except CommitFailedException:
                # Somebody else has changed the table meanwhile.
                if not left:
                    raise
                table = self._catalog.load_table(self._name)


def _offsets(table: Table) -> Offsets:
    return parse_offsets(table.properties.get(PROPERTY, "{}"))


def _nullable(schema: StructType) -> StructType:
    """The same schema with nothing required, which is how Spark writes every Parquet file."""
    from pyspark.sql.types import StructType

    text = schema.json()
    for name in ("nullable", "containsNull"):
        text = text.replace(f'"{name}":false', f'"{name}":true')
    return StructType.fromJson(json.loads(text))


def _files_with_rows(spark: SparkSession, directory: str) -> list[str]:
    """An empty task writes a file too, which is worth no place in a table."""
    from pyspark.sql import functions as f

    found = spark.read.parquet(directory).select(f.input_file_name().alias("name")).distinct()
    return sorted(row.name for row in found.collect())
