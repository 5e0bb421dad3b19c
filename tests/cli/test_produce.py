"""`barbicel produce`: lines, files, keys, headers, codecs, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from barbicel.cli.inputs import CHUNK_BYTES, input_lines
from tests.cli.live import Live, objects
from tests.cli.support import document


def consumed(live: Live, topic: str) -> list[tuple[str | None, str | None, dict[str, str]]]:
    rows = objects(live.kafka("consume", topic, "--json"))
    return [(row["key"], row["value"], {one["name"]: one["value"] for one in row["headers"]}) for row in rows]


def test_lines_with_keys_and_headers(live: Live) -> None:
    result = live.kafka(
        "produce",
        "keyed",
        "--key-separator",
        "::",
        "--header",
        "a=1",
        "--header",
        "b=x=y",
        stdin=b"k::v\nl::w::x",
    )
    assert result.stdout == "Stored 2 messages in keyed: partition 0 up to offset 1.\n"
    headers = {"a": "1", "b": "x=y"}
    assert consumed(live, "keyed") == [("k", "v", headers), ("l", "w::x", headers)]


def test_one_key_for_all(live: Live) -> None:
    told = document(live.kafka("produce", "one-key", "--key", "k", "--json", stdin=b"a\n\nb\n"))
    assert told["partitions"] == [{"partition": 0, "first_offset": 0, "last_offset": 2}]
    assert (told["records"], told["bytes"]) == (3, 5)
    assert consumed(live, "one-key") == [("k", "a", {}), ("k", "", {}), ("k", "b", {})]


def test_a_file_as_lines_and_as_one(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "messages"
    file.write_bytes(b"a\nb\n")
    live.kafka("produce", "from-file", "--file", str(file))
    live.kafka("produce", "from-file", "--file", str(file), "--whole")
    assert [value for _, value, _ in consumed(live, "from-file")] == ["a", "b", "a\nb\n"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(live: Live, codec: str) -> None:
    result = live.kafka("produce", f"packed-{codec}", "--codec", codec, stdin=b"x" * 1000)
    assert result.exit_code == 0, result.output
    assert consumed(live, f"packed-{codec}") == [(None, "x" * 1000, {})]


def test_a_codec_that_needs_a_package_says_which(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("barbicel.cli.produce", fromlist=["CODECS"]).CODECS, "lz4", (bool, "lz4"))
    result = live.kafka("produce", "any", "--codec", "lz4", stdin=b"x")
    assert result.exit_code == 2
    assert "pip install lz4" in result.stderr


def test_what_consume_writes_as_json_produce_reads(live: Live) -> None:
    live.kafka("produce", "origin", "--key-separator", ":", "--header", "h=v", stdin=b"k:v\nl:\xff\n")
    lines = live.kafka("consume", "origin", "--json").stdout_bytes
    assert live.kafka("produce", "copy", "--format", "json", stdin=lines).exit_code == 0
    rows = objects(live.kafka("consume", "copy", "--json"))
    keep = ("key", "value", "value_base64", "headers")
    before = [
        {name: row[name] for name in keep if name in row}
        for row in objects(live.kafka("consume", "origin", "--json"))
    ]
    assert [{name: row[name] for name in keep if name in row} for row in rows] == before
    assert rows[1]["value_base64"] == "/w=="


@pytest.mark.parametrize(
    ("arguments", "stdin", "problem"),
    [
        (["--key-separator", ":"], b"k:v\nno key\n", "line 2: there is no ':' in it"),
        (["--format", "json"], b'{"value": "a"}\nnonsense\n', "line 2: this is no JSON"),
        (["--format", "json"], b"[]\n", "line 1: this is no JSON object"),
        (["--format", "json"], b'{"headers": [1]}', "line 1: headers are a list"),
        (["--format", "json"], b'{"key_base64": "?"}', "line 1: key_base64"),
        (["--format", "json", "--key", "k"], b"{}", "has its keys in it"),
        (["--key", "k", "--key-separator", ":"], b"", "not both"),
        (["--key-separator", ""], b"", "is empty"),
        (["--header", "novalue"], b"", "NAME=VALUE"),
        (["--file", "/nowhere/at-all"], b"", "/nowhere/at-all"),
    ],
)
def test_what_is_wrong_is_said(live: Live, arguments: list[str], stdin: bytes, problem: str) -> None:
    result = live.kafka("produce", "wrong", *arguments, stdin=stdin)
    assert result.exit_code == 2
    assert problem in result.stderr


@pytest.mark.parametrize(("topic", "options"), [("no way", []), ("wrong", ["--partition", "99"]), ("", [])])
def test_a_place_that_is_none_is_refused(live: Live, topic: str, options: list[str]) -> None:
    live.kafka("topic", "create", "wrong", "--if-absent")
    assert live.kafka("produce", topic, *options, stdin=b"x").exit_code == 2


def test_a_message_that_is_too_large_is_the_servers_word(live: Live) -> None:
    live.kafka("topic", "create", "small", "--set", "max.message.bytes=1000")
    result = live.kafka("produce", "small", stdin=b"fits\n" + b"x" * 5000)
    assert result.exit_code == 2
    assert "MessageSizeTooLarge" in result.stderr


def test_lines_that_cross_the_edge_of_what_is_read(tmp_path: Path) -> None:
    lines = [b"a" * (CHUNK_BYTES - 1), b"b" * (2 * CHUNK_BYTES), b"", b"c"]
    file = tmp_path / "long"
    file.write_bytes(b"\n".join(lines))
    passed: list[int] = []
    assert list(input_lines(str(file), passed.append)) == lines
    assert sum(passed) == file.stat().st_size
