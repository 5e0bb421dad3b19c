"""`barbicel queue delete`: a queue with its items, or a fanout."""

from __future__ import annotations

import click

from barbicel.cli.kestrel import KestrelServer, kestrel_options, known_queue, queue_argument
from barbicel.cli.options import confirm, json_option, yes_option
from barbicel.cli.page import Page, render_json

__all__ = ["delete_queue"]


@click.command("delete")
@queue_argument
@yes_option
@kestrel_options
@json_option
def delete_queue(name: str, yes: bool, server: KestrelServer, as_json: bool) -> None:
    """Delete QUEUE with its items; MASTER+CHILD is a fanout alone.

    \b
    Example:
      barbicel queue delete orders+audit --yes

    \b
    Exit codes:
      0  deleted
      2  wrong usage, there is no such queue, or the server does not answer
    """
    confirm(f"Delete the queue {name} with all of its items?", yes)
    with server.connected() as queues:
        queues.delete(known_queue(queues, name))
    if as_json:
        render_json({"deleted": name})
    else:
        Page().line(f"Deleted {name}.")
