"""`barbicel topic`: list, describe, create, alter, delete, against a gateway."""

from __future__ import annotations

import pytest

from tests.cli.live import Live, invoke
from tests.cli.support import document, run_on_terminal, words


def create(live: Live, name: str, *arguments: str) -> None:
    result = live.kafka("topic", "create", name, *arguments)
    assert result.exit_code == 0, result.output


def test_what_is_created_is_listed_and_described(live: Live) -> None:
    create(live, "made", "--partitions", "3", "--set", "retention.ms=5000000")
    live.kafka("produce", "made", "--partition", "1", stdin=b"a\nb\n")
    (row,) = [
        row for row in document(live.kafka("topic", "list", "--json"))["topics"] if row["name"] == "made"
    ]
    assert (row["partitions"], row["messages"]) == (3, 2)
    assert row["bytes"] > 0
    told = document(live.kafka("topic", "describe", "made", "--json"))
    assert [one["end_offset"] for one in told["partitions"]] == [0, 2, 0]
    assert told["settings"] == {"retention.ms": {"value": "5000000", "is_set_here": True}}
    assert len(told["id"]) == 22


def test_for_people_there_are_tables(live: Live) -> None:
    create(live, "shown", "--partitions", "2")
    assert "shown 2 0" in words(live.kafka("topic", "list"))
    told = live.kafka("topic", "describe", "shown", "--all")
    assert "retention.ms -1 the server" in words(told)
    assert "All settings follow the server's" in live.kafka("topic", "describe", "shown").stdout


def test_on_a_terminal_it_fits(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in live.settings().items():
        monkeypatch.setenv(name, value)
    create(live, "w" * 120, "--partitions", "2", "--set", "retention.ms=9223372036854775807")
    for command in (
        ("topic", "list"),
        ("topic", "describe", "w" * 120, "--all"),
        ("group", "list"),
        ("queue", "list"),
    ):
        assert run_on_terminal(*command).exit_code == 0


def test_settings_and_partitions_are_changed(live: Live) -> None:
    create(live, "changed", "--set", "retention.ms=1000000", "--set", "segment.bytes=2000000")
    arguments = ("--set", "retention.ms=7", "--unset", "segment.bytes", "--partitions", "4")
    assert live.kafka("topic", "alter", "changed", *arguments).exit_code == 0
    told = document(live.kafka("topic", "describe", "changed", "--json"))
    assert told["settings"] == {"retention.ms": {"value": "7", "is_set_here": True}}
    assert len(told["partitions"]) == 4


def test_deleted_is_gone(live: Live) -> None:
    create(live, "short-lived")
    told = live.kafka("topic", "delete", "short-lived", "never-was", "--yes", "--json")
    assert told.exit_code == 2
    assert document(told)["deleted"] == ["short-lived"]
    assert list(document(told)["problems"]) == ["never-was"]
    names = [row["name"] for row in document(live.kafka("topic", "list", "--json"))["topics"]]
    assert "short-lived" not in names


def test_nothing_is_deleted_unasked(live: Live) -> None:
    create(live, "dear")
    result = live.kafka("topic", "delete", "dear")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert live.kafka("topic", "describe", "dear").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["describe", "nowhere"], "there is no topic nowhere"),
        (["describe", "no way"], "there is no topic no way"),
        (["create", "no way"], "allowed are letters"),
        (["delete", "--yes", ""], "the name is empty"),
        (["create", "twice"], "already exists"),
        (["create", "odd", "--set", "no.such=1"], "no.such"),
        (["create", "odd", "--set", "retention.ms"], "NAME=VALUE"),
        (["create", "odd", "--config", "retention.ms=1"], "retention.ms=1: open failed: No such file"),
        (["alter", "twice", "--set", "retention.ms=x"], "allowed is a whole number"),
        (["alter", "nowhere", "--set", "retention.ms=1"], "does not exist"),
        (["alter", "twice", "--partitions", "1"], "are not more"),
        (["alter", "twice"], "nothing to change"),
        (["alter", "twice", "--set", "retention.ms=1", "--unset", "retention.ms"], "not both"),
    ],
)
def test_what_is_refused_is_said_in_one_line(live: Live, arguments: list[str], problem: str) -> None:
    live.kafka("topic", "create", "twice", "--if-absent")
    result = live.kafka("topic", *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert len(result.stderr.strip().splitlines()[-1:]) == 1


def test_if_absent_leaves_what_is_there(live: Live) -> None:
    create(live, "kept", "--partitions", "2")
    told = document(live.kafka("topic", "create", "kept", "--partitions", "5", "--if-absent", "--json"))
    assert told == {"topic": "kept", "is_new": False, "partitions": None}
    assert len(document(live.kafka("topic", "describe", "kept", "--json"))["partitions"]) == 2


def test_the_server_is_found_by_its_settings(live: Live) -> None:
    assert invoke("topic", "list", env=live.settings()).exit_code == 0


def test_where_no_server_is_that_is_said_at_once() -> None:
    result = invoke("topic", "list", "--bootstrap", "127.0.0.1:1")
    assert result.exit_code == 2
    assert "127.0.0.1:1: no server answers" in result.stderr
    assert "barbicel doctor" in result.stderr


@pytest.mark.parametrize("address", ["nowhere", "host:", ":1", "host:99999"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    result = invoke("topic", "list", "--bootstrap", address)
    assert result.exit_code == 2
    assert "HOST:PORT" in result.stderr
