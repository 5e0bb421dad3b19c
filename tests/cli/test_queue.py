"""`barbicel queue`: list, describe, put, get, peek, flush, delete, against a gateway."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.live import Live, invoke, objects
from tests.cli.support import document, words


def items(live: Live, name: str) -> int:
    return int(document(live.kestrel("queue", "describe", name, "--json"))["stats"]["items"])


def test_what_is_put_is_had_in_order_and_once(live: Live) -> None:
    assert "Stored 3 items" in live.kestrel("queue", "put", "drinks", "tea", "coffee", "milk").stdout
    assert live.kestrel("queue", "get", "drinks", "--count", "2").stdout == "tea\ncoffee\n"
    assert live.kestrel("queue", "get", "drinks", "--all").stdout == "milk\n"
    empty = live.kestrel("queue", "get", "drinks")
    assert (empty.exit_code, empty.stdout) == (1, "")


def test_lines_of_a_file_and_of_the_input(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "items"
    file.write_bytes(b"one\r\ntwo\n\nfour")
    live.kestrel("queue", "put", "lines", "--file", str(file))
    live.kestrel("queue", "put", "lines", stdin=b"five\n")
    assert live.kestrel("queue", "get", "lines", "--all").stdout == "one\ntwo\n\nfour\nfive\n"
    live.kestrel("queue", "put", "lines", "--whole", stdin=b"all\nof it\n")
    assert live.kestrel("queue", "get", "lines").stdout_bytes == b"all\nof it\n\n"


def test_a_look_takes_nothing(live: Live) -> None:
    live.kestrel("queue", "put", "seen", "x")
    assert live.kestrel("queue", "peek", "seen").stdout == "x\n"
    assert live.kestrel("queue", "peek", "seen", "--format", "hex").stdout == "78\n"
    assert items(live, "seen") == 1


def test_bytes_that_are_no_text(live: Live) -> None:
    live.kestrel("queue", "put", "raw", stdin=b"\xff\x00\n")
    assert objects(live.kestrel("queue", "peek", "raw", "--json")) == [
        {"queue": "raw", "value_base64": "/wA="}
    ]
    assert live.kestrel("queue", "get", "raw").stdout_bytes == b"\xff\x00\n"


def test_queues_are_listed_with_their_numbers(live: Live) -> None:
    live.kestrel("queue", "put", "listed", "abc")
    live.kestrel("queue", "get", "listed+copy", "--create")
    rows = {row["name"]: row for row in document(live.kestrel("queue", "list", "--json"))["queues"]}
    assert (rows["listed"]["items"], rows["listed"]["bytes"]) == (1, 3)
    assert rows["listed+copy"]["items"] == 0
    assert "listed 1 3" in words(live.kestrel("queue", "list"))
    assert "Queue listed+copy, topic listed" in live.kestrel("queue", "describe", "listed+copy").stdout


def test_flushed_is_empty_and_deleted_is_gone(live: Live) -> None:
    live.kestrel("queue", "put", "doomed", "a", "b")
    assert live.kestrel("queue", "flush", "doomed").exit_code == 2  # nobody can be asked
    assert items(live, "doomed") == 2
    assert live.kestrel("queue", "flush", "doomed", "--yes").exit_code == 0
    assert items(live, "doomed") == 0
    assert live.kestrel("queue", "delete", "doomed", "--yes").exit_code == 0
    assert "doomed" not in [
        row["name"] for row in document(live.kestrel("queue", "list", "--json"))["queues"]
    ]


@pytest.mark.parametrize("verb", ["get", "peek", "describe", "flush", "delete"])
def test_no_queue_comes_to_be_by_a_misspelled_name(live: Live, verb: str) -> None:
    options = ["--yes"] if verb in ("flush", "delete") else []
    result = live.kestrel("queue", verb, f"mispeled-{verb}", *options)
    assert result.exit_code == 2
    assert f"there is no queue mispeled-{verb}" in result.stderr
    names = [row["name"] for row in document(live.kestrel("queue", "list", "--json"))["queues"]]
    assert f"mispeled-{verb}" not in names


def test_a_name_that_would_be_two_commands_is_refused(live: Live) -> None:
    result = live.kestrel("queue", "put", "a\r\nflush_all", "x")
    assert result.exit_code == 2
    assert "queue name" in result.stderr


def test_items_are_waited_for(live: Live) -> None:
    live.kestrel("queue", "put", "awaited", "x")
    assert live.kestrel("queue", "get", "awaited", "--wait", "50").exit_code == 0
    assert live.kestrel("queue", "get", "awaited", "--wait", "50").exit_code == 1


def test_what_was_not_printed_is_not_taken(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    live.kestrel("queue", "put", "unprinted", "x")
    monkeypatch.setattr("barbicel.cli.record_output.ItemOutput.flush", fail)
    assert live.kestrel("queue", "get", "unprinted").exit_code == 141
    monkeypatch.undo()
    assert live.kestrel("queue", "get", "unprinted", "--wait", "5000").stdout == "x\n"


def test_where_no_server_is_that_is_said() -> None:
    result = invoke("queue", "list", "--kestrel", "127.0.0.1:1")
    assert result.exit_code == 2
    assert "127.0.0.1:1: no Kestrel server answers" in result.stderr
