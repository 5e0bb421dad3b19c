"""`barbicel log verify`: what is wrong with a log and what a repair would do about it. Changes nothing."""

from __future__ import annotations

import click

from barbicel.cli.log_findings import look
from barbicel.cli.log_report import describe_findings, tell
from barbicel.cli.options import directory_argument, json_option
from barbicel.cli.page import Page, render_json
from barbicel.disk import RealDisk

__all__ = ["verify"]


@click.command()
@directory_argument
@click.option("--deep", is_flag=True, help="Read every record, not only what the manifest cannot vouch for.")
@json_option
@click.pass_context
def verify(ctx: click.Context, directory: str, deep: bool, as_json: bool) -> None:
    """Tell what is wrong with the log in DIR. Nothing is changed.

    \b
    Example:
      barbicel log verify ./data/topics/orders-*/0 --deep

    \b
    Exit codes:
      0  sound
      1  no offset is lost, opening the log does what is to be done
      2  wrong usage, not a log, or it cannot be read
      3  offsets are lost or a file is damaged
    """
    findings = look(RealDisk(), directory, deep=deep)
    if as_json:
        render_json(describe_findings(findings))
    else:
        tell(Page(), findings)
    ctx.exit(findings.verdict.value)
