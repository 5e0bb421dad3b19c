"""`barbicel group repair`: make damaged groups usable: redelivery, never loss. A dry run by default."""

from __future__ import annotations

import click

from barbicel.cli.group_findings import Finding, Findings, Selection, Verdict
from barbicel.cli.group_look import Rebuild, check_is_store, look, look_under_lock
from barbicel.cli.group_report import (
    actions,
    describe_findings,
    describe_redelivery,
    name_of,
    problems,
    redelivery,
    relative,
    tell,
    tell_title,
    verdict_text,
)
from barbicel.cli.mending import DRY_RUN_TEXT, Repair
from barbicel.cli.options import apply_option, directory_name, group_options
from barbicel.cli.page import Page, render_json
from barbicel.clock import wall_clock_ms
from barbicel.codecs.stroma_format import MAX_OFFSET
from barbicel.disk import Disk, RealDisk, copy_file, replace_file
from barbicel.keratin import Log
from barbicel.stroma.group import Group
from barbicel.stroma.layout import GroupFiles, StoreLayout
from barbicel.stroma.names import GroupKey, render_full_name
from barbicel.stroma.recovery import plan_group
from barbicel.stroma.repair import rebuild_group

__all__ = ["repair"]


@click.command()
@group_options
@apply_option
@click.option(
    "--start-offset",
    type=click.IntRange(0, MAX_OFFSET),
    help="The first offset that the partition's log still has; 0 by default.",
)
@click.option(
    "--log",
    "log",
    metavar="DIR",
    callback=directory_name,
    help="Take the start offset from the log in this directory.",
)
@click.option("--discard-delta", is_flag=True, help="Rebuild damaged groups without what their deltas say.")
@click.pass_context
def repair(
    ctx: click.Context,
    directory: str,
    selection: Selection,
    as_json: bool,
    apply: bool,
    start_offset: int | None,
    log: str | None,
    discard_delta: bool,
) -> None:
    """Mend the groups in DIR: what is not known to be acked is delivered again.

    Without --apply it only tells what it would do, with the exit codes of 'verify'. What a repair cuts off
    or replaces it keeps aside, next to where it was. The exit code is 0 if all is sound afterwards.

    A damaged group starts at the start offset, and what is readable of its delta still counts.

    \b
    Example:
      barbicel group repair ./data/groups --group billing --apply
    """
    if log is not None and start_offset is not None:
        raise click.UsageError("--log and --start-offset exclude each other", ctx)
    disk = RealDisk()
    rebuild = Rebuild(_start_offset(log) if log is not None else start_offset or 0, not discard_delta)
    done = (
        _apply(disk, StoreLayout(directory), selection, rebuild)
        if apply
        else Repair(look(disk, directory, selection, rebuild), None)
    )
    _check_one_partition(done.before, rebuild)
    if as_json:
        render_json(_describe(done))
    else:
        _tell(Page(), done)
    ctx.exit(done.exit_code)


def _start_offset(path: str) -> int:
    with Log.open(path, read_only=True) as log:
        return log.start_offset


def _check_one_partition(findings: Findings, rebuild: Rebuild) -> None:
    """Each partition has its own start offset: that of another one would skip what nobody has seen."""
    partitions = {finding.key[:2] for finding in findings.groups if finding.damage is not None}
    if rebuild.start_offset and len(partitions) > 1:
        raise click.UsageError(
            f"damaged groups of {len(partitions)} partitions cannot have one start offset: "
            "choose with --topic and --partition"
        )


# --- doing it -------------------------------------------------------------------------------------


def _apply(disk: Disk, layout: StoreLayout, selection: Selection, rebuild: Rebuild) -> Repair[Findings]:
    """Raises LogLocked if the groups are in use. What is planned is planned under the lock."""
    check_is_store(disk, layout)
    lock = disk.lock(layout.lock)
    try:
        before = look_under_lock(disk, layout, selection, rebuild)
        _check_one_partition(before, rebuild)
        mendable = _mendable(before)
        if mendable:
            disk.make_directory(layout.temporaries)
        for finding in mendable:
            _mend(disk, finding, rebuild, wall_clock_ms())
        return Repair(before, look_under_lock(disk, layout, selection, rebuild))
    finally:
        lock.release()


def _mendable(findings: Findings) -> list[Finding]:
    """Those that need something to be done, and for which something can be done."""
    return [
        finding for finding in findings.groups if finding.verdict in (Verdict.RECOVERABLE, Verdict.DAMAGED)
    ]


def _mend(disk: Disk, finding: Finding, rebuild: Rebuild, now_ms: int) -> None:
    """On return the group's files are sound and durable."""
    if not finding.has_name:
        _write_name(disk, finding.files, finding.key, now_ms)
    plan = plan_group(disk, finding.files, finding.key)
    if plan.damage is not None:
        rebuild_group(disk, plan, rebuild.start_offset, now_ms, use_delta=rebuild.use_delta)
        return
    group = Group(disk, plan, now_ms)  # as the store opens it
    try:
        group.sync()
    finally:
        group.close()


def _write_name(disk: Disk, files: GroupFiles, key: GroupKey, now_ms: int) -> None:
    if disk.exists(files.name):
        while disk.exists(f"{files.name}.corrupt-{now_ms}"):
            now_ms += 1
        copy_file(disk, files.name, f"{files.name}.corrupt-{now_ms}")
    name = render_full_name(key).encode("ascii")
    replace_file(disk, files.temporary(files.name), files.name, [name])


# --- telling it -----------------------------------------------------------------------------------


def _describe(done: Repair[Findings]) -> dict[str, object]:
    return {
        "applied": done.after is not None,
        "redelivery": [describe_redelivery(finding) for finding in _mendable(done.before)],
        "evidence": [relative(done.before, path) for path in done.evidence],
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
    mended = _mendable(before)
    for title, lines_of in (("What was wrong", problems), ("Done", actions)):
        page.section(title, [relative(after, line) for finding in mended for line in lines_of(finding)])
    page.section(
        "Delivered again",
        [f"{name_of(finding)}: {text}" for finding in mended if (text := redelivery(finding))],
    )
    page.section("Evidence", [relative(after, path) for path in done.evidence])
    page.section("Left as it is", _left_lines(after))
    page.section("Left as it is, nobody's", [relative(after, path) for path in after.unnamed])
    page.ending(f"Afterwards: {verdict_text(after)}")


def _left_lines(after: Findings) -> list[str]:
    unsound = [finding for finding in after.groups if finding.verdict is not Verdict.SOUND]
    return [relative(after, line) for finding in unsound for line in problems(finding)]
