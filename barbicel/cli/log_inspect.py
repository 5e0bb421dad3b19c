"""`barbicel log inspect`: what is in a log's directory. Changes nothing."""

from __future__ import annotations

import click
from rich.table import Table

from barbicel.cli.log_contents import Contents, read_contents
from barbicel.cli.log_findings import Findings, look
from barbicel.cli.log_report import (
    describe_findings,
    describe_ranges,
    segment_table,
    tell_findings,
    tell_title,
    verdict_text,
)
from barbicel.cli.offsets import range_lines
from barbicel.cli.options import directory_argument, json_option
from barbicel.cli.page import Page, number_table, pair_table, render_json, time_text
from barbicel.disk import RealDisk

__all__ = ["inspect"]


@click.command()
@directory_argument
@click.option("--deep", is_flag=True, help="Read every record.")
@json_option
def inspect(directory: str, deep: bool, as_json: bool) -> None:
    """Show what is in the log in DIR. Nothing is changed.

    \b
    Example:
      barbicel log inspect ./data/topics/orders-*/0 --deep

    \b
    Exit codes:
      0  shown
      2  wrong usage, not a log, or it cannot be read
    """
    disk = RealDisk()
    findings = look(disk, directory, deep=deep)
    layout, segments = findings.plan.layout, findings.plan.segments
    contents = [read_contents(disk, layout, segment) for segment in segments] if deep else None
    if as_json:
        render_json(_describe(findings, contents))
    else:
        _tell(Page(), findings, contents)


def _describe(findings: Findings, contents: list[Contents] | None) -> dict[str, object]:
    document = describe_findings(findings)
    if contents is not None:
        document["contents"] = [{**item._asdict(), "lost": describe_ranges(item.lost)} for item in contents]
    return document


def _tell(page: Page, findings: Findings, contents: list[Contents] | None) -> None:
    tell_title(page, findings)
    page.table("Manifest", _manifest_table(findings))
    page.table("Segments", segment_table(findings.plan))
    if contents is not None:
        _tell_contents(page, contents)
    tell_findings(page, findings)
    page.ending(verdict_text(findings))


def _manifest_table(findings: Findings) -> Table:
    plan, manifest = findings.plan, findings.plan.manifest
    rows: list[tuple[str, object]] = []
    if manifest is None:
        rows.append(("manifest", "absent or unusable"))
    else:
        rows += [
            ("created", time_text(manifest.created_ts_ms)),
            ("closed cleanly", "yes" if manifest.clean_shutdown else "no"),
            ("leader epoch", manifest.leader_epoch),
            ("segment max bytes", manifest.segment_max_bytes),
            ("index stride bytes", manifest.index_stride_bytes),
            ("max open segments", manifest.max_open_segments),
            ("active base offset", manifest.active_base_offset),
            ("sealed segments", len(manifest.segments)),
            ("vouches below offset", manifest.next_offset),
        ]
    rows += [("log start offset", plan.log_start_offset), ("next offset", plan.next_offset)]
    return pair_table(rows)


def _tell_contents(page: Page, contents: list[Contents]) -> None:
    page.table(
        "Records",
        number_table(
            ("base offset", "records", "offsets", "payload bytes"),
            ((item.base_offset, item.records, item.offsets, item.payload_bytes) for item in contents),
        ),
    )
    page.table(
        "Timestamps (UTC)",
        number_table(
            ("base offset", "first record", "maximum"),
            (
                (
                    item.base_offset,
                    time_text(item.first_timestamp_ms),
                    time_text(item.max_timestamp_ms),
                )
                for item in contents
            ),
        ),
    )
    page.section("Given up by earlier repairs", range_lines(lost for item in contents for lost in item.lost))
