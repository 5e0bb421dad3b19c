"""`barbicel group describe`: where a consumer group is, and who is in it."""

from __future__ import annotations

import click

from barbicel.cli.group_positions import GroupRow, read_groups
from barbicel.cli.offsets import counted
from barbicel.cli.options import given_name, json_option
from barbicel.cli.page import Page, number_table, render_json
from barbicel.cli.server import Server, asking, server_options

__all__ = ["describe_group"]

COLUMNS = ("topic", "partition", "committed", "end", "lag", "member")


@click.command("describe")
@click.argument("name", metavar="GROUP", callback=given_name)
@server_options
@json_option
def describe_group(name: str, server: Server, as_json: bool) -> None:
    """Tell what GROUP has committed, how far it is behind, and who has which partition.

    \b
    Example:
      barbicel group describe billing

    \b
    Exit codes:
      0  told
      2  wrong usage, there is no such group, or the server does not answer
    """
    with server.admin() as admin, asking(server):
        (group,) = read_groups(admin, [name])
    if as_json:
        render_json(_describe(group))
    else:
        _tell(Page(), group)


def _describe(group: GroupRow) -> dict[str, object]:
    return {
        "name": group.name,
        "state": group.state,
        "lag": group.lag,
        "positions": [{**position._asdict(), "lag": position.lag} for position in group.positions],
        "members": [member._asdict() for member in group.members],
    }


def _tell(page: Page, group: GroupRow) -> None:
    page.line(f"Group {group.name}, {group.state}")
    rows = [(*position[:4], position.lag, position.member) for position in group.positions]
    if rows:
        page.table("Positions", number_table(COLUMNS, rows, words=("topic", "member")))
    members = [(one.member_id, one.client_id, one.host, len(one.partitions)) for one in group.members]
    if members:
        columns = ("member", "client", "host", "partitions")
        page.table("Members", number_table(columns, members, words=columns[:3]))
    page.ending(f"{counted(len(group.members), 'member')}, {counted(group.lag, 'message')} behind.")
