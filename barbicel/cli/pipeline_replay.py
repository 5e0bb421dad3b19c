"""`barbicel pipeline replay`: stored records back into a topic, by their offsets or times."""

from __future__ import annotations

import re
from datetime import datetime

import click

from barbicel.cli.offsets import counted
from barbicel.cli.options import json_option, parse_pairs
from barbicel.cli.page import Page, render_json
from barbicel.cli.pipeline_options import opened_session, reading_option, spark_options

__all__ = ["replay"]


class _Moment(click.ParamType[int]):
    """Milliseconds since 1970, or a time as ISO 8601 has it; without a zone it is this machine's."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if re.fullmatch("[0-9]+", value):
            return int(value)
        try:
            return round(datetime.fromisoformat(value).astimezone().timestamp() * 1000)
        except ValueError:
            self.fail(f"{value!r} is neither milliseconds nor a time like 2026-05-01T12:00:00Z", param, ctx)


@click.command()
@click.argument("store", metavar="STORE")
@click.argument("topic", metavar="TOPIC")
@click.option("--bootstrap", metavar="HOST:PORT", required=True, help="The gateway that gets the records.")
@click.option("--into", metavar="TOPIC", help="The topic that gets them; default: the same name.")
@click.option(
    "--partition", "partitions", type=click.IntRange(0), multiple=True, help="Repeatable; default: all."
)
@click.option("--from-offset", type=click.IntRange(0), help="The first one.")
@click.option("--to-offset", type=click.IntRange(0), help="The first one that is not wanted any more.")
@click.option("--from-time", "from_ms", type=_Moment(), help="ISO 8601 or milliseconds.")
@click.option("--to-time", "to_ms", type=_Moment(), help="The first moment that is not wanted any more.")
@click.option("--keep-partitions", is_flag=True, help="Each record into the partition that it was in.")
@reading_option
@click.option(
    "--target-option",
    "target_options",
    metavar="KEY=VALUE",
    multiple=True,
    help="For writing, as kafka.security.protocol; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only count.")
@spark_options
@json_option
def replay(
    store: str,
    topic: str,
    bootstrap: str,
    into: str | None,
    partitions: tuple[int, ...],
    from_offset: int | None,
    to_offset: int | None,
    from_ms: int | None,
    to_ms: int | None,
    keep_partitions: bool,
    options: tuple[str, ...],
    target_options: tuple[str, ...],
    dry_run: bool,
    master: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Append records of TOPIC in STORE to a topic of a gateway, in order, at least once.

    STORE is a gateway (HOST:PORT), or a directory or an object store's URL, which is read without one. Each
    record gets a header `replayed-from: topic/partition/offset`.

    \b
    Example:
      barbicel pipeline replay ./data orders --bootstrap localhost:9092 --into orders-again

    \b
    Exit codes:
      0  done
      2  wrong usage, or something cannot be read or written
    """
    from barbicel.pipeline.jobs import replay as job
    from barbicel.pipeline.jobs.stores import check_servers, parse_store, read_records

    target, source = into or topic, parse_store(store)
    if source.servers == bootstrap and target == topic:
        raise click.UsageError("a topic into itself: name another one with --into")
    writing = parse_pairs("--target-option", target_options)
    for servers in (source.servers, None if dry_run else bootstrap):
        if servers is not None:
            check_servers(servers)
    spark = opened_session("replay", master, settings)
    wanted = job.Chosen(partitions, from_offset, to_offset, from_ms, to_ms)
    reading = {**parse_pairs("--option", options), **job.reading_options(source, wanted)}
    chosen = job.choose(read_records(spark, source, {"subscribe": topic, **reading}), wanted)
    # Read twice, because the sink does not tell; what comes between the two is not in the number.
    count = chosen.count()
    if not dry_run:
        job.replay(chosen, bootstrap, target, keep_partitions=keep_partitions, options=writing)
    if as_json:
        render_json({"records": count, "topic": target, "dry_run": dry_run})
    else:
        Page().line(f"{counted(count, 'record')} {'would be' if dry_run else 'were'} appended to {target}.")
