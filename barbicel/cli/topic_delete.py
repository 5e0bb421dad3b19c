"""`barbicel topic delete`: topics with all that is in them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from barbicel.cli.endings import EXIT_REFUSED
from barbicel.cli.options import confirm, given_name, json_option, yes_option
from barbicel.cli.page import Page, render_json
from barbicel.cli.server import Server, asking, refusal_text, server_options

__all__ = ["delete_topics"]


@click.command("delete")
@click.argument("names", metavar="TOPIC...", callback=given_name, nargs=-1, required=True)
@yes_option
@server_options
@json_option
@click.pass_context
def delete_topics(ctx: click.Context, names: Sequence[str], yes: bool, server: Server, as_json: bool) -> None:
    """Delete topics, their messages, and what consumers have acknowledged of them.

    \b
    Example:
      barbicel topic delete orders --yes

    \b
    Exit codes:
      0  all are deleted
      2  wrong usage, or the server refuses one or does not answer
    """
    confirm(f"Delete {', '.join(names)} with all messages?", yes)
    with server.admin() as admin, asking(server):
        told = admin.delete_topics(list(dict.fromkeys(names)), raise_errors=False)["topics"]
    problems = {
        row["name"]: refusal_text(row["error_code"], row["error_message"])
        for row in told
        if row["error_code"]
    }
    deleted = [row["name"] for row in told if not row["error_code"]]
    if as_json:
        render_json({"deleted": deleted, "problems": problems})
    else:
        page = Page()
        page.section("Deleted", deleted)
        page.section("Not deleted", [f"{name}: {problem}" for name, problem in problems.items()])
    ctx.exit(EXIT_REFUSED if problems else 0)
