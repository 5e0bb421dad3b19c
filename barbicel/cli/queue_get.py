"""`barbicel queue get`: items out of a queue."""

from __future__ import annotations

import click

from barbicel.cli.kestrel import KestrelServer, Queues, kestrel_options, known_queue, queue_argument
from barbicel.cli.record_output import FORMATS, ItemOutput, format_option

__all__ = ["get_items"]

EXIT_EMPTY = 1


@click.command("get")
@queue_argument
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="How many at most.")
@click.option("--all", "is_all", is_flag=True, help="Until the queue is empty.")
@click.option("--wait", "wait_ms", metavar="MS", type=click.IntRange(0), default=0, help="For each, so long.")
@click.option("--create", is_flag=True, help="Make the queue or the fanout if there is none.")
@format_option
@kestrel_options
@click.pass_context
def get_items(
    ctx: click.Context,
    name: str,
    count: int,
    is_all: bool,
    wait_ms: int,
    create: bool,
    form: str,
    server: KestrelServer,
) -> None:
    """Take items out of QUEUE and print them.

    An item is done with when it has been printed: if that fails, it is in the queue again.

    \b
    Examples:
      barbicel queue get orders --count 10
      barbicel queue get orders --wait 1000 --format json

    \b
    Exit codes:
      0  at least one item was there
      1  the queue is empty
      2  wrong usage, there is no such queue, or the server does not answer
    """
    output = ItemOutput(FORMATS[form])
    with server.connected() as queues:
        if not create:
            known_queue(queues, name)
        taken = 0
        while (is_all or taken < count) and _take(queues, name, wait_ms, output):
            taken += 1
    ctx.exit(0 if taken else EXIT_EMPTY)


def _take(queues: Queues, name: str, wait_ms: int, output: ItemOutput) -> bool:
    item = queues.open_item(name, wait_ms)
    if item is None:
        return False
    output.write_item(name, item)
    queues.close_item(name)
    return True
