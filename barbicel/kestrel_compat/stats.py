"""What `stats` and `dump_stats` tell: the numbers, and their rows under Kestrel's names in Kestrel's order.

The order of the fields is the order on the wire, so a field is added at the place where it is told. The
bytes are made elsewhere; nothing here knows a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

__all__ = [
    "AliasStats",
    "Counters",
    "Moment",
    "QueueStats",
    "Row",
    "queue_rows",
    "server_rows",
    "stats_rows",
]

Row: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class Counters:
    """What happened since the server started. Whoever does a thing counts it: clients' requests and
    connections are counted where they are served, items and queues where they are kept."""

    total_items: int = 0
    curr_connections: int = 0
    total_connections: int = 0
    cmd_get: int = 0
    cmd_set: int = 0
    cmd_peek: int = 0
    get_hits: int = 0
    get_misses: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    queue_creates: int = 0
    queue_deletes: int = 0
    queue_expires: int = 0


class Moment(NamedTuple):
    """What is so at the time of asking, of the server as a whole."""

    uptime_s: int
    time_s: int
    version: str
    curr_items: int
    bytes: int
    # How much of the memory for newest data the queues would need if each used all that it may.
    reserved_memory_ratio: float
    # As Kafka's clients are told it.
    cluster_id: str


class QueueStats(NamedTuple):
    """One queue, or one child of a queue."""

    items: int
    bytes: int
    total_items: int
    logsize: int
    expired_items: int
    mem_items: int
    mem_bytes: int
    age_ms: int
    discarded: int
    waiters: int
    open_transactions: int
    transactions: int
    canceled_transactions: int
    total_flushes: int
    journal_rewrites: int
    journal_rotations: int
    # Only of a queue that has, or had, children: their full names.
    children: Sequence[str] | None = None


class AliasStats(NamedTuple):
    """A name that stands for other queues."""

    put_items: int
    put_bytes: int
    children: Sequence[str]


# The one field that is told under another name than its own.
_NAMES = {"age_ms": "age"}
_QUEUE_NAMES = tuple(_NAMES.get(name, name) for name in QueueStats._fields)


def server_rows(counters: Counters, moment: Moment) -> list[Row]:
    return [
        ("uptime", str(moment.uptime_s)),
        ("time", str(moment.time_s)),
        ("version", moment.version),
        ("curr_items", str(moment.curr_items)),
        ("total_items", str(counters.total_items)),
        ("bytes", str(moment.bytes)),
        ("reserved_memory_ratio", f"{moment.reserved_memory_ratio:.3f}"),
        ("curr_connections", str(counters.curr_connections)),
        ("total_connections", str(counters.total_connections)),
        ("cmd_get", str(counters.cmd_get)),
        ("cmd_set", str(counters.cmd_set)),
        ("cmd_peek", str(counters.cmd_peek)),
        ("get_hits", str(counters.get_hits)),
        ("get_misses", str(counters.get_misses)),
        ("bytes_read", str(counters.bytes_read)),
        ("bytes_written", str(counters.bytes_written)),
        ("queue_creates", str(counters.queue_creates)),
        ("queue_deletes", str(counters.queue_deletes)),
        ("queue_expires", str(counters.queue_expires)),
        # Not Kestrel's, so it is behind all that are: whoever uses both protocols sees that it is one server.
        ("cluster_id", moment.cluster_id),
    ]


def queue_rows(stats: QueueStats | AliasStats | None) -> list[Row]:
    """None: there is no such queue, and nothing to tell of it."""
    if stats is None:
        return []
    names = _QUEUE_NAMES if isinstance(stats, QueueStats) else AliasStats._fields
    rows = [(name, str(number)) for name, number in zip(names[:-1], stats[:-1], strict=True)]
    if stats.children is not None:
        rows.append(("children", ",".join(stats.children)))
    return rows


def stats_rows(
    counters: Counters, moment: Moment, queues: Iterable[tuple[str, QueueStats | AliasStats]]
) -> list[Row]:
    """Everything that `stats` tells."""
    rows = server_rows(counters, moment)
    for queue, stats in queues:
        rows += [(f"queue_{queue}_{name}", value) for name, value in queue_rows(stats)]
    return rows
