"""`barbicel queue flush`: a queue without its items."""

from __future__ import annotations

import click

from barbicel.cli.kestrel import KestrelServer, kestrel_options, known_queue, queue_argument
from barbicel.cli.options import confirm, json_option, yes_option
from barbicel.cli.page import Page, render_json

__all__ = ["flush_queue"]


@click.command("flush")
@queue_argument
@yes_option
@kestrel_options
@json_option
def flush_queue(name: str, yes: bool, server: KestrelServer, as_json: bool) -> None:
    """Drop all items of QUEUE. What is open at this moment stays open.

    \b
    Example:
      barbicel queue flush orders --yes

    \b
    Exit codes:
      0  dropped
      2  wrong usage, there is no such queue, or the server does not answer
    """
    confirm(f"Drop all items of {name}?", yes)
    with server.connected() as queues:
        queues.flush(known_queue(queues, name))
    if as_json:
        render_json({"flushed": name})
    else:
        Page().line(f"Dropped all items of {name}.")
