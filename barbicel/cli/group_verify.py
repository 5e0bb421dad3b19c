"""`barbicel group verify`: what is wrong with groups and what a repair would do. Changes nothing."""

from __future__ import annotations

import click

from barbicel.cli.group_findings import Selection
from barbicel.cli.group_look import look
from barbicel.cli.group_report import describe_findings, tell
from barbicel.cli.options import group_options
from barbicel.cli.page import Page, render_json
from barbicel.disk import RealDisk

__all__ = ["verify"]


@click.command()
@group_options
@click.pass_context
def verify(ctx: click.Context, directory: str, selection: Selection, as_json: bool) -> None:
    """Tell what is wrong with the groups in DIR. Nothing is changed.

    \b
    Example:
      barbicel group verify ./data/groups

    \b
    Exit codes, the highest that applies:
      0  sound
      1  opening the groups does what is to be done
      2  wrong usage, not a directory of groups, or a file cannot be read
      3  a group is damaged
    """
    findings = look(RealDisk(), directory, selection)
    if as_json:
        render_json(describe_findings(findings))
    else:
        tell(Page(), findings)
    ctx.exit(findings.verdict.value)
