"""`barbicel tier status`: where the segments of tiered topics are. Changes nothing, also beside a server."""

from __future__ import annotations

import click

from barbicel.cli.import_journals import config_option, data_option, loaded_config
from barbicel.cli.offsets import counted
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, number_table, render_json
from barbicel.disk import RealDisk
from barbicel.gateway.broker.data_layout import DataLayout
from barbicel.gateway.broker.tiering.status import PartitionTier, Unreadable, survey_tier

__all__ = ["status"]

EXIT_TROUBLE = 3
COLUMNS = (
    "partition",
    "start",
    "in store up to",
    "on disk from",
    "end",
    "segments",
    "bytes",
    "waiting",
    "on disk",
    "failing",
    "repair",
)


@click.command()
@data_option
@config_option
@json_option
@click.pass_context
def status(ctx: click.Context, data: str | None, path: str | None, as_json: bool) -> None:
    """Tell what of each tiered partition is in the object store, and what waits to go there.

    \b
    Example:
      barbicel tier status --data ./data

    \b
    Exit codes:
      0  all is well
      2  wrong usage, or it cannot be read
      3  an upload fails, a segment needs repair, or a manifest cannot be read
    """
    disk = RealDisk()
    layout = DataLayout(disk.resolve(data or loaded_config(path).data_directory))
    found = list(survey_tier(disk, layout))
    rows = [one for one in found if isinstance(one, PartitionTier)]
    unreadable = [one for one in found if isinstance(one, Unreadable)]
    if as_json:
        render_json(
            {
                "data": layout.root,
                "partitions": [row._asdict() for row in rows],
                "unreadable": [one._asdict() for one in unreadable],
            }
        )
    else:
        _tell(Page(), layout.root, rows, unreadable)
    is_trouble = unreadable or any(row.failing_uploads or row.needing_repair for row in rows)
    ctx.exit(EXIT_TROUBLE if is_trouble else 0)


def _tell(page: Page, root: str, rows: list[PartitionTier], unreadable: list[Unreadable]) -> None:
    page.line(f"Data {root}")
    if rows:
        cells = [
            (
                f"{row.topic}-{row.partition}",
                row.start_offset,
                row.tiered_end_offset,
                row.local_start_offset,
                row.end_offset,
                row.tiered_segments,
                row.tiered_bytes,
                row.waiting_segments,
                row.local_bytes,
                row.failing_uploads,
                row.needing_repair,
            )
            for row in rows
        ]
        page.table("Tiered partitions", number_table(COLUMNS, cells, words=("partition",)))
    page.section("Unreadable", [f"{one.topic}-{one.partition}: {one.problem}" for one in unreadable])
    tiered, waiting = sum(row.tiered_segments for row in rows), sum(row.waiting_segments for row in rows)
    page.ending(f"{counted(tiered, 'segment')} in the store, {counted(waiting, 'sealed one')} to go there.")
