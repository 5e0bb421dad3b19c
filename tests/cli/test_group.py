"""`barbicel group list`, `describe`, `reset`, `delete`, against a gateway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaConsumer

from tests.cli.live import Live
from tests.cli.support import document, words

# One that ends in the middle of a rebalance can cost kafka-python its assignment (docs/compatibility.md).
LONG_POLL_MS = 2_000


def fill(live: Live, topic: str, group: str, messages: int = 5, read: int = 3) -> None:
    """A topic of one partition of which a group has read a part."""
    assert live.kafka("topic", "create", topic).exit_code == 0
    live.kafka("produce", topic, stdin=b"".join(b"%d\n" % number for number in range(messages)))
    assert live.kafka("consume", topic, "--group", group, "--count", str(read)).exit_code == 0


@contextmanager
def member(live: Live, topic: str, group: str) -> Iterator[Any]:
    consumer = KafkaConsumer(topic, bootstrap_servers=live.gateway.bootstrap, group_id=group)
    try:
        while not consumer.assignment():
            consumer.poll(timeout_ms=LONG_POLL_MS)
        yield consumer
    finally:
        consumer.close()


def committed(live: Live, group: str) -> list[tuple[int | None, int | None]]:
    told = document(live.kafka("group", "describe", group, "--json"))
    return [(row["committed_offset"], row["lag"]) for row in told["positions"]]


def test_lags_are_told(live: Live) -> None:
    fill(live, "lagging", "slow")
    groups = {row["name"]: row for row in document(live.kafka("group", "list", "--json"))["groups"]}
    assert groups["slow"] == {"name": "slow", "state": "Empty", "members": 0, "lag": 2}
    assert "slow Empty 0 2" in words(live.kafka("group", "list"))
    assert "lagging 0 3 5 2 -" in words(live.kafka("group", "describe", "slow"))


def test_members_are_told(live: Live) -> None:
    fill(live, "joined", "crowd")
    with member(live, "joined", "crowd"):
        told = document(live.kafka("group", "describe", "crowd", "--json"))
        (one,) = told["members"]
        assert one["partitions"] == [["joined", 0]]
        assert one["host"] == "127.0.0.1"
        assert told["positions"][0]["member"] == one["member_id"]
        assert one["member_id"] in live.kafka("group", "describe", "crowd").stdout


def test_a_name_cannot_speak_to_the_terminal(live: Live) -> None:
    """A group's name is whatever its consumers choose."""
    fill(live, "escaping", "\x1b]0;mine\x07two\nlines")
    shown = live.kafka("group", "list").stdout
    assert r"\x1b]0;mine\x07two\nlines" in shown
    assert "\x1b" not in shown


def test_readers_of_queues_are_not_among_the_groups(live: Live) -> None:
    live.kestrel("queue", "put", "not-a-group", "x")
    names = [row["name"] for row in document(live.kafka("group", "list", "--json"))["groups"]]
    assert not [name for name in names if name.startswith("kestrel")]


@pytest.mark.parametrize(
    ("where", "offset"), [("beginning", 0), ("end", 5), ("4", 4), ("900", 5), ("-1h", 0), ("2100-01-01", 5)]
)
def test_a_group_goes_on_where_it_is_told_to(live: Live, where: str, offset: int) -> None:
    topic, group = f"reset-{where}", f"resetting-{where}"
    fill(live, topic, group)
    arguments = ("group", "reset", group, "--topic", topic, "--to", where, "--json")
    told = document(live.kafka(*arguments))
    assert told["moves"] == [{"topic": topic, "partition": 0, "before": 3, "after": offset}]
    assert committed(live, group) == [(3, 2)]
    assert document(live.kafka(*arguments, "--apply"))["is_applied"]
    assert committed(live, group) == [(offset, 5 - offset)]


def test_a_dry_run_says_that_it_is_one(live: Live) -> None:
    fill(live, "dry", "dry")
    assert (
        "Nothing was changed" in live.kafka("group", "reset", "dry", "--topic", "dry", "--to", "end").stdout
    )


def test_a_group_with_members_is_left_alone(live: Live) -> None:
    fill(live, "busy", "busy")
    with member(live, "busy", "busy"):
        reset = live.kafka("group", "reset", "busy", "--topic", "busy", "--to", "end", "--apply")
        assert reset.exit_code == 2
        assert "stop its consumers" in reset.stderr
        deleted = live.kafka("group", "delete", "busy", "--yes")
        assert deleted.exit_code == 2
        assert "it has members" in deleted.stdout


def test_the_readers_of_queues_are_left_alone(live: Live) -> None:
    live.kestrel("queue", "put", "read-by-kestrel", "x")
    reset = live.kafka("group", "reset", "kestrel", "--topic", "read-by-kestrel", "--to", "end", "--apply")
    assert reset.exit_code == 2
    assert "barbicel queue" in reset.stderr
    assert "barbicel queue delete" in live.kafka("group", "delete", "kestrel", "--yes").stdout


def test_deleted_is_forgotten(live: Live) -> None:
    fill(live, "forgotten", "forgetful")
    assert document(live.kafka("group", "delete", "forgetful", "--yes", "--json"))["deleted"] == ["forgetful"]
    result = live.kafka("group", "describe", "forgetful")
    assert result.exit_code == 2
    assert "forgetful" in result.stderr


@pytest.mark.parametrize("where", ["yesterday", "-5", "12:00", "-1y", ""])
def test_a_place_that_is_none_is_refused(live: Live, where: str) -> None:
    result = live.kafka("group", "reset", "any", "--topic", "any", "--to", where)
    assert result.exit_code == 2
    assert "beginning, end, an offset" in result.stderr


def test_a_partition_that_is_none_is_refused(live: Live) -> None:
    fill(live, "narrow", "narrow")
    result = live.kafka("group", "reset", "narrow", "--topic", "narrow", "--partition", "7", "--to", "end")
    assert result.exit_code == 2
    assert "there is no partition 7" in result.stderr
