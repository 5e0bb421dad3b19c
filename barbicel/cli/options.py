"""What several commands take, said once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from barbicel.cli.group_findings import Selection
from barbicel.stroma.names import MAX_PARTITION

__all__ = ["apply_option", "directory_argument", "directory_name", "group_options", "json_option"]


def directory_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The callback of whatever names a directory: an empty name would mean the root's files."""
    if value == "":
        raise click.BadParameter("the directory's name is empty", ctx, param)
    return value if value is None else value.rstrip("/") or "/"


directory_argument = click.argument("directory", metavar="DIR", callback=directory_name)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
apply_option = click.option("--apply", "apply", is_flag=True, help="Do it; without this nothing is changed.")

_GROUP_OPTIONS = (
    directory_argument,
    click.option("--topic", metavar="NAME", help="Only groups on this topic."),
    click.option("--partition", type=click.IntRange(0, MAX_PARTITION), help="Only groups on this partition."),
    click.option("--group", metavar="NAME", help="Only groups of this name."),
    json_option,
)


def group_options(command: Callable[..., None]) -> Callable[..., None]:
    """What every group command takes: `directory`, `as_json`, and the options that become its `selection`."""

    @functools.wraps(command)
    def selecting(
        *arguments: Any, topic: str | None, partition: int | None, group: str | None, **rest: Any
    ) -> None:
        command(*arguments, selection=Selection(topic, partition, group), **rest)

    for option in reversed(_GROUP_OPTIONS):
        selecting = option(selecting)
    return selecting
