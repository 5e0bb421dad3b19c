"""`barbicel consume`: where it begins, where it ends, what a group has then committed, and the formats."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.cli.live import Live, objects
from tests.cli.support import document, environment

OLD_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def letters(live: Live) -> str:
    """A topic of a, b, c, d, e."""
    live.kafka("topic", "create", "letters")
    live.kafka("produce", "letters", "--header", "h=v", stdin=b"a\nb\nc\nd\ne\n")
    return "letters"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "abcde"),
        (["--from", "beginning", "--count", "2"], "ab"),
        (["--from", "3"], "de"),
        (["--from", "end"], ""),
        (["--from", "99"], ""),
        (["--from", "-1h"], "abcde"),
        (["--from", "2100-01-01T00:00+02:00"], ""),
        (["--partition", "0", "--from", "4"], "e"),
    ],
)
def test_where_it_begins_and_ends(live: Live, letters: str, arguments: list[str], expected: str) -> None:
    result = live.kafka("consume", letters, *arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "".join(f"{letter}\n" for letter in expected)


def test_formats(live: Live, letters: str) -> None:
    one = ("consume", letters, "--count", "1")
    assert live.kafka(*one, "--headers").stdout == "h=v\ta\n"
    assert live.kafka(*one, "--format", "hex", "--headers").stdout == "h=76\t61\n"
    (row,) = objects(live.kafka(*one, "--format", "json"))
    assert row.pop("timestamp_ms") > OLD_MS
    assert row == {
        "topic": "letters",
        "partition": 0,
        "offset": 0,
        "timestamp_type": "CreateTime",
        "key": None,
        "value": "a",
        "headers": [{"name": "h", "value": "v"}],
    }


def test_a_group_goes_on_behind_what_was_printed(live: Live, letters: str) -> None:
    arguments = ("consume", letters, "--group", "reader")
    assert live.kafka(*arguments, "--count", "2").stdout == "a\nb\n"
    assert live.kafka(*arguments).stdout == "c\nd\ne\n"
    assert live.kafka(*arguments).stdout == ""
    assert document(live.kafka("group", "describe", "reader", "--json"))["lag"] == 0


def test_what_was_not_printed_is_not_committed(
    live: Live, letters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("barbicel.cli.record_output.ItemOutput.flush", fail)
    assert live.kafka("consume", letters, "--group", "unlucky").exit_code == 141
    monkeypatch.undo()
    assert live.kafka("consume", letters, "--group", "unlucky").stdout == "a\nb\nc\nd\ne\n"


def test_without_a_group_nothing_is_committed(live: Live, letters: str) -> None:
    before = document(live.kafka("group", "list", "--json"))["groups"]
    live.kafka("consume", letters)
    assert document(live.kafka("group", "list", "--json"))["groups"] == before


def test_all_partitions_are_read(live: Live) -> None:
    live.kafka("topic", "create", "wide", "--partitions", "3")
    for number in range(3):
        live.kafka("produce", "wide", "--partition", str(number), stdin=b"%d\n" % number)
    assert sorted(live.kafka("consume", "wide").stdout.split()) == ["0", "1", "2"]


def test_who_follows_sees_what_comes_and_ends_in_peace(live: Live) -> None:
    live.kafka("topic", "create", "followed")
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "barbicel.cli.main",
        "consume",
        "followed",
        "--follow",
        "--json",
    ]
    with subprocess.Popen(
        [*command, "--bootstrap", live.gateway.bootstrap], stdout=subprocess.PIPE, env=environment()
    ) as process:
        live.kafka("produce", "followed", stdin=b"news\n")
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["value"] == "news"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nowhere"], "there is no nowhere"),
        (["nowhere", "--group", "g"], "there is no topic nowhere"),
        (["letters", "--partition", "9"], "there is no partition 9 of letters"),
        (["letters", "--group", "g", "--from", "3"], "barbicel group reset"),
        (["letters", "--group", "g", "--partition", "0"], "barbicel group reset"),
        (["letters", "--from", "someday"], "an offset"),
    ],
)
def test_what_is_wrong_is_said(live: Live, letters: str, arguments: list[str], problem: str) -> None:
    result = live.kafka("consume", *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr
    names = [row["name"] for row in document(live.kafka("topic", "list", "--json"))["topics"]]
    assert "nowhere" not in names


def test_a_server_that_falls_silent_is_not_waited_for_for_ever(
    live: Live, letters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barbicel.cli.consume._is_at", lambda *_: False)
    monkeypatch.setattr("barbicel.cli.consume.SILENCE_MS", 100)
    result = live.kafka("consume", letters)
    assert result.exit_code == 2
    assert result.stdout == "a\nb\nc\nd\ne\n"
    assert "nothing comes" in result.stderr
