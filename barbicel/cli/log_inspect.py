"""`barbicel log inspect`: what is in a log's directory. Changes nothing."""

from __future__ import annotations

from typing import NamedTuple

import click
from rich.table import Table
from rich.text import Text

from barbicel.cli.log_findings import Findings, OffsetRange, look, merge
from barbicel.cli.log_report import (
    Page,
    describe_findings,
    describe_ranges,
    log_directory,
    number_table,
    render_json,
    segment_table,
    tell_findings,
    tell_title,
    time_text,
    verdict_text,
)
from barbicel.codecs.keratin_record import Record
from barbicel.disk import Disk, RealDisk
from barbicel.keratin.layout import Layout
from barbicel.keratin.plan import SegmentPlan
from barbicel.keratin.walk import Walk

__all__ = ["inspect"]


class Contents(NamedTuple):
    """What the sound records of a segment hold. Records of a loss count as `lost` and as nothing else."""

    base_offset: int
    records: int
    offsets: int
    payload_bytes: int
    first_timestamp_ms: int | None
    max_timestamp_ms: int | None
    lost: tuple[OffsetRange, ...]


@click.command()
@click.argument("directory", metavar="DIR", callback=log_directory)
@click.option("--deep", is_flag=True, help="Read every record.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def inspect(directory: str, deep: bool, as_json: bool) -> None:
    """Show what is in the log in DIR. Nothing is changed."""
    disk = RealDisk()
    findings = look(disk, directory, deep=deep)
    layout, segments = findings.plan.layout, findings.plan.segments
    contents = [_read_contents(disk, layout, segment) for segment in segments] if deep else None
    if as_json:
        render_json(_describe(findings, contents))
    else:
        _tell(findings, contents)


def _read_contents(disk: Disk, layout: Layout, segment: SegmentPlan) -> Contents:
    """The plan must be a deep one."""
    tally = _Tally()
    if segment.runs:
        file = disk.open(layout.log(segment.base_offset), "read")
        try:
            for run in segment.runs:
                for record in Walk(file, run.position, run.end_position, run.first_offset):
                    tally.note(record)
        finally:
            file.close()
    return tally.contents(segment.base_offset)


class _Tally:
    def __init__(self) -> None:
        self._records = self._offsets = self._payload_bytes = 0
        self._first_timestamp_ms: int | None = None
        self._max_timestamp_ms: int | None = None
        self._lost: list[OffsetRange] = []

    def note(self, record: Record) -> None:
        if record.lost:
            self._lost.append(OffsetRange(record.offset, record.end_offset))
            return
        self._records += 1
        self._offsets += record.span
        self._payload_bytes += len(record.payload)
        if self._first_timestamp_ms is None:
            self._first_timestamp_ms = record.timestamp_ms
        self._max_timestamp_ms = max(self._max_timestamp_ms or 0, record.timestamp_ms)

    def contents(self, base_offset: int) -> Contents:
        return Contents(
            base_offset,
            self._records,
            self._offsets,
            self._payload_bytes,
            self._first_timestamp_ms,
            self._max_timestamp_ms,
            merge(self._lost),
        )


def _describe(findings: Findings, contents: list[Contents] | None) -> dict[str, object]:
    document = describe_findings(findings)
    if contents is not None:
        document["contents"] = [{**item._asdict(), "lost": describe_ranges(item.lost)} for item in contents]
    return document


def _tell(findings: Findings, contents: list[Contents] | None) -> None:
    page = Page()
    tell_title(page, findings)
    page.show("Manifest", _manifest_table(findings))
    page.show("Segments", segment_table(findings.plan))
    if contents is not None:
        _tell_contents(page, contents)
    tell_findings(page, findings)
    page.paragraph("")
    page.paragraph(verdict_text(findings))


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
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    for name, value in rows:
        table.add_row(name, Text(str(value)))
    return table


def _tell_contents(page: Page, contents: list[Contents]) -> None:
    page.show(
        "Records",
        number_table(
            ("base offset", "records", "offsets", "payload bytes"),
            ((item.base_offset, item.records, item.offsets, item.payload_bytes) for item in contents),
        ),
    )
    page.show(
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
    page.section(
        "Given up by earlier repairs", [f"offsets {lost}" for item in contents for lost in item.lost]
    )
