"""`barbicel pipeline verify`: whether a store has everything, or two stores the same. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from barbicel.cli.offsets import counted
from barbicel.cli.options import json_option, parse_pairs
from barbicel.cli.page import Page, number_table, render_json
from barbicel.cli.pipeline_options import (
    opened_session,
    reading_option,
    spark_options,
    store_options,
)
from barbicel.errors import offsets_text

if TYPE_CHECKING:
    from barbicel.pipeline.jobs.surveys import PartitionSurvey
    from barbicel.pipeline.jobs.verify import Difference, StoreSurvey

__all__ = ["verify"]

EXIT_INCOMPLETE = 3
DIGEST_CHARS = 16


@click.command()
@store_options
@click.option("--against", metavar="STORE", help="Another gateway or directory, which should have the same.")
@reading_option
@spark_options
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    store: str,
    topics: Sequence[str],
    pattern: str | None,
    against: str | None,
    options: tuple[str, ...],
    master: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Read all of STORE and tell what it has: counts, offsets that are missing or there twice, a digest.

    STORE is a gateway (HOST:PORT) or a directory, which is read without one. Every batch's checksum is
    checked. With --against two stores are compared, down to the single record.

    \b
    Example:
      barbicel pipeline verify ./data --topic orders --against localhost:9092

    \b
    Exit codes:
      0  nothing is missing, and the two are the same
      2  wrong usage, or a store cannot be read at all
      3  something is missing, damaged or different: see the list
    """
    from barbicel.pipeline.jobs.stores import check_servers, parse_store, read_records, topic_options
    from barbicel.pipeline.jobs.verify import compare_stores, survey_store

    chosen = {**topic_options(topics, pattern), **parse_pairs("--option", options)}
    stores = [parse_store(text) for text in (store, against) if text is not None]
    for one in stores:
        if one.servers is not None:
            check_servers(one.servers)
    spark = opened_session("verify", master, settings)
    surveys = [survey_store(spark, one, chosen) for one in stores]
    differences: list[Difference] = []
    if len(stores) == 2 and not any(one.problems for one in surveys):
        lenient = {**chosen, "failOnDataLoss": "false"}
        frames = [read_records(spark, one, lenient) for one in stores]
        differences = compare_stores((frames[0], surveys[0]), (frames[1], surveys[1]))
    names = [str(one) for one in stores]
    if as_json:
        render_json(_describe(names, surveys, differences))
    else:
        _tell(Page(), names, surveys, differences)
    ctx.exit(0 if all(one.is_whole for one in surveys) and not differences else EXIT_INCOMPLETE)


def _describe(
    names: Sequence[str], surveys: Sequence[StoreSurvey], differences: Sequence[Difference]
) -> dict[str, object]:
    return {
        "stores": [
            {
                "store": name,
                "partitions": [_without_blocks(one) for one in survey.partitions],
                "problems": survey.problems,
            }
            for name, survey in zip(names, surveys, strict=True)
        ],
        "differences": [asdict(one) for one in differences],
    }


def _without_blocks(survey: PartitionSurvey) -> dict[str, object]:
    return {name: value for name, value in asdict(survey).items() if name != "blocks"}


def _tell(
    page: Page, names: Sequence[str], surveys: Sequence[StoreSurvey], differences: Sequence[Difference]
) -> None:
    for name, survey in zip(names, surveys, strict=True):
        page.line(f"Store {name}")
        rows = [
            (
                one.topic,
                one.partition,
                one.first_offset,
                one.end_offset,
                one.records,
                one.digest[:DIGEST_CHARS],
            )
            for one in survey.partitions
        ]
        if rows:
            columns = ("topic", "partition", "first", "end", "records", "digest")
            page.table("Partitions", number_table(columns, rows, words=("topic", "digest")))
        page.section("Not readable", survey.problems)
        page.section("Missing", _lines(survey.partitions, "missing"))
        page.section("There more than once", _lines(survey.partitions, "repeated"))
    if len(names) == 2:
        page.section(f"Only in {names[0]}", _lines(differences, "only_left"))
        page.section(f"Only in {names[1]}", _lines(differences, "only_right"))
        page.section("Different records", _lines(differences, "differing"))
        if differences and differences[-1].is_cut:
            page.line("There are more differences than these.")
    page.ending(_ending(surveys, differences))


def _lines(found: Sequence[PartitionSurvey] | Sequence[Difference], attribute: str) -> list[str]:
    return [
        f"{one.topic}-{one.partition}: {offsets_text(*span)}"
        for one in found
        for span in getattr(one, attribute)
    ]


def _ending(surveys: Sequence[StoreSurvey], differences: Sequence[Difference]) -> str:
    records = sum(one.records for one in surveys[0].partitions)
    if differences:
        return "The two are not the same."
    if not all(one.is_whole for one in surveys):
        return "Not everything is there."
    same = " Both have the same." if len(surveys) == 2 else ""
    return f"Nothing is missing: {counted(records, 'record')}.{same}"
