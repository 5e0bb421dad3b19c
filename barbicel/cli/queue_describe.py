"""`barbicel queue describe`: all numbers of one queue."""

from __future__ import annotations

import click

from barbicel.cli.kestrel import KestrelServer, kestrel_options, known_queue, queue_argument
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, pair_table, render_json
from barbicel.kestrel_compat.names import parse_queue_name, topic_of

__all__ = ["describe_queue"]


@click.command("describe")
@queue_argument
@kestrel_options
@json_option
def describe_queue(name: str, server: KestrelServer, as_json: bool) -> None:
    """Tell what the server counts of QUEUE, under Kestrel's names, and which topic it is.

    \b
    Example:
      barbicel queue describe orders

    \b
    Exit codes:
      0  told
      2  wrong usage, there is no such queue, or the server does not answer
    """
    with server.connected() as queues:
        stats = queues.stats(known_queue(queues, name)).get(name, {})
    topic = topic_of(parse_queue_name(name).master)
    if as_json:
        numbers = {key: int(value) if value.isdecimal() else value for key, value in stats.items()}
        render_json({"name": name, "topic": topic, "stats": numbers})
        return
    page = Page()
    page.line(f"Queue {name}, topic {topic}")
    page.table("Numbers", pair_table(stats.items()))
