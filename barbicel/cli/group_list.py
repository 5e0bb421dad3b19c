"""`barbicel group list`: the consumer groups of a running server."""

from __future__ import annotations

import click

from barbicel.cli.group_positions import GroupRow, read_group_names, read_groups
from barbicel.cli.offsets import counted
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, number_table, render_json
from barbicel.cli.server import Server, asking, server_options
from barbicel.kestrel_compat.names import is_reserved_group

__all__ = ["list_groups"]


@click.command("list")
@server_options
@json_option
def list_groups(server: Server, as_json: bool) -> None:
    """Tell which consumer groups there are, and how far they are behind.

    The readers of Kestrel's queues are not here: see barbicel queue list.

    \b
    Example:
      barbicel group list

    \b
    Exit codes:
      0  told
      2  wrong usage, or the server does not answer
    """
    with server.admin() as admin, asking(server):
        names = [name for name in read_group_names(admin) if not is_reserved_group(name)]
        groups = read_groups(admin, names)
    if as_json:
        render_json({"groups": [_describe(group) for group in groups]})
        return
    page = Page()
    page.line(f"Server {server.address}")
    if groups:
        rows = [(group.name, group.state, len(group.members), group.lag) for group in groups]
        columns = ("group", "state", "members", "lag")
        page.table("Groups", number_table(columns, rows, words=("group", "state")))
    page.ending(f"{counted(len(groups), 'group')}.")


def _describe(group: GroupRow) -> dict[str, object]:
    return {"name": group.name, "state": group.state, "members": len(group.members), "lag": group.lag}
