"""The text protocol on the real queues: every command, fed whole, byte by byte, and all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barbicel import __version__
from barbicel.gateway.kestrel.dialect import TEXT
from tests.gateway.kestrel.in_memory_clients import Client, Gateway, in_memory_gateway

VERSION = (b"version\n", b":%b\n" % __version__.encode())


class Talk(NamedTuple):
    name: str
    steps: tuple[tuple[bytes, bytes], ...]
    closes: bool = False
    settings: dict[str, Any] | None = None


def put(queue: bytes, *items: bytes) -> tuple[bytes, bytes]:
    return b"put %b:\n%b\n" % (queue, b"".join(b"%b\n" % item for item in items)), b"+%d\n" % len(items)


def talk(name: str, *steps: tuple[bytes, bytes], closes: bool = False, **settings: Any) -> Talk:
    return Talk(name, steps, closes, settings)


TALKS = [
    talk(
        "put and get",
        put(b"q", b"a", b"b"),
        (b"get q\n", b":a\n"),
        (b"get q\n", b":b\n"),
        (b"get q\n", b"*\n"),
    ),
    talk("a carriage return", (b"put q:\r\na\r\n\r\n", b"+1\n"), (b"get q\r\n", b":a\n")),
    talk("put nothing", put(b"q"), (b"get q\n", b"*\n")),
    talk(
        "put what expires",
        (b"put q 0:\na\n\n", b"+1\n"),
        (b"put q 60000:\nb\n\n", b"+1\n"),
        (b"get q\n", b":b\n"),
    ),
    talk(
        "put what is too large",
        (b"put q:\nabcdef\nabc\n\n", b"+1\n"),
        (b"get q\n", b":abc\n"),
        kestrel_max_item_bytes=5,
    ),
    talk("bytes that are no text", put(b"q", b"\xff\x80"), (b"get q\n", b":\xff\x80\n")),
    talk(
        "get confirms",
        put(b"q", b"a"),
        (b"get q\n", b":a\n"),
        (b"get q\n", b"*\n"),
        (b"confirm q 1\n", b"-Not that many transactions open.\n"),
    ),
    talk(
        "peek confirms",
        put(b"q", b"a", b"b"),
        (b"get q\n", b":a\n"),
        (b"peek q\n", b":b\n"),
        (b"confirm q 1\n", b"-Not that many transactions open.\n"),
        (b"peek q\n", b":b\n"),
    ),
    talk(
        "confirm",
        put(b"q", b"a"),
        (b"get q\n", b":a\n"),
        (b"confirm q 2\n", b"-Not that many transactions open.\n"),
        (b"confirm q 1\n", b"+1\n"),
    ),
    talk(
        "monitor",
        put(b"q", b"a", b"b", b"c"),
        (b"monitor q 1000\n", b":a\n:b\n*\n"),
        (b"confirm q 2\n", b"+2\n"),
        (b"get q\n", b":c\n"),
        kestrel_max_open_transactions=2,
    ),
    talk(
        "monitor confirms",
        put(b"q", b"a", b"b"),
        (b"get q\n", b":a\n"),
        (b"monitor q 1000\n", b":b\n*\n"),
        kestrel_max_open_transactions=1,
    ),
    talk("flush", put(b"q", b"a"), (b"flush q\n", b"+0\n"), (b"get q\n", b"*\n"), (b"flush a.b\n", b"+0\n")),
    talk(
        "delete", put(b"q", b"a"), (b"delete q\n", b"+0\n"), (b"get q\n", b"*\n"), (b"delete a.b\n", b"+0\n")
    ),
    talk(
        "status",
        (b"status\n", b":UP\n"),
        (b"status readonly\n", b"+0\n"),
        (b"status\n", b":READONLY\n"),
        (b"put q:\na\n\n", b"-Server not available for operation setItem\n"),
        (b"flush q\n", b"-Server not available for operation flush\n"),
        (b"delete q\n", b"-Server not available for operation delete\n"),
        (b"get q\n", b"*\n"),
    ),
    talk(
        "quiescent",
        (b"status quiescent\n", b"+0\n"),
        (b"get q\n", b"-Server not available for operation getItem\n"),
        (b"peek q\n", b"-Server not available for operation getItem\n"),
        (b"monitor q 1\n", b"-Server not available for operation monitorUntil\n"),
    ),
    talk(
        "a status that is none",
        (b"status sideways\n", b"-Unknown status.\n"),
        (b"status down\n", b"-Status forbidden.\n"),
    ),
    talk(
        "a bad name",
        (b"put a.b:\nx\n\n", b"-Queue name contains illegal characters (one of: ~ . /).\n"),
        (b"get a.b\n", b"-Queue name contains illegal characters (one of: ~ . /).\n"),
    ),
    talk(
        "what is missing",
        (b"get\n", b"-Queue name required.\n"),
        (b"monitor q\n", b"-Queue name & timeout required.\n"),
        (b"confirm q\n", b"-Queue name & count required.\n"),
        (b"get q x\n", b"-Error parsing timeout.\n"),
    ),
    talk("no command", (b"what q\n", b"-Unknown command: what\n"), VERSION),
    talk("quit", put(b"q", b"a"), (b"quit\n", b""), closes=True),
    talk(
        "shutdown that is not allowed",
        (b"shutdown\n", b"-Not allowed, see kestrel.allow.shutdown.\n"),
        VERSION,
    ),
    talk("shutdown", (b"shutdown\n", b"+0\n"), kestrel_allow_shutdown=True),
    talk(
        "a line too long",
        (b"get " + b"q" * 600 + b"\n", b"-Line too long.\n"),
        closes=True,
        kestrel_max_line_bytes=512,
    ),
]


def feed(client: Client, told: Talk, how: str) -> None:
    if how == "pipelined":
        client.send(b"".join(sent for sent, _ in told.steps))
        client.expect(b"".join(answer for _, answer in told.steps))
        return
    for sent, answer in told.steps:
        client.send(sent, 1 if how == "byte by byte" else None)
        client.expect(answer)


@pytest.mark.parametrize("how", ["whole", "byte by byte", "pipelined"])
@pytest.mark.parametrize("told", TALKS, ids=lambda told: told.name)
def test_every_byte_is_as_it_was_told(tmp_path: Path, told: Talk, how: str) -> None:
    with in_memory_gateway(tmp_path / "data", **(told.settings or {})) as gateway:
        client = gateway.connect(TEXT)
        feed(client, told, how)
        if told.closes:
            client.await_close()
        else:
            client.ask(*VERSION)
            assert client.take() == b""
            assert not client.is_closed
        assert gateway.shutdowns == (told.name == "shutdown")


def test_a_get_waits_so_many_milliseconds(gateway: Gateway) -> None:
    client = gateway.connect(TEXT)
    client.ask(b"get q\n", b"*\n")
    client.send(b"get q 500\n")
    gateway.queues.advance(499)
    assert client.take() == b""
    gateway.queues.advance(1)
    client.expect(b"*\n")


def test_what_a_lost_client_had_comes_back(gateway: Gateway) -> None:
    lost, other = gateway.connect(TEXT, port=1), gateway.connect(TEXT, port=2)
    lost.ask(*put(b"q", b"a", b"b"))
    lost.ask(b"get q\n", b":a\n")
    lost.lose()
    other.ask(b"get q\n", b":a\n")
    other.ask(b"get q\n", b":b\n")


def test_both_protocols_see_one_queue(gateway: Gateway) -> None:
    text, memcache = gateway.connect(TEXT, port=1), gateway.connect(port=2)
    text.ask(*put(b"q", b"a"))
    memcache.ask(b"get q\r\n", b"VALUE q 0 1\r\na\r\nEND\r\n")
    memcache.ask(b"set q 0 0 1\r\nb\r\n", b"STORED\r\n")
    text.ask(b"get q\n", b":b\n")


def test_a_full_queue_takes_what_it_can(gateway: Gateway) -> None:
    gateway.queues.rules(q={"max_items": 2})
    gateway.connect(TEXT).ask(b"put q:\na\nb\nc\n\n", b"+2\n")
