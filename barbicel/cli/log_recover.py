"""`barbicel log recover`: save what is readable into a new directory. The damaged log is not touched."""

from __future__ import annotations

from typing import NamedTuple

import click

from barbicel.cli.log_contents import given_up_offsets
from barbicel.cli.log_findings import check_is_log, has_open_end, lost_offsets
from barbicel.cli.log_report import describe_damage, describe_ranges, in_use_text, loss_lines, problems
from barbicel.cli.offsets import OffsetRange, counted, merge, number_of_offsets, range_lines, without
from barbicel.cli.options import directory_argument, directory_name, json_option
from barbicel.cli.page import Page, render_json
from barbicel.clock import wall_clock_ms
from barbicel.disk import Disk, RealDisk
from barbicel.keratin.layout import Layout
from barbicel.keratin.plan import RecoveryPlan
from barbicel.keratin.salvage import salvage

__all__ = ["recover"]

EXIT_LOST = 3


class _Saved(NamedTuple):
    """What was found in the copy before it was repaired, and what it is since."""

    source: str
    holder: str | None
    found: RecoveryPlan
    # Lost now or given up by an earlier repair: in the new log's range, and not in the new log.
    missing: tuple[OffsetRange, ...]

    @property
    def is_incomplete(self) -> bool:
        """A segment that overlaps another is left out, though no offset of the log is lost by that."""
        return bool(lost_offsets(self.found) or self.found.overlaps or has_open_end(self.found))

    @property
    def written(self) -> tuple[OffsetRange, ...]:
        return without(OffsetRange(self.found.log_start_offset, self.found.next_offset), self.missing)


@click.command()
@directory_argument
@click.argument("target", metavar="TARGET", callback=directory_name)
@json_option
@click.pass_context
def recover(ctx: click.Context, directory: str, target: str, as_json: bool) -> None:
    """Write what is readable of the log in DIR into the new directory TARGET. DIR is not touched.

    Offsets stay as they are; the new log knows which ones were lost.

    \b
    Example:
      barbicel log recover ./data/topics/orders-*/0 ./recovered

    \b
    Exit codes:
      0  nothing is lost
      2  wrong usage, not a log, or it cannot be read or written
      3  something is lost
    """
    disk, layout = RealDisk(), Layout(directory)
    check_is_log(disk, layout)
    _check_is_elsewhere(disk, layout, target)
    holder = disk.lock_holder(layout.lock)
    if holder is not None:
        click.echo(f"Warning: {in_use_text(holder)} What comes now may be missing.", err=True)
    saved = _recover(disk, layout, Layout(target), holder)
    if as_json:
        render_json(_describe(saved))
    else:
        _tell(Page(), saved)
    if saved.is_incomplete:
        ctx.exit(EXIT_LOST)


def _check_is_elsewhere(disk: Disk, layout: Layout, target: str) -> None:
    """By the places that the names lead to: a log must not be written into itself, whatever it is called."""
    place = disk.resolve(target)
    for own in (layout.root, layout.segments):
        if f"{place}/".startswith(f"{disk.resolve(own).rstrip('/')}/"):
            raise click.UsageError("TARGET must not lie in DIR")


def _recover(disk: Disk, source: Layout, target: Layout, holder: str | None) -> _Saved:
    """The new log is read once more: what it says is missing is what will be missing."""
    found = salvage(disk, source, target, wall_clock_ms())
    missing = merge([*lost_offsets(found), *given_up_offsets(disk, target)])
    return _Saved(source.root, holder, found, missing)


def _describe(saved: _Saved) -> dict[str, object]:
    found = saved.found
    return {
        "source": saved.source,
        "in_use_by": saved.holder,
        "target": found.layout.root,
        "log_start_offset": found.log_start_offset,
        "next_offset": found.next_offset,
        "written": describe_ranges(saved.written),
        "missing": describe_ranges(saved.missing),
        "lost": describe_ranges(lost_offsets(found)),
        "damage": [describe_damage(found, item) for item in found.damage],
        "problems": problems(found),
    }


def _tell(page: Page, saved: _Saved) -> None:
    page.line(f"Log {saved.source}")
    page.line(f"recovered into {saved.found.layout.root}")
    page.section("What was wrong", problems(saved.found))
    page.section("Written", range_lines(saved.written))
    page.section("Missing", loss_lines(saved.found, saved.missing))
    written, missing = (number_of_offsets(ranges) for ranges in (saved.written, saved.missing))
    more = " or more" if has_open_end(saved.found) else ""
    page.ending(f"The new log has {counted(written, 'offset')}; {counted(missing, 'offset')}{more} missing.")
    page.paragraph(f"It goes on at offset {saved.found.next_offset}.")
