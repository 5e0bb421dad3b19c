"""`barbicel log repair`: carry out what `verify` prints, giving up what is lost. A dry run by default."""

from __future__ import annotations

from typing import NamedTuple

import click

from barbicel.cli.log_findings import Findings, check_is_log, look, look_under_lock
from barbicel.cli.log_report import (
    Page,
    describe_findings,
    describe_ranges,
    log_directory,
    problems,
    relative,
    render_json,
    tell_findings,
    tell_title,
    verdict_text,
)
from barbicel.clock import wall_clock_ms
from barbicel.disk import Disk, RealDisk
from barbicel.keratin.layout import Layout
from barbicel.keratin.repair import apply_plan

__all__ = ["repair"]


class _Repair(NamedTuple):
    """Before and after; `after` is None if nothing was done."""

    before: Findings
    after: Findings | None

    @property
    def evidence(self) -> tuple[str, ...]:
        """The files that were kept aside."""
        after = () if self.after is None else self.after.asides
        return tuple(path for path in after if path not in self.before.asides)


@click.command()
@click.argument("directory", metavar="DIR", callback=log_directory)
@click.option("--apply", "apply", is_flag=True, help="Do it; without this nothing is changed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def repair(ctx: click.Context, directory: str, apply: bool, as_json: bool) -> None:
    """Mend the log in DIR, and give up the offsets that are lost.

    Without --apply it only tells what it would do, with the exit codes of 'verify'. What a repair cuts off
    or replaces it keeps aside, next to where it was. The exit code is 0 if the log is sound afterwards.
    """
    disk = RealDisk()
    done = _apply(disk, Layout(directory)) if apply else _Repair(look(disk, directory, deep=True), None)
    if as_json:
        render_json(_describe(done))
    elif done.after is None:
        _tell_dry_run(done.before)
    else:
        _tell_repair(done, done.after)
    ctx.exit((done.after or done.before).verdict.value)


def _apply(disk: Disk, layout: Layout) -> _Repair:
    """Raises LogLocked if the log is in use. What is planned is planned under the lock."""
    check_is_log(disk, layout)
    lock = disk.lock(layout.lock)
    try:
        before = look_under_lock(disk, layout)
        apply_plan(disk, before.plan, wall_clock_ms(), accept_loss=True)
        return _Repair(before, look_under_lock(disk, layout))
    finally:
        lock.release()


def _describe(done: _Repair) -> dict[str, object]:
    plan = done.before.plan
    return {
        "applied": done.after is not None,
        "given_up": describe_ranges(done.before.lost),
        "evidence": [relative(plan, path) for path in done.evidence],
        "before": describe_findings(done.before),
        "after": None if done.after is None else describe_findings(done.after),
    }


def _tell_dry_run(findings: Findings) -> None:
    page = Page()
    tell_title(page, findings)
    tell_findings(page, findings)
    page.paragraph("")
    page.paragraph(verdict_text(findings))
    if findings.verdict:
        page.paragraph("Nothing was changed: this was a dry run, --apply carries it out.")


def _tell_repair(done: _Repair, after: Findings) -> None:
    plan = done.before.plan
    page = Page()
    tell_title(page, after)
    page.section("What was wrong", problems(plan))
    page.section("Done", [relative(plan, line) for line in plan.actions])
    page.section("Given up", [f"offsets {item}" for item in done.before.lost])
    page.section("Evidence", [relative(plan, path) for path in done.evidence])
    page.paragraph("")
    page.paragraph(f"Afterwards: {verdict_text(after)}")
