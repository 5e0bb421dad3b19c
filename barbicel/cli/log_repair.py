"""`barbicel log repair`: carry out what `verify` prints, giving up what is lost. A dry run by default."""

from __future__ import annotations

import click

from barbicel.cli.log_findings import Findings, check_is_log, look, look_under_lock
from barbicel.cli.log_report import (
    actions,
    describe_findings,
    describe_ranges,
    loss_lines,
    problems,
    relative,
    tell,
    tell_title,
    verdict_text,
)
from barbicel.cli.mending import DRY_RUN_TEXT, Repair
from barbicel.cli.options import apply_option, directory_argument, json_option
from barbicel.cli.page import Page, render_json
from barbicel.clock import wall_clock_ms
from barbicel.disk import Disk, RealDisk
from barbicel.keratin.layout import Layout
from barbicel.keratin.repair import apply_plan

__all__ = ["repair"]


@click.command()
@directory_argument
@apply_option
@json_option
@click.pass_context
def repair(ctx: click.Context, directory: str, apply: bool, as_json: bool) -> None:
    """Mend the log in DIR, and give up the offsets that are lost.

    Without --apply it only tells what it would do, with the exit codes of 'verify'. What a repair cuts off
    or replaces it keeps aside, next to where it was. The exit code is 0 if the log is sound afterwards.

    \b
    Examples:
      barbicel log repair ./data/topics/orders-*/0
      barbicel log repair ./data/topics/orders-*/0 --apply
    """
    disk = RealDisk()
    done = _apply(disk, Layout(directory)) if apply else Repair(look(disk, directory, deep=True), None)
    if as_json:
        render_json(_describe(done))
    else:
        _tell(Page(), done)
    ctx.exit(done.exit_code)


def _apply(disk: Disk, layout: Layout) -> Repair[Findings]:
    """Raises LogLocked if the log is in use. What is planned is planned under the lock."""
    check_is_log(disk, layout)
    lock = disk.lock(layout.lock)
    try:
        before = look_under_lock(disk, layout)
        apply_plan(disk, before.plan, wall_clock_ms(), accept_loss=True)
        return Repair(before, look_under_lock(disk, layout))
    finally:
        lock.release()


def _describe(done: Repair[Findings]) -> dict[str, object]:
    plan = done.before.plan
    return {
        "applied": done.after is not None,
        "given_up": describe_ranges(done.before.lost),
        "evidence": [relative(plan, path) for path in done.evidence],
        "before": describe_findings(done.before),
        "after": None if done.after is None else describe_findings(done.after),
    }


def _tell(page: Page, done: Repair[Findings]) -> None:
    before, after = done
    if after is None:
        tell(page, before)
        if before.verdict:
            page.paragraph(DRY_RUN_TEXT)
        return
    tell_title(page, after)
    page.section("What was wrong", problems(before.plan))
    page.section("Given up", loss_lines(before.plan, before.lost))
    page.section("Done", actions(before.plan))
    page.section("Evidence", [relative(before.plan, path) for path in done.evidence])
    page.ending(f"Afterwards: {verdict_text(after)}")
