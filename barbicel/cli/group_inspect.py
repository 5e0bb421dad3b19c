"""`barbicel group inspect`: what groups have consumed, and the files that say so. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.table import Table

from barbicel.cli.group_findings import Finding, Findings, Selection, Summary, Verdict
from barbicel.cli.group_look import SAMPLE_ENTRIES, look
from barbicel.cli.group_report import describe_findings, name_of, tell_findings, tell_title, verdict_text
from barbicel.cli.offsets import counted
from barbicel.cli.options import group_options
from barbicel.cli.page import Page, number_table, render_json, time_text
from barbicel.cli.plain import plain
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.disk import RealDisk
from barbicel.errors import offsets_text

__all__ = ["inspect"]


@click.command()
@group_options
@click.option("--deep", is_flag=True, help=f"List the first {SAMPLE_ENTRIES} entries of each group's tables.")
def inspect(directory: str, selection: Selection, as_json: bool, deep: bool) -> None:
    """Show what the groups in DIR have consumed. Nothing is changed.

    \b
    Example:
      barbicel group inspect ./data/groups --topic orders

    \b
    Exit codes:
      0  shown
      2  wrong usage, or the directory cannot be read
    """
    findings = look(RealDisk(), directory, selection, deep=deep)
    if as_json:
        render_json(describe_findings(findings))
    else:
        _tell(Page(), findings)


def _tell(page: Page, findings: Findings) -> None:
    tell_title(page, findings)
    if findings.groups:
        page.table("Groups", _state_table(findings))
        page.table("Details", _detail_table(findings))
    page.section("Next deadlines (UTC)", [line for item in findings.groups for line in _deadline_lines(item)])
    page.section("Committed", [line for item in findings.groups for line in _commit_lines(item)])
    for finding in findings.groups:
        page.section(name_of(finding), _content_lines(finding))
    tell_findings(page, findings)
    page.ending(verdict_text(findings))


def _state_table(findings: Findings) -> Table:
    return number_table(
        ("no.", "partition", "group", "acked until", "beyond", "inflight", "state"),
        (
            (
                number,
                plain(f"{finding.key.topic}-{finding.key.partition}"),
                plain(finding.key.group),
                *_numbers(finding.state),
                _mark(finding),
            )
            for number, finding in enumerate(findings.groups, 1)
        ),
        words=("partition", "group", "state"),
    )


def _numbers(state: Summary | None) -> tuple[object, ...]:
    if state is None:
        return (None,) * 3
    beyond = f"{state.acked_offsets} in {state.acked_ranges}" if state.acked_ranges else 0
    return state.acked_until, beyond, state.inflight


def _mark(finding: Finding) -> str:
    if finding.verdict is Verdict.RECOVERABLE:
        return "torn" if finding.torn is not None else "void" if finding.is_delta_void else "no delta"
    return finding.verdict.name.lower()


def _detail_table(findings: Findings) -> Table:
    return number_table(
        ("no.", "releases", "generation", "snapshot bytes", "delta bytes", "events"),
        (
            (
                number,
                None if finding.state is None else finding.state.releases,
                finding.generation,
                finding.snapshot_bytes,
                finding.delta_bytes,
                finding.events,
            )
            for number, finding in enumerate(findings.groups, 1)
        ),
    )


def _deadline_lines(finding: Finding) -> list[str]:
    state = finding.state
    if state is None or state.next_deadline_ms is None:
        return []
    return [f"{name_of(finding)}: {time_text(state.next_deadline_ms)}"]


def _commit_lines(finding: Finding) -> list[str]:
    state = finding.state
    if state is None or not state.is_committed:
        return []
    epoch = "no leader epoch" if state.leader_epoch is None else f"leader epoch {state.leader_epoch}"
    metadata = "null" if state.metadata is None else repr(state.metadata.decode("utf-8", "backslashreplace"))
    return [f"{name_of(finding)}: {epoch}, metadata {metadata}"]


def _content_lines(finding: Finding) -> list[str]:
    """Empty unless the look was a deep one."""
    state = finding.state
    if state is None or state.sample is None:
        return []
    sample = state.sample
    return [
        *_bounded([f"acked {offsets_text(*item)}" for item in sample.ranges], state.acked_ranges, "ranges"),
        *_bounded(
            [
                f"inflight {offset}: {_deadline_text(entry.deadline_ts_ms)}, delivery {entry.epoch}"
                for offset, entry in sample.inflight
            ],
            state.inflight,
            "inflight",
        ),
        *_bounded(
            [f"released {offset}: delivered {counted(epoch, 'time')}" for offset, epoch in sample.releases],
            state.releases,
            "releases",
        ),
    ]


def _bounded(lines: Sequence[str], total: int, what: str) -> list[str]:
    rest = total - len(lines)
    return [*lines, *([f"and {rest} more {what}"] if rest else [])]


def _deadline_text(deadline_ms: int) -> str:
    return "no deadline" if deadline_ms == NO_DEADLINE_MS else f"until {time_text(deadline_ms)}"
