"""`barbicel consume`: messages of a topic, printed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import click
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from barbicel.cli.options import given_name
from barbicel.cli.places import WHERE_HELP, Place, place_given
from barbicel.cli.record_output import FORMATS, ItemOutput, Record, format_option, headers_of
from barbicel.cli.server import Server, ServerRefused, asking, server_options
from barbicel.clock import steady_clock_ms

__all__ = ["consume"]

POLL_MS = 250
POLL_RECORDS = 2000
# How long nothing may come of what there is to read, or of the partitions that a group is to give.
SILENCE_MS = 60_000
SETTINGS = {
    "enable_auto_commit": False,
    "allow_auto_create_topics": False,
    "fetch_max_bytes": 16 << 20,
    "max_partition_fetch_bytes": 4 << 20,
    "retry_backoff_ms": 20,
}
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


@click.command()
@click.argument("topic", metavar="TOPIC", callback=given_name)
@click.option(
    "--from", "place", callback=place_given, metavar="WHERE", help=f"{WHERE_HELP}. Default: beginning."
)
@click.option("--partition", type=click.IntRange(0), help="Only this partition.")
@click.option("--count", type=click.IntRange(1), help="So many messages at most.")
@click.option("--follow", is_flag=True, help="Wait for more at the end, until you interrupt it.")
@click.option(
    "--group",
    metavar="NAME",
    callback=given_name,
    help="Go on where this group is, and commit what was printed.",
)
@click.option("--headers", "with_headers", is_flag=True, help="Print headers in front, as NAME=VALUE.")
@format_option
@server_options
def consume(
    topic: str,
    place: Place | None,
    partition: int | None,
    count: int | None,
    follow: bool,
    group: str | None,
    with_headers: bool,
    form: str,
    server: Server,
) -> None:
    """Print the messages of TOPIC, up to where it ends now.

    With several partitions, those of one partition are in order. A group has committed what was printed, and
    nothing else. Without one nothing is committed.

    \b
    Examples:
      barbicel consume orders --from -15m --json
      barbicel consume orders --group audit --count 100
      barbicel consume orders --from end --follow

    \b
    Exit codes:
      0  printed
      2  wrong usage, there is no such topic, or the server does not answer
    """
    if group is not None and (partition is not None or (place is not None and place.is_point)):
        raise click.UsageError(
            "with --group, --from is beginning or end, for partitions without a commit, and the group shares"
            " out partitions; see barbicel group reset"
        )
    place = place or Place()
    output = ItemOutput(FORMATS[form], with_headers)
    reading = (
        _assigned(server, topic, partition, place) if group is None else _joined(server, topic, group, place)
    )
    with reading as consumer, _leaving_at_interrupt(follow):
        _print_all(server, consumer, output, count, follow, is_committing=group is not None)


@contextmanager
def _leaving_at_interrupt(follow: bool) -> Iterator[None]:
    """Who follows ends it so, and nothing is wrong."""
    with suppress(*((KeyboardInterrupt,) if follow else ())):
        yield


# --- where it begins ------------------------------------------------------------------------------------


@contextmanager
def _assigned(server: Server, topic: str, partition: int | None, place: Place) -> Iterator[Any]:
    with closing(server.consumer(auto_offset_reset="earliest", **SETTINGS)) as consumer:
        with asking(server):
            numbers = sorted(consumer.partitions_for_topic(topic) or ())
            if not numbers or (partition is not None and partition not in numbers):
                what = topic if partition is None or not numbers else f"partition {partition} of {topic}"
                raise ServerRefused(
                    f"there is no {what}", path=server.address, hint="see 'barbicel topic list'"
                )
            wanted = [TopicPartition(topic, number) for number in numbers if partition in (None, number)]
            consumer.assign(wanted)
            for one, offset in _starts(consumer, wanted, place).items():
                consumer.seek(one, offset)
        yield consumer


def _starts(consumer: Any, wanted: list[TopicPartition], place: Place) -> dict[TopicPartition, int]:
    starts, ends = consumer.beginning_offsets(wanted), consumer.end_offsets(wanted)
    if place.is_end:
        return dict(ends)
    if place.offset is not None:
        return {one: min(max(place.offset, starts[one]), ends[one]) for one in wanted}
    if place.time_ms is None:
        return dict(starts)
    found = consumer.offsets_for_times(dict.fromkeys(wanted, place.time_ms))
    return {one: ends[one] if found.get(one) is None else found[one].offset for one in wanted}


@contextmanager
def _joined(server: Server, topic: str, group: str, place: Place) -> Iterator[Any]:
    reset = "latest" if place.is_end else "earliest"
    with closing(server.consumer(group_id=group, auto_offset_reset=reset, **SETTINGS)) as consumer:
        with asking(server):
            if not consumer.partitions_for_topic(topic):
                raise ServerRefused(f"there is no topic {topic}", path=server.address)
            consumer.subscribe([topic])
        yield consumer


# --- what is printed ------------------------------------------------------------------------------------


def _print_all(
    server: Server, consumer: Any, output: ItemOutput, count: int | None, follow: bool, *, is_committing: bool
) -> None:
    ends: dict[TopicPartition, int] | None = None
    heard_ms = steady_clock_ms()
    left = count
    while left is None or left > 0:
        with asking(server):
            most = POLL_RECORDS if left is None else min(left, POLL_RECORDS)
            polled = consumer.poll(timeout_ms=POLL_MS, max_records=most)
        records = [record for batch in polled.values() for record in batch]
        for record in records:
            output.write(_record(record))
        output.flush()
        with asking(server):
            if is_committing and records:
                _commit(consumer, records)
            if ends is None and consumer.assignment():
                ends = dict(consumer.end_offsets(list(consumer.assignment())))
            if not follow and ends is not None and _is_at(consumer, ends):
                return
        left = None if left is None else left - len(records)
        heard_ms = steady_clock_ms() if records else heard_ms
        if (ends is None or not follow) and steady_clock_ms() > heard_ms + SILENCE_MS:
            raise ServerRefused(_SILENCE_TEXTS[ends is None], path=server.address, hint="see its log")


_SILENCE_TEXTS = {
    True: "the group gives this member no partition: it may have enough members",
    False: "there is more to read, and nothing comes",
}


def _is_at(consumer: Any, ends: dict[TopicPartition, int]) -> bool:
    """Whether all that was there is printed. What a group has given to another member is that one's."""
    mine = consumer.assignment()
    return all(consumer.position(one) >= end for one, end in ends.items() if one in mine)


def _commit(consumer: Any, records: list[Any]) -> None:
    behind = {TopicPartition(one.topic, one.partition): one for one in records}
    consumer.commit(
        {place: OffsetAndMetadata(one.offset + 1, "", one.leader_epoch) for place, one in behind.items()}
    )


def _record(record: Any) -> Record:
    place = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "timestamp_type": TIMESTAMP_TYPES[record.timestamp_type] if record.timestamp_type in (0, 1) else None,
    }
    return Record(record.key, record.value, headers_of(record.headers), place)
