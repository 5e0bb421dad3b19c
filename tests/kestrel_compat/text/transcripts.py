"""Bytes of clients, and the requests that they are."""

from __future__ import annotations

from typing import NamedTuple

from barbicel.kestrel_compat.text.reader import MAX_PUT_ITEMS
from barbicel.kestrel_compat.text.requests import (
    Bad,
    Confirm,
    Delete,
    Flush,
    Get,
    Monitor,
    Peek,
    Put,
    Quit,
    Request,
    Shutdown,
    Status,
    Version,
)

__all__ = ["MAX_ITEM_BYTES", "MAX_LINE_BYTES", "MAX_PUT_BYTES", "TRANSCRIPTS", "Transcript", "is_the_end"]

MAX_LINE_BYTES = 80
MAX_ITEM_BYTES = 20
MAX_PUT_BYTES = 2000


class Transcript(NamedTuple):
    data: bytes
    requests: list[Request]


def one(data: bytes, request: Request) -> Transcript:
    return Transcript(data, [request])


def is_the_end(request: object) -> bool:
    return isinstance(request, Bad) and request.closes


_NO_QUEUE = Bad("Queue name required.")
_BAD_TIMEOUT = Bad("Error parsing timeout.")
_TOO_LONG = Bad("Line too long.", closes=True)
_LARGEST = b"x" * MAX_ITEM_BYTES
_MANY = (b"i",) * (MAX_PUT_ITEMS + 3)

TRANSCRIPTS: dict[str, Transcript] = {
    "put": one(b"put q:\nhello\n\n", Put("q", None, (b"hello",))),
    "put, CRLF": one(b"PUT q:\r\nhello\r\nthere\r\n\r\n", Put("q", None, (b"hello", b"there"))),
    "put, nothing": one(b"put q:\n\n", Put("q", None)),
    "put, no colon": one(b"put q\n", Put("q", None)),
    "put, space behind the colon": one(b"put q: \n", Put("q:", None)),
    "put, space before the colon": one(b"put q :\nx\n\n", Put("q", None, (b"x",))),
    "put, two colons": one(b"put q::\nx\n\n", Put("q:", None, (b"x",))),
    "put, lifetime": one(b"put q 1500:\nx\n\n", Put("q", 1500, (b"x",))),
    "put, no lifetime": one(b"put q 0:\nx\n\n", Put("q", 0, (b"x",))),
    "put, expired": one(b"put q -1:\nx\n\n", Put("q", -1, (b"x",))),
    "put, more words": one(b"put q 5 x y:\nx\n\n", Put("q", 5, (b"x",))),
    "put, bytes": one(b"put q:\n\xc3\xa9\xff\x00 :\n\n", Put("q", None, (b"\xc3\xa9\xff\x00 :",))),
    "put, spaces are an item": one(b"put q:\n  \n\n", Put("q", None, (b"  ",))),
    "put, a CR inside": one(b"put q:\na\rb\r\r\n\n", Put("q", None, (b"a\rb\r",))),
    "put, commands": one(b"put q:\nquit\nget q\n\n", Put("q", None, (b"quit", b"get q"))),
    "put, Latin-1": one(b"put \xe9:\nx\n\n", Put("\xe9", None, (b"x",))),
    "put, the largest": one(b"put q:\n%b\n\n" % _LARGEST, Put("q", None, (_LARGEST,))),
    "put, the largest, CRLF": one(b"put q:\r\n%b\r\n\r\n" % _LARGEST, Put("q", None, (_LARGEST,))),
    "put, one too large": one(b"put q:\na\n%bx\nb\n\n" % _LARGEST, Put("q", None, (b"a", b"b"), 1)),
    "put, one too large, CRLF": one(
        b"put q:\r\na\r\n%bx\r\nb\r\n\r\n" % _LARGEST, Put("q", None, (b"a", b"b"), 1)
    ),
    "put, one much too large": one(b"put q:\n%b\nb\n\n" % (_LARGEST * 9), Put("q", None, (b"b",), 1)),
    "put, a queue with another limit": one(b"put small:\nhello\nhi\n\n", Put("small", None, (b"hi",), 1)),
    "put, too many": one(
        b"put q:\n%b\n\n" % b"\n".join(_MANY),
        Put("q", None, _MANY[:MAX_PUT_ITEMS], len(_MANY) - MAX_PUT_ITEMS),
    ),
    "put, too much": one(b"put q:\n%b\n" % (b"%b\n" % _LARGEST * 101), Put("q", None, (_LARGEST,) * 100, 1)),
    "put, as much as there may be": one(
        b"put q:\n%b\n" % (b"%b\n" % _LARGEST * 100), Put("q", None, (_LARGEST,) * 100)
    ),
    "put what": one(b"put\n", _NO_QUEUE),
    "put what:": one(b"put:\nhello\n\n", _NO_QUEUE),
    "put, lifetime is no number": one(b"put q soon:\nhello\n\n", Bad("Error parsing expiration time.")),
    "put, lifetime is too long": one(b"put q 2147483648:\nx\n\n", Bad("Error parsing expiration time.")),
    "put, an empty word": one(b"put  q:\nx\n\n", Bad("Error parsing expiration time.")),
    "get": one(b"get q\r\n", Get("q", None)),
    "GET": one(b"GET Q\n", Get("Q", None)),
    "get, spaces at the end": one(b"get q  \n", Get("q", None)),
    "get, wait": one(b"get q 100\n", Get("q", 100)),
    "get, wait for less": one(b"get q -100\n", Get("q", 0)),
    "get, options mean nothing": one(b"get q/open\n", Get("q/open", None)),
    "get, items mean nothing": one(b"get q:\nquit\n\n", Get("q", None)),
    "get what": one(b"get\n", _NO_QUEUE),
    "get, no number": one(b"get q x\n", _BAD_TIMEOUT),
    "peek": one(b"peek q\n", Peek("q", None)),
    "peek, wait": one(b"peek q 7\n", Peek("q", 7)),
    "peek what": one(b"peek\n", _NO_QUEUE),
    "peek, no number": one(b"peek q 1.5\n", _BAD_TIMEOUT),
    "monitor": one(b"monitor q 1000\n", Monitor("q", 1000)),
    "monitor, over at once": one(b"monitor q -1\n", Monitor("q", 0)),
    "monitor how long": one(b"monitor q\n", Bad("Queue name & timeout required.")),
    "monitor what": one(b"monitor\n", Bad("Queue name & timeout required.")),
    "monitor, no number": one(b"monitor q x\n", Bad("Error parsing timeout.", closes=True)),
    "monitor:, no number": one(b"monitor q x:\na\n\n", Bad("Error parsing timeout.", closes=True)),
    "confirm": one(b"confirm q 3\n", Confirm("q", 3)),
    "confirm less than none": one(b"confirm q -3\n", Confirm("q", 0)),
    "confirm how many": one(b"confirm q\n", Bad("Queue name & count required.")),
    "confirm, no number": one(b"confirm q x\n", Bad("Error parsing count.", closes=True)),
    "flush": one(b"flush q\n", Flush("q")),
    "flush what": one(b"flush\n", _NO_QUEUE),
    "delete": one(b"delete q\n", Delete("q", False)),
    "delete, no noreply here": one(b"delete q noreply\n", Delete("q", False)),
    "delete what": one(b"delete\n", _NO_QUEUE),
    "status": one(b"status\n", Status(None)),
    "status X": one(b"status Quiescent\n", Status("Quiescent")),
    "quit": one(b"QUIT\r\n", Quit()),
    "shutdown": one(b"shutdown\n", Shutdown()),
    "version": one(b"version\n", Version()),
    "unknown command": one(b"Set q 0 0 5\n", Bad("Unknown command: set")),
    "unknown command:": one(b"stats:\nx\n\n", Bad("Unknown command: stats")),
    "empty line": one(b"\n", Bad("Unknown command: ")),
    "empty line, CRLF": one(b"\r\n", Bad("Unknown command: ")),
    "only spaces": one(b"  \n", Bad("Unknown command: ")),
    "only a colon": one(b":\nx\n\n", Bad("Unknown command: ")),
    "space in front": one(b" get q\n", Bad("Unknown command: ")),
    "not ASCII": one(b"\xff\n", Bad("Unknown command: \xff")),
    "the longest line": one(
        b"get %b\r\n" % (b"k" * (MAX_LINE_BYTES - 4)), Get("k" * (MAX_LINE_BYTES - 4), None)
    ),
    "a byte too long": one(b"get %b\n" % (b"k" * (MAX_LINE_BYTES - 3)), _TOO_LONG),
    "a line that is too long": one(b"get %b\n" % (b"k" * MAX_LINE_BYTES * 2), _TOO_LONG),
    "too long without an end": one(b"x" * (MAX_LINE_BYTES + 2), _TOO_LONG),
    "a session": Transcript(
        b"put q:\na\n\nget q\nget q 5\nconfirm q 1\nquit\n",
        [Put("q", None, (b"a",)), Get("q", None), Get("q", 5), Confirm("q", 1), Quit()],
    ),
    "nothing behind what ends it": Transcript(
        b"version\nconfirm q x\nput q:\na\n\n", [Version(), Bad("Error parsing count.", closes=True)]
    ),
}
