"""`barbicel group verify`: what is wrong with groups and what a repair would do. Changes nothing."""

from __future__ import annotations

import click

from barbicel.cli.group_findings import Selection, look
from barbicel.cli.group_report import (
    describe_findings,
    group_options,
    tell_findings,
    tell_title,
    verdict_text,
)
from barbicel.cli.log_report import Page, render_json
from barbicel.disk import RealDisk

__all__ = ["verify"]


@click.command()
@group_options
@click.pass_context
def verify(
    ctx: click.Context,
    directory: str,
    topic: str | None,
    partition: int | None,
    group: str | None,
    as_json: bool,
) -> None:
    """Tell what is wrong with the groups in DIR. Nothing is changed.

    \b
    Exit codes, the highest that applies:
      0  sound
      1  opening the groups does what is to be done
      2  wrong usage, not a directory of groups, or a file cannot be read
      3  a group is damaged
    """
    findings = look(RealDisk(), directory, Selection(topic, partition, group))
    if as_json:
        render_json(describe_findings(findings))
    else:
        page = Page()
        tell_title(page, findings)
        tell_findings(page, findings)
        page.paragraph("")
        page.paragraph(verdict_text(findings))
    ctx.exit(findings.verdict.value)
