"""`barbicel topic alter`: settings of a topic, and more partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

from barbicel.cli.options import given_name, json_option, parse_pairs
from barbicel.cli.page import Page, render_json
from barbicel.cli.server import Server, ServerRefused, asking, refusal_text, server_options
from barbicel.cli.topic_create import set_option

__all__ = ["alter_topic"]


@click.command("alter")
@click.argument("name", metavar="TOPIC", callback=given_name)
@set_option
@click.option(
    "--unset", "names", metavar="NAME", multiple=True, help="Follow the server's setting again; repeatable."
)
@click.option("--partitions", type=click.IntRange(1), help="How many there shall be; never fewer than now.")
@server_options
@json_option
def alter_topic(
    name: str,
    pairs: Sequence[str],
    names: Sequence[str],
    partitions: int | None,
    server: Server,
    as_json: bool,
) -> None:
    """Change settings of TOPIC, or give it more partitions.

    With more partitions, keys go to other partitions than before.

    \b
    Examples:
      barbicel topic alter orders --set retention.ms=86400000 --unset segment.bytes
      barbicel topic alter orders --partitions 6

    \b
    Exit codes:
      0  changed
      2  wrong usage, or the server refuses it or does not answer
    """
    changes: dict[str, Any] = dict(parse_pairs("--set", pairs))
    if both := sorted(changes.keys() & set(names)):
        raise click.UsageError(f"{', '.join(both)}: set or unset, not both")
    changes |= dict.fromkeys(names, (AlterConfigOp.DELETE, None))
    if not changes and partitions is None:
        raise click.UsageError("nothing to change: say --set, --unset or --partitions")
    with server.admin() as admin, asking(server):
        if changes:
            _alter_settings(admin, name, changes)
        if partitions is not None:
            _add_partitions(admin, name, partitions)
    if as_json:
        render_json(
            {
                "topic": name,
                "set": parse_pairs("--set", pairs),
                "unset": list(names),
                "partitions": partitions,
            }
        )
    else:
        Page().line(f"Changed {name}.")


def _alter_settings(admin: Any, name: str, changes: dict[str, Any]) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, name, changes)
    told = admin.alter_configs([resource], raise_on_unknown=False)["topic"][name]
    if told != "OK":
        raise ServerRefused(told.partition("Error: ")[2] or told)


def _add_partitions(admin: Any, name: str, partitions: int) -> None:
    (told,) = admin.create_partitions({name: partitions}, raise_errors=False).results
    if told.error_code:
        raise ServerRefused(refusal_text(told.error_code, told.error_message))
