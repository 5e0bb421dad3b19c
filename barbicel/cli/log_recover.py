"""`barbicel log recover`: save what is readable into a new directory. The damaged log is not touched."""

from __future__ import annotations

import click

from barbicel.cli.log_findings import OffsetRange, check_is_log, lost_offsets
from barbicel.cli.log_report import (
    Page,
    describe_damage,
    describe_ranges,
    in_use_text,
    log_directory,
    problems,
    render_json,
)
from barbicel.clock import wall_clock_ms
from barbicel.disk import RealDisk
from barbicel.keratin.layout import Layout
from barbicel.keratin.plan import RecoveryPlan
from barbicel.keratin.salvage import salvage

__all__ = ["recover"]

EXIT_LOST = 3


@click.command()
@click.argument("directory", metavar="DIR", callback=log_directory)
@click.argument("target", metavar="TARGET", callback=log_directory)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def recover(ctx: click.Context, directory: str, target: str, as_json: bool) -> None:
    """Write what is readable of the log in DIR into the new directory TARGET. DIR is not touched.

    Offsets stay as they are; the new log knows which ones were lost.

    \b
    Exit codes:
      0  nothing is lost
      2  wrong usage, not a log, or it cannot be read or written
      3  something is lost
    """
    if f"{target}/".startswith(f"{directory}/"):
        raise click.UsageError("TARGET must not lie in DIR")
    disk = RealDisk()
    layout = Layout(directory)
    check_is_log(disk, layout)
    holder = disk.lock_holder(layout.lock)
    if holder is not None:
        click.echo(f"Warning: {in_use_text(holder)} What comes now may be missing.", err=True)
    found = salvage(disk, layout, Layout(target), wall_clock_ms())
    if as_json:
        render_json(_describe(directory, holder, found))
    else:
        _tell(directory, found)
    # A segment that overlaps another is left out, though no offset of the log is lost by that.
    if lost_offsets(found) or found.overlaps:
        ctx.exit(EXIT_LOST)


def _describe(directory: str, holder: str | None, found: RecoveryPlan) -> dict[str, object]:
    return {
        "source": directory,
        "in_use_by": holder,
        "target": found.layout.root,
        "log_start_offset": found.log_start_offset,
        "next_offset": found.next_offset,
        "lost": describe_ranges(lost_offsets(found)),
        "damage": [describe_damage(found, item) for item in found.damage],
        "problems": problems(found),
    }


def _tell(directory: str, found: RecoveryPlan) -> None:
    page = Page()
    page.line(f"Log {directory}")
    page.line(f"recovered into {found.layout.root}")
    page.section("What was wrong", problems(found))
    page.section("Lost", [f"offsets {item}" for item in lost_offsets(found)])
    page.paragraph("")
    held = OffsetRange(found.log_start_offset, found.next_offset)
    if held.first_offset < held.end_offset:
        page.paragraph(f"The new log has offsets {held}.")
    else:
        page.paragraph(f"The new log is empty and goes on at offset {held.end_offset}.")
    if not lost_offsets(found):
        page.paragraph("No offset is lost.")
