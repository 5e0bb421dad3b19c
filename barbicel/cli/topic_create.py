"""`barbicel topic create`: a new topic."""

from __future__ import annotations

from collections.abc import Sequence

import click

from barbicel.cli.offsets import counted
from barbicel.cli.options import given_name, json_option, parse_pairs
from barbicel.cli.page import Page, render_json
from barbicel.cli.server import Server, ServerRefused, asking, refusal_text, server_options

__all__ = ["create_topic", "set_option"]

ALREADY_EXISTS = 36
AS_THE_SERVER_SAYS = -1

set_option = click.option(
    "--set", "pairs", metavar="NAME=VALUE", multiple=True, help="A setting of the topic; repeatable."
)


@click.command("create")
@click.argument("name", metavar="TOPIC", callback=given_name)
@click.option("--partitions", type=click.IntRange(1), help="Default: num.partitions of the server.")
@set_option
@click.option("--if-absent", is_flag=True, help="Do nothing if there is such a topic.")
@server_options
@json_option
def create_topic(
    name: str, partitions: int | None, pairs: Sequence[str], if_absent: bool, server: Server, as_json: bool
) -> None:
    """Make the topic TOPIC.

    \b
    Example:
      barbicel topic create orders --partitions 3 --set retention.ms=86400000

    \b
    Exit codes:
      0  it is there
      2  wrong usage, or the server refuses it or does not answer
    """
    wanted = {"num_partitions": partitions or AS_THE_SERVER_SAYS, "configs": parse_pairs("--set", pairs)}
    with server.admin() as admin, asking(server):
        (made,) = admin.create_topics({name: wanted}, raise_errors=False)["topics"]
    is_new = not made["error_code"]
    if not is_new and not (if_absent and made["error_code"] == ALREADY_EXISTS):
        raise ServerRefused(refusal_text(made["error_code"], made["error_message"]))
    if as_json:
        render_json(
            {"topic": name, "is_new": is_new, "partitions": made["num_partitions"] if is_new else None}
        )
    elif is_new:
        Page().line(f"Made {name} with {counted(made['num_partitions'], 'partition')}.")
    else:
        Page().line(f"There is a topic {name} already. Nothing was changed.")
