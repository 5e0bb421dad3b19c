"""`barbicel queue list`: Kestrel's queues on a running server."""

from __future__ import annotations

import click

from barbicel.cli.kestrel import KestrelServer, kestrel_options
from barbicel.cli.offsets import counted
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, number_table, render_json
from barbicel.gateway.client.kestrel_queues import number_of

__all__ = ["list_queues"]

# Kestrel's name of a number → its column here.
NUMBERS = {
    "items": "items",
    "bytes": "bytes",
    "open_transactions": "open",
    "waiters": "waiting",
    "age": "age ms",
    "expired_items": "expired",
    "discarded": "discarded",
}


@click.command("list")
@kestrel_options
@json_option
def list_queues(server: KestrelServer, as_json: bool) -> None:
    """Tell which queues there are, and what is in them. A fanout is MASTER+CHILD.

    \b
    Example:
      barbicel queue list --kestrel localhost:22133

    \b
    Exit codes:
      0  told
      2  wrong usage, or the server does not answer
    """
    with server.connected() as queues:
        stats = queues.stats()
        names = sorted({*queues.names(), *stats})
    rows = {name: {key: number_of(stats.get(name, {}), key) for key in NUMBERS} for name in names}
    if as_json:
        render_json({"queues": [{"name": name, **numbers} for name, numbers in rows.items()]})
        return
    page = Page()
    page.line(f"Server {server.address}")
    if rows:
        columns = ("queue", *NUMBERS.values())
        cells = [(name, *numbers.values()) for name, numbers in rows.items()]
        page.table("Queues", number_table(columns, cells, words=("queue",)))
    page.ending(f"{counted(len(rows), 'queue')}.")
