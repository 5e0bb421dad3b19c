"""`barbicel queue put`: items into a queue."""

from __future__ import annotations

from collections.abc import Sequence

import click

from barbicel.cli.inputs import input_lines, whole_input
from barbicel.cli.kestrel import KestrelServer, kestrel_options, queue_argument
from barbicel.cli.offsets import counted
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, render_json

__all__ = ["put_items"]


@click.command("put")
@queue_argument
@click.argument("items", metavar="[ITEM]...", nargs=-1)
@click.option("--file", metavar="FILE", help="Take items from here, one a line; without any, from the input.")
@click.option("--whole", is_flag=True, help="All of the file or the input is one item.")
@click.option(
    "--expiry", type=click.IntRange(0, 999_999), default=0, help="Each expires after so many seconds."
)
@kestrel_options
@json_option
def put_items(
    name: str,
    items: Sequence[str],
    file: str | None,
    whole: bool,
    expiry: int,
    server: KestrelServer,
    as_json: bool,
) -> None:
    """Put items into QUEUE: those that are given, or the lines of a file or of the input.

    Each is stored durably before the next is sent. The queue is made if there is none.

    \b
    Examples:
      barbicel queue put orders tea coffee
      barbicel queue put orders --file orders.txt

    \b
    Exit codes:
      0  all are stored
      2  wrong usage, or the server refuses an item or does not answer
    """
    if items and (file is not None or whole):
        raise click.UsageError("items are given, or --file or --whole: not both")
    data = [item.encode() for item in items] if items else whole_input(file) if whole else input_lines(file)
    stored = 0
    with server.connected() as queues:
        for item in data:
            queues.put(name, item, expiry)
            stored += 1
    if as_json:
        render_json({"queue": name, "stored": stored})
    else:
        Page().line(f"Stored {counted(stored, 'item')} in {name}.")
