"""`barbicel group reset`: where a consumer group goes on."""

from __future__ import annotations

from typing import Any, NamedTuple

import click
from kafka import TopicPartition
from kafka.errors import NoError

from barbicel.cli.mending import DRY_RUN_TEXT
from barbicel.cli.offsets import counted
from barbicel.cli.options import apply_option, given_name, json_option
from barbicel.cli.page import Page, number_table, render_json
from barbicel.cli.partitions import TopicRow, read_topics
from barbicel.cli.places import WHERE_HELP, Place, place_given
from barbicel.cli.server import Server, ServerRefused, asking, server_options

__all__ = ["reset_group"]

NO_SUCH_OFFSET = -1
_HINTS = {
    "UnknownMemberId": "a group that has members cannot be reset: stop its consumers",
    "InvalidGroupId": "the readers of queues cannot be reset: see 'barbicel queue'",
}


class Move(NamedTuple):
    """`before` is None where the group has committed nothing."""

    topic: str
    partition: int
    before: int | None
    after: int


@click.command("reset")
@click.argument("name", metavar="GROUP", callback=given_name)
@click.option("--topic", "topics", metavar="NAME", multiple=True, required=True, help="Which; repeatable.")
@click.option("--partition", type=click.IntRange(0), help="Only this partition.")
@click.option("--to", "place", callback=place_given, metavar="WHERE", required=True, help=f"{WHERE_HELP}.")
@apply_option
@server_options
@json_option
def reset_group(
    name: str,
    topics: tuple[str, ...],
    partition: int | None,
    place: Place,
    apply: bool,
    server: Server,
    as_json: bool,
) -> None:
    """Set where GROUP goes on. It must have no members meanwhile: stop its consumers first.

    An offset outside of a partition becomes its beginning or its end; a time is that of the first message
    which is not older, or the end.

    \b
    Examples:
      barbicel group reset billing --topic orders --to beginning
      barbicel group reset billing --topic orders --to 2026-05-01T12:00 --apply

    \b
    Exit codes:
      0  done, or with no --apply: shown
      2  wrong usage, or the server refuses it or does not answer
    """
    with server.admin() as admin, asking(server):
        moves = _plan(admin, name, read_topics(admin, topics), partition, place)
        if apply:
            _carry_out(admin, name, moves)
    if as_json:
        render_json({"group": name, "is_applied": apply, "moves": [move._asdict() for move in moves]})
        return
    page = Page()
    columns = ("topic", "partition", "before", "after")
    page.table(f"Group {name}", number_table(columns, moves, words=("topic",)))
    page.ending(f"Set in {counted(len(moves), 'partition')}." if apply else DRY_RUN_TEXT)


def _plan(admin: Any, group: str, topics: list[TopicRow], partition: int | None, place: Place) -> list[Move]:
    rows = {
        TopicPartition(topic.name, row.partition): row
        for topic in topics
        for row in topic.partitions
        if partition in (None, row.partition)
    }
    if not rows:
        raise ServerRefused(f"there is no partition {partition}")
    if any(row.end_offset is None for row in rows.values()):
        raise ServerRefused("a partition is offline", hint="see 'barbicel topic describe'")
    committed = admin.list_group_offsets({group: list(rows)})[group]
    wanted = _wanted(admin, list(rows), place)
    moves = []
    for one, row in sorted(rows.items()):
        start, end = row.start_offset or 0, row.end_offset or 0
        after = end if wanted[one] == NO_SUCH_OFFSET else min(max(wanted[one], start), end)
        told = committed.get(one)
        before = told.offset if told is not None and told.offset >= 0 else None
        moves.append(Move(one.topic, one.partition, before, after))
    return moves


def _wanted(admin: Any, partitions: list[TopicPartition], place: Place) -> dict[TopicPartition, int]:
    if place.offset is not None:
        return dict.fromkeys(partitions, place.offset)
    found = admin.list_partition_offsets(dict.fromkeys(partitions, place.spec()))
    return {one: told.offset for one, told in found.items()}


def _carry_out(admin: Any, group: str, moves: list[Move]) -> None:
    wanted = {TopicPartition(move.topic, move.partition): move.after for move in moves}
    for one, told in admin.reset_group_offsets(group, wanted).items():
        if told["error"] is not NoError:
            reason = told["error"].__name__.removesuffix("Error")
            raise ServerRefused(
                f"{group} in {one.topic}-{one.partition} was not set: {reason}", hint=_HINTS.get(reason)
            )
