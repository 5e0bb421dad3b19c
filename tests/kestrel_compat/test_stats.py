"""The rows of `stats`, by name and in order."""

from __future__ import annotations

from dataclasses import fields

from barbicel.kestrel_compat.stats import (
    AliasStats,
    Counters,
    Moment,
    QueueStats,
    queue_rows,
    server_rows,
    stats_rows,
)

SERVER_NAMES = [
    "uptime",
    "time",
    "version",
    "curr_items",
    "total_items",
    "bytes",
    "reserved_memory_ratio",
    "curr_connections",
    "total_connections",
    "cmd_get",
    "cmd_set",
    "cmd_peek",
    "get_hits",
    "get_misses",
    "bytes_read",
    "bytes_written",
    "queue_creates",
    "queue_deletes",
    "queue_expires",
    "cluster_id",
]
QUEUE_NAMES = [
    "items",
    "bytes",
    "total_items",
    "logsize",
    "expired_items",
    "mem_items",
    "mem_bytes",
    "age",
    "discarded",
    "waiters",
    "open_transactions",
    "transactions",
    "canceled_transactions",
    "total_flushes",
    "journal_rewrites",
    "journal_rotations",
]

MOMENT = Moment(1, 2, "3.4", 5, 6, 0.12345, "here")
NUMBERS = range(1, len(QUEUE_NAMES) + 1)


def test_the_server_in_kestrels_order() -> None:
    counters = Counters(*range(101, 101 + len(fields(Counters))))
    rows = server_rows(counters, MOMENT)
    assert [name for name, _ in rows] == SERVER_NAMES
    values = dict(rows)
    assert [values[name] for name in ("uptime", "time", "version")] == ["1", "2", "3.4"]
    assert [values[name] for name in ("curr_items", "bytes")] == ["5", "6"]
    assert (values["reserved_memory_ratio"], values["cluster_id"]) == ("0.123", "here")
    for one in fields(Counters):
        assert values[one.name] == str(getattr(counters, one.name))


def test_a_queue_in_kestrels_order() -> None:
    rows = queue_rows(QueueStats(*NUMBERS))
    assert rows == [(name, str(number)) for name, number in zip(QUEUE_NAMES, NUMBERS, strict=True)]


def test_a_master_tells_its_children_last() -> None:
    rows = queue_rows(QueueStats(*NUMBERS)._replace(children=("q+a", "q+b")))
    assert [name for name, _ in rows] == [*QUEUE_NAMES, "children"]
    assert rows[-1] == ("children", "q+a,q+b")


def test_a_master_whose_children_are_gone_tells_that() -> None:
    assert queue_rows(QueueStats(*NUMBERS)._replace(children=()))[-1] == ("children", "")


def test_an_alias() -> None:
    assert queue_rows(AliasStats(3, 40, ("a", "b"))) == [
        ("put_items", "3"),
        ("put_bytes", "40"),
        ("children", "a,b"),
    ]


def test_of_what_is_not_there_nothing_is_told() -> None:
    assert queue_rows(None) == []


def test_all_of_it() -> None:
    rows = stats_rows(Counters(), MOMENT, [("q", QueueStats(*NUMBERS)), ("b", AliasStats(1, 2, ()))])
    assert [name for name, _ in rows] == [
        *SERVER_NAMES,
        *(f"queue_q_{name}" for name in QUEUE_NAMES),
        "queue_b_put_items",
        "queue_b_put_bytes",
        "queue_b_children",
    ]
