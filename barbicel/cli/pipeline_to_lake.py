"""`barbicel pipeline to-lake`: topics into Parquet files or an Iceberg table, each record once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from barbicel.cli.offsets import counted
from barbicel.cli.options import json_option, parse_pairs
from barbicel.cli.page import Page, render_json
from barbicel.cli.pipeline_options import (
    opened_session,
    reading_option,
    spark_options,
    store_options,
)

if TYPE_CHECKING:
    from barbicel.pipeline.jobs.to_lake import Lake

__all__ = ["to_lake"]


@click.command("to-lake")
@store_options
@click.option("--parquet", metavar="DIR", help="A directory of Parquet files, with the stream's checkpoint.")
@click.option("--iceberg", metavar="TABLE", help="An Iceberg table; it is made if there is none.")
@click.option("--catalog", metavar="NAME", help="The catalogue of the table, as pyiceberg knows it.")
@click.option(
    "--catalog-property",
    "properties",
    metavar="KEY=VALUE",
    multiple=True,
    help="Of the catalogue; repeatable.",
)
@click.option("--checkpoint", metavar="DIR", help="With --iceberg: where the stream keeps how far it is.")
@click.option("--follow", is_flag=True, help="Go on with what comes, until it is stopped.")
@click.option(
    "--every", metavar="TIME", default="1 minute", show_default=True, help="With --follow: how often."
)
@click.option("--max-rows", type=click.IntRange(1), default=4_000_000, show_default=True, help="Of a batch.")
@click.option("--min-rows", type=click.IntRange(1), help="Wait for so many before a batch begins.")
@click.option("--max-delay", metavar="TIME", default="5m", show_default=True, help="But no longer than this.")
@click.option(
    "--rows-per-file",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="At most, in a file.",
)
@click.option("--value-schema", metavar="SCHEMA", help="Values are JSON: `id BIGINT, name STRING`.")
@click.option("--dead-letter-topic", metavar="TOPIC", help="For values that are not; default: in the lake.")
@reading_option
@click.option("--accept-loss", is_flag=True, help="Go on though records were trimmed before they were read.")
@spark_options
@json_option
def to_lake(
    store: str,
    topics: Sequence[str],
    pattern: str | None,
    parquet: str | None,
    iceberg: str | None,
    catalog: str | None,
    properties: tuple[str, ...],
    checkpoint: str | None,
    follow: bool,
    every: str,
    max_rows: int,
    min_rows: int | None,
    max_delay: str,
    rows_per_file: int,
    value_schema: str | None,
    dead_letter_topic: str | None,
    options: tuple[str, ...],
    accept_loss: bool,
    master: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Bring topics into a lake: everything that is stored, then what has come since, by each run.

    STORE is a gateway (HOST:PORT) or a directory that one has written. It may be killed at any moment and run
    again: every record is in the lake once.

    \b
    Example:
      barbicel pipeline to-lake localhost:9092 --topic orders --parquet /lake/orders

    \b
    Exit codes:
      0  all that there was when it began is in the lake
      2  wrong usage, or something is missing, or the stream has failed
    """
    if (parquet is None) == (iceberg is None):
        raise click.UsageError("the lake is --parquet or --iceberg")
    if iceberg is not None and checkpoint is None:
        raise click.UsageError("--iceberg needs --checkpoint")
    from barbicel.pipeline.jobs.stores import check_servers, parse_store
    from barbicel.pipeline.jobs.to_lake import LakeRules, start_stream
    from barbicel.pipeline.jobs.watching import await_end

    source = parse_store(store)
    if dead_letter_topic is not None and source.servers is None:
        raise click.UsageError("--dead-letter-topic needs a gateway: STORE is a directory")
    rules = LakeRules(
        topics=topics,
        pattern=pattern,
        max_rows=max_rows,
        min_rows=min_rows,
        max_delay=max_delay,
        rows_per_file=rows_per_file,
        value_schema=value_schema,
        dead_letter_topic=dead_letter_topic,
        dead_letter_servers=source.servers,
        fail_on_data_loss=not accept_loss,
        reading=parse_pairs("--option", options),
    )
    rules.options()
    if source.servers is not None:
        check_servers(source.servers)
    spark = opened_session("to-lake", master, settings)
    lake = _lake(parquet, iceberg, catalog, properties, checkpoint, rows_per_file)
    query = start_stream(spark, source, lake, rules, every if follow else None)
    rows, batches = await_end(query)
    if as_json:
        render_json({"rows": rows, "batches": batches})
    else:
        Page().line(f"{counted(rows, 'record')} read in {batches} {'batch' if batches == 1 else 'batches'}.")


def _lake(
    parquet: str | None,
    iceberg: str | None,
    catalog: str | None,
    properties: Sequence[str],
    checkpoint: str | None,
    rows_per_file: int,
) -> Lake:
    if parquet is not None:
        from barbicel.pipeline.jobs.parquet_lake import ParquetLake

        return ParquetLake(parquet, rows_per_file)
    from barbicel.pipeline.jobs.iceberg_lake import IcebergLake, open_catalog

    opened = open_catalog(catalog, parse_pairs("--catalog-property", properties))
    return IcebergLake(opened, iceberg or "", checkpoint or "", rows_per_file)
