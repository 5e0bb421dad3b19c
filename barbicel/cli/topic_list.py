"""`barbicel topic list`: the topics of a running server."""

from __future__ import annotations

import click

from barbicel.cli.offsets import counted
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, number_table, render_json
from barbicel.cli.partitions import TopicRow, read_topics
from barbicel.cli.server import Server, asking, server_options

__all__ = ["list_topics"]


@click.command("list")
@server_options
@json_option
def list_topics(server: Server, as_json: bool) -> None:
    """Tell which topics there are, and how much is in them.

    \b
    Example:
      barbicel topic list --bootstrap localhost:9092

    \b
    Exit codes:
      0  told
      2  wrong usage, or the server does not answer
    """
    with server.admin() as admin, asking(server):
        topics = read_topics(admin)
    if as_json:
        render_json({"topics": [_describe(topic) for topic in topics]})
        return
    page = Page()
    page.line(f"Server {server.address}")
    if topics:
        rows = [(topic.name, len(topic.partitions), topic.messages, topic.bytes) for topic in topics]
        columns = ("topic", "partitions", "messages", "bytes")
        page.table("Topics", number_table(columns, rows, words=("topic",)))
    page.ending(f"{counted(len(topics), 'topic')}.")


def _describe(topic: TopicRow) -> dict[str, object]:
    return {
        "name": topic.name,
        "id": topic.id,
        "partitions": len(topic.partitions),
        "messages": topic.messages,
        "bytes": topic.bytes,
    }
