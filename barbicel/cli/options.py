"""What several commands take, said once."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from barbicel.cli.group_findings import Selection
from barbicel.stroma.names import MAX_PARTITION

__all__ = [
    "apply_option",
    "confirm",
    "directory_argument",
    "directory_name",
    "given_name",
    "group_options",
    "json_option",
    "parse_pairs",
    "yes_option",
]


def directory_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The callback of whatever names a directory: an empty name would mean the root's files."""
    if value == "":
        raise click.BadParameter("the directory's name is empty", ctx, param)
    return value if value is None else value.rstrip("/") or "/"


def given_name(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """The callback of whatever names something, or several things: an empty word names nothing."""
    if value == "" or (isinstance(value, tuple) and "" in value):
        raise click.BadParameter("the name is empty", ctx, param)
    return value


directory_argument = click.argument("directory", metavar="DIR", callback=directory_name)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
apply_option = click.option("--apply", "apply", is_flag=True, help="Do it; without this nothing is changed.")


def confirm(question: str, yes: bool) -> None:
    """For what cannot be undone. Who cannot be asked has to have said --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Say --yes: there is no terminal to ask on")
    click.confirm(question, abort=True, err=True)


def parse_pairs(option: str, pairs: Sequence[str]) -> dict[str, str]:
    """What an option gives that is NAME=VALUE and may be repeated."""
    for pair in pairs:
        if "=" not in pair.strip("="):
            raise click.UsageError(f"{option} is NAME=VALUE, not {pair!r}")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


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
