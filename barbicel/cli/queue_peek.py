"""`barbicel queue peek`: the next item of a queue, which stays where it is."""

from __future__ import annotations

import click

from barbicel.cli.kestrel import KestrelServer, kestrel_options, known_queue, queue_argument
from barbicel.cli.record_output import FORMATS, ItemOutput, format_option

__all__ = ["peek_item"]

EXIT_EMPTY = 1


@click.command("peek")
@queue_argument
@format_option
@kestrel_options
@click.pass_context
def peek_item(ctx: click.Context, name: str, form: str, server: KestrelServer) -> None:
    """Print the next item of QUEUE and leave it there.

    \b
    Example:
      barbicel queue peek orders

    \b
    Exit codes:
      0  printed
      1  the queue is empty
      2  wrong usage, there is no such queue, or the server does not answer
    """
    with server.connected() as queues:
        item = queues.peek(known_queue(queues, name))
    if item is not None:
        ItemOutput(FORMATS[form]).write_item(name, item)
    ctx.exit(0 if item is not None else EXIT_EMPTY)
