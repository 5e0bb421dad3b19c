"""The bytes of the memcache protocol's replies."""

from __future__ import annotations

import pytest

from barbicel.kestrel_compat.memcache import replies
from barbicel.kestrel_compat.memcache.requests import Refusal

REPLIES = {
    "stored": (replies.STORED, b"STORED\r\n"),
    "not stored": (replies.NOT_STORED, b"NOT_STORED\r\n"),
    "deleted": (replies.DELETED, b"DELETED\r\n"),
    "end": (replies.END, b"END\r\n"),
    "flushed all": (replies.FLUSHED_ALL, b"Flushed all queues.\r\n"),
    "reloaded": (replies.RELOADED, b"Reloaded config.\r\n"),
    "client error": (replies.REFUSALS[Refusal.CLIENT_ERROR], b"CLIENT_ERROR\r\n"),
    "error": (replies.REFUSALS[Refusal.ERROR], b"ERROR\r\n"),
    "server error": (replies.REFUSALS[Refusal.SERVER_ERROR], b"SERVER_ERROR\r\n"),
    "value": (replies.value("q", 0, b"hello"), b"VALUE q 0 5\r\nhello\r\nEND\r\n"),
    "value, nothing": (replies.value("q/open", 16, b""), b"VALUE q/open 16 0\r\n\r\nEND\r\n"),
    "value, bytes": (
        replies.value("caf\xe9", 2**32 - 1, b"%d\r\n\x00\xff"),
        b"VALUE caf\xe9 4294967295 6\r\n%d\r\n\x00\xff\r\nEND\r\n",
    ),
    "count": (replies.count(12), b"12\r\n"),
    "version": (replies.version("2.4.8"), b"VERSION 2.4.8\r\n"),
    "status": (replies.status("ReadOnly"), b"READONLY\r\n"),
    "stats": (
        replies.stats([("uptime", "5"), ("queue_q_items", "0")]),
        b"STAT uptime 5\r\nSTAT queue_q_items 0\r\nEND\r\n",
    ),
    "stats, a name beyond Latin-1": (replies.stats([("\u20ac", "1")]), b"STAT ? 1\r\nEND\r\n"),
    "dump_stats": (
        replies.dump_stats([("a", [("items", "1"), ("bytes", "5")]), ("b+c", [("items", "0")])]),
        b"queue 'a' {\r\n  items=1\r\n  bytes=5\r\n}\r\nqueue 'b+c' {\r\n  items=0\r\n}\r\nEND\r\n",
    ),
    "dump_stats, a queue that is not there": (
        replies.dump_stats([("a", [])]),
        b"queue 'a' {\r\n}\r\nEND\r\n",
    ),
    "dump_stats, no queues": (replies.dump_stats([]), b"END\r\n"),
    "list_queues": (replies.queue_names(["a", "a+b"]), b"QUEUE a\r\nQUEUE a+b\r\nEND\r\n"),
    "list_queues, none": (replies.queue_names([]), b"END\r\n"),
}


@pytest.mark.parametrize(("reply", "expected"), REPLIES.values(), ids=REPLIES)
def test_reply(reply: bytes, expected: bytes) -> None:
    assert reply == expected


def test_every_refusal_has_its_bytes() -> None:
    assert set(replies.REFUSALS) == set(Refusal)
