"""The bytes of the text protocol's replies."""

from __future__ import annotations

import pytest

from barbicel.kestrel_compat.text import replies

REPLIES = {
    "no item": (replies.NO_ITEM, b"*\n"),
    "count": (replies.count(23), b"+23\n"),
    "error": (replies.error("Queue name required."), b"-Queue name required.\n"),
    "error in one line": (replies.error("one\r\ntwo\n+5"), b"-one two +5\n"),
    "error, not ASCII": (replies.error("Unknown command: \xff"), b"-Unknown command: ?\n"),
    "item": (replies.item(b"hello"), b":hello\n"),
    "item, bytes": (replies.item(b"\xc3\xa9%d"), b":\xc3\xa9%d\n"),
    "text": (replies.text("UP"), b":UP\n"),
    "too few open": (replies.TOO_FEW_OPEN, b"-Not that many transactions open.\n"),
    "too many open": (replies.too_many_open(10), b"-Too many open transactions; limit=10\n"),
    "unavailable": (replies.unavailable("getItem"), b"-Server not available for operation getItem\n"),
}


@pytest.mark.parametrize(("reply", "expected"), REPLIES.values(), ids=REPLIES)
def test_reply(reply: bytes, expected: bytes) -> None:
    assert reply == expected
