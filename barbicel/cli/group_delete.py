"""`barbicel group delete`: consumer groups and what they have committed."""

from __future__ import annotations

from collections.abc import Sequence

import click

from barbicel.cli.endings import EXIT_REFUSED
from barbicel.cli.options import confirm, given_name, json_option, yes_option
from barbicel.cli.page import Page, render_json
from barbicel.cli.server import Server, asking, server_options

__all__ = ["delete_groups"]

_REASONS = {
    "NonEmptyGroupError": "it has members: stop its consumers first",
    "GroupIdNotFoundError": "there is no such group",
    "InvalidGroupIdError": "it reads a queue: see 'barbicel queue delete'",
}


@click.command("delete")
@click.argument("names", metavar="GROUP...", callback=given_name, nargs=-1, required=True)
@yes_option
@server_options
@json_option
@click.pass_context
def delete_groups(ctx: click.Context, names: Sequence[str], yes: bool, server: Server, as_json: bool) -> None:
    """Delete consumer groups. What they have committed is forgotten.

    \b
    Example:
      barbicel group delete billing --yes

    \b
    Exit codes:
      0  all are deleted
      2  wrong usage, or the server refuses one or does not answer
    """
    confirm(f"Delete {', '.join(names)}, and forget what was committed?", yes)
    with server.admin() as admin, asking(server):
        told = admin.delete_groups(list(dict.fromkeys(names)))
    deleted = [name for name, outcome in told.items() if outcome == "OK"]
    problems = {name: _REASONS.get(outcome, outcome) for name, outcome in told.items() if outcome != "OK"}
    if as_json:
        render_json({"deleted": deleted, "problems": problems})
    else:
        page = Page()
        page.section("Deleted", deleted)
        page.section("Not deleted", [f"{name}: {problem}" for name, problem in problems.items()])
    ctx.exit(EXIT_REFUSED if problems else 0)
