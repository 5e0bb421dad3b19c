"""`barbicel pipeline jars`: the jars of Spark's Kafka connector onto this machine."""

from __future__ import annotations

import os

import click

from barbicel.disk import RealDisk
from barbicel.pipeline.jars import fetch_jars, jar_directory

__all__ = ["jars"]


@click.command()
@click.option("--paths", is_flag=True, help="Print one line of paths for `spark-submit --jars`.")
def jars(paths: bool) -> None:
    """Fetch the jars of Spark's Kafka connector with Maven, check them, and tell where they are.

    They are fetched once: what is there is only checked. BARBICEL_SPARK_JARS names a directory that has
    them, for machines without Maven.

    \b
    Example:
      barbicel pipeline jars

    \b
    Exit codes:
      0  they are there
      2  they cannot be fetched, or are not the pinned ones
    """
    disk = RealDisk()
    found = fetch_jars(disk, jar_directory(disk, os.environ))
    click.echo((",".join if paths else "\n".join)(found))
