"""The text protocol over a real socket, beside the other one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barbicel import __version__
from tests.clients.client import until
from tests.clients.records import unique
from tests.kestrel_clients.raw_client import Memcache, Text
from tests.support.gateway import Gateway

GATEWAY_SETTINGS = {"kestrel_text_enable": "true"}


@pytest.fixture
def text(gateway: Gateway) -> Iterator[Text]:
    with Text(gateway.kestrel_text_port) as client:
        yield client


@pytest.fixture
def queue() -> str:
    return unique("q")


def test_put_and_get(text: Text, queue: str) -> None:
    assert text.put(queue, b"one", b"two") == b"+2"
    get = b"get %b\n" % queue.encode()
    assert [text.ask(get) for _ in range(3)] == [b":one", b":two", b"*"]


def test_a_get_confirms_the_one_before(text: Text, queue: str, raw: Memcache) -> None:
    text.put(queue, b"one", b"two")
    get = b"get %b\n" % queue.encode()
    assert [text.ask(get), text.ask(get)] == [b":one", b":two"]
    text.end()
    until("the second is back", lambda: raw.stat(queue, "canceled_transactions") == 1)
    assert [raw.get(queue), raw.get(queue)] == [b"two", None]


def test_confirm_peek_and_monitor(text: Text, queue: str) -> None:
    name = queue.encode()
    text.put(queue, b"one", b"two", b"three")
    assert text.ask(b"peek %b\n" % name) == b":one"
    text.send(b"monitor %b 200\n" % name)
    assert [text.read_line() for _ in range(4)] == [b":one", b":two", b":three", b"*"]
    assert text.ask(b"confirm %b 4\n" % name) == b"-Not that many transactions open."
    assert text.ask(b"confirm %b 3\n" % name) == b"+3"
    assert text.ask(b"get %b\n" % name) == b"*"


def test_a_get_waits(text: Text, queue: str, raw: Memcache) -> None:
    text.send(b"get %b 30000\n" % queue.encode())
    until("it waits", lambda: raw.stat(queue, "waiters") == 1)
    raw.put(queue, b"at last")
    assert text.read_line() == b":at last"


def test_both_protocols_are_one_queue(text: Text, queue: str, raw: Memcache) -> None:
    text.put(queue, b"from text")
    assert raw.put(queue, b"from memcache", flags=9)
    assert raw.get(f"{queue}/close/open") == b"from text"
    assert text.ask(b"get %b\n" % queue.encode()) == b":from memcache"
    assert raw.get(f"{queue}/abort") is None
    assert text.ask(b"get %b\n" % queue.encode()) == b":from text"


def test_flush_delete_version_and_status(text: Text, queue: str) -> None:
    name = queue.encode()
    for command in (b"flush", b"delete"):
        text.put(queue, b"gone")
        assert text.ask(b"%b %b\n" % (command, name)) == b"+0"
        assert text.ask(b"get %b\n" % name) == b"*"
    assert text.ask(b"version\n") == b":%b" % __version__.encode()
    assert text.ask(b"status\n") == b":UP"


def test_errors(text: Text) -> None:
    assert text.ask(b"nonsense\n") == b"-Unknown command: nonsense"
    assert text.ask(b"put a.b:\nx\n\n").startswith(b"-Queue name contains illegal characters")
    text.send(b"quit\n")
    assert text.is_ended()
