"""`barbicel topic describe`: one topic's partitions and settings."""

from __future__ import annotations

from typing import Any

import click
from kafka.admin import ConfigResource, ConfigResourceType

from barbicel.cli.options import given_name, json_option
from barbicel.cli.page import Page, number_table, render_json
from barbicel.cli.partitions import TopicRow, read_topics
from barbicel.cli.server import Server, asking, server_options

__all__ = ["describe_topic"]

COLUMNS = ("partition", "start", "end", "messages", "bytes")
SET_ON_TOPIC = "DYNAMIC_TOPIC_CONFIG"


@click.command("describe")
@click.argument("name", metavar="TOPIC", callback=given_name)
@click.option("--all", "is_all", is_flag=True, help="All settings, not only those set on the topic itself.")
@server_options
@json_option
def describe_topic(name: str, is_all: bool, server: Server, as_json: bool) -> None:
    """Tell the partitions of TOPIC, where they begin and end, and its settings.

    \b
    Example:
      barbicel topic describe orders --all

    \b
    Exit codes:
      0  told
      2  wrong usage, there is no such topic, or the server does not answer
    """
    with server.admin() as admin, asking(server):
        (topic,) = read_topics(admin, [name])
        settings = _settings(admin, name, is_all)
    if as_json:
        render_json(_describe(topic, settings))
    else:
        _tell(Page(), topic, settings)


def _settings(admin: Any, name: str, is_all: bool) -> dict[str, dict[str, Any]]:
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    found = admin.describe_configs([resource], config_filter="all")["topic"][name]
    return {key: row for key, row in found.items() if is_all or row["config_source"] == SET_ON_TOPIC}


def _describe(topic: TopicRow, settings: dict[str, dict[str, Any]]) -> dict[str, object]:
    return {
        "name": topic.name,
        "id": topic.id,
        "messages": topic.messages,
        "bytes": topic.bytes,
        "partitions": [{**row._asdict(), "messages": row.messages} for row in topic.partitions],
        "settings": {
            name: {"value": row["value"], "is_set_here": row["config_source"] == SET_ON_TOPIC}
            for name, row in settings.items()
        },
    }


def _tell(page: Page, topic: TopicRow, settings: dict[str, dict[str, Any]]) -> None:
    page.line(f"Topic {topic.name}, id {topic.id}")
    rows = [
        (row.partition, row.start_offset, row.end_offset, row.messages, row.bytes) for row in topic.partitions
    ]
    page.table("Partitions", number_table(COLUMNS, rows))
    told = [
        (name, row["value"], "the topic" if row["config_source"] == SET_ON_TOPIC else "the server")
        for name, row in settings.items()
    ]
    if told:
        columns = ("setting", "value", "set on")
        page.table("Settings", number_table(columns, told, words=columns))
    else:
        page.ending("All settings follow the server's; --all shows them.")
