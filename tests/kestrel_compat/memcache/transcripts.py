"""Bytes of clients, and the requests that they are."""

from __future__ import annotations

from typing import NamedTuple

from barbicel.kestrel_compat.memcache.requests import (
    Bad,
    Confirm,
    Delete,
    DumpStats,
    Flush,
    FlushAll,
    FlushAllExpired,
    FlushExpired,
    Get,
    ListQueues,
    Monitor,
    Quit,
    Refusal,
    Reload,
    Request,
    Set,
    Shutdown,
    Stats,
    Status,
    Version,
)

__all__ = ["ENDS", "MAX_ITEM_BYTES", "MAX_LINE_BYTES", "STAYS", "TRANSCRIPTS", "Transcript"]

MAX_LINE_BYTES = 300
MAX_ITEM_BYTES = 20


class Transcript(NamedTuple):
    data: bytes
    requests: list[Request]


def bad(closes: bool) -> Bad:
    """The reason is for people; the reader's tests leave it out."""
    return Bad(Refusal.CLIENT_ERROR, closes, "")


STAYS = bad(closes=False)
ENDS = bad(closes=True)


def get(key: str, *options: str, timeout_ms: int | None = None) -> Get:
    opens, closes, aborts, peeks = (name in options for name in ("open", "close", "abort", "peek"))
    return Get(key, key.partition("/")[0], opens, closes, aborts, peeks, timeout_ms)


def one(data: bytes, request: Request) -> Transcript:
    return Transcript(data, [request])


_SET = Set("q", 0, 0, b"hello", False)
_TOO_LARGE = Set("q", 7, 9, None, False)
_PUT_21 = b"x" * (MAX_ITEM_BYTES + 1)

# What leaves the connection open.
_GOING_ON = {
    "set": one(b"set q 0 0 5\r\nhello\r\n", _SET),
    "set, LF": one(b"set q 0 0 5\nhello\r\n", _SET),
    "set, spaces at the end": one(b"set q 16 0 5   \r\nhello\r\n", Set("q", 16, 0, b"hello", False)),
    "SET": one(b"SeT Q 0 0 5\r\nhello\r\n", Set("Q", 0, 0, b"hello", False)),
    "set, nothing": one(b"set q 0 0 0\r\n\r\n", Set("q", 0, 0, b"", False)),
    "set, line ends in the data": one(
        b"set q 0 0 6\r\n\n\r\n\r\n\n\r\n", Set("q", 0, 0, b"\n\r\n\r\n\n", False)
    ),
    "set, any two bytes end it": one(b"set q 0 0 5\r\nhelloXY", _SET),
    "set, all bytes": one(b"set q 0 0 4\r\n\x00\xff\x80\x0a\r\n", Set("q", 0, 0, b"\x00\xff\x80\x0a", False)),
    "set, the largest": one(
        b"set q 0 0 %d\r\n%b\r\n" % (MAX_ITEM_BYTES, b"x" * MAX_ITEM_BYTES),
        Set("q", 0, 0, b"x" * MAX_ITEM_BYTES, False),
    ),
    "set, too large": one(b"set q 7 9 %d\r\n%b\r\n" % (len(_PUT_21), _PUT_21), _TOO_LARGE),
    "set, too large, noreply": one(
        b"set q 7 9 %d noreply\r\n%b\r\n" % (len(_PUT_21), _PUT_21), _TOO_LARGE._replace(noreply=True)
    ),
    "set, a queue with another limit": one(b"set small 0 0 5\r\nhello\r\n", Set("small", 0, 0, None, False)),
    "set, expiry": one(b"set q 0 3600 1\r\nx\r\n", Set("q", 0, 3600, b"x", False)),
    "set, expired": one(b"set q 0 -1 1\r\nx\r\n", Set("q", 0, -1, b"x", False)),
    "set, a date": one(b"set q 0 2147483647 1\r\nx\r\n", Set("q", 0, 2**31 - 1, b"x", False)),
    "set, unsigned flags": one(b"set q 4294967295 0 1\r\nx\r\n", Set("q", 2**32 - 1, 0, b"x", False)),
    "set, negative flags": one(b"set q -2147483648 0 1\r\nx\r\n", Set("q", -(2**31), 0, b"x", False)),
    "set, signs and zeros": one(b"set q +1 -0 0000000000001\r\nx\r\n", Set("q", 1, 0, b"x", False)),
    "set, noreply": one(b"set q 0 0 5 noreply\r\nhello\r\n", _SET._replace(noreply=True)),
    "set, more words": one(b"set q 0 0 5 1 x\r\nhello\r\n", _SET),
    "set, more words and noreply": one(b"set q 0 0 5 1 noreply\r\nhello\r\n", _SET._replace(noreply=True)),
    "set, NOREPLY": one(b"set q 0 0 5 NOREPLY\r\nhello\r\n", _SET),
    "set, a name for others to judge": one(b"set a/open 0 0 1\r\nx\r\n", Set("a/open", 0, 0, b"x", False)),
    "set, Latin-1": one(b"set caf\xe9 0 0 1\r\nx\r\n", Set("caf\xe9", 0, 0, b"x", False)),
    "set, a child": one(b"set q+audit 0 0 1\r\nx\r\n", Set("q+audit", 0, 0, b"x", False)),
    "set, flags are no number": one(b"set q x 0 5\r\nhello\r\n", STAYS),
    "set, flags are too high": one(b"set q 4294967296 0 5\r\nhello\r\n", STAYS),
    "set, no flags": one(b"set q  0 5\r\nhello\r\n", STAYS),
    "set, bad flags and too large": one(b"set q x 0 %d\r\n%b\r\n" % (len(_PUT_21), _PUT_21), STAYS),
    "get": one(b"get q\r\n", get("q")),
    "get, LF": one(b"get q\n", get("q")),
    "get, space at the end": one(b"get q \r\n", get("q")),
    "GETS": one(b"GETS q\r\n", get("q")),
    "get, two CRs": one(b"get q\r\r\n", get("q\r")),
    "get, a tab parts nothing": one(b"get q\tr\r\n", get("q\tr")),
    "get, case of the queue": one(b"get Q/OPEN\r\n", get("Q/OPEN")),
    "get, the first key of many": one(b"get a/open b c/peek/abort\r\n", get("a/open", "open")),
    "get, Latin-1": one(b"get \xe9\xff/open\r\n", get("\xe9\xff/open", "open")),
    "get, open": one(b"get q/open\r\n", get("q/open", "open")),
    "get, close": one(b"get q/close\r\n", get("q/close", "close")),
    "get, abort": one(b"get q/abort\r\n", get("q/abort", "abort")),
    "get, peek": one(b"get q/peek\r\n", get("q/peek", "peek")),
    "get, close and open": one(b"get q/close/open\r\n", get("q/close/open", "close", "open")),
    "get, open and close": one(b"get q/open/close\r\n", get("q/open/close", "close", "open")),
    "get, wait": one(b"get q/t=250\r\n", get("q/t=250", timeout_ms=250)),
    "get, wait in the middle": one(
        b"get q/close/t=10/open\r\n", get("q/close/t=10/open", "close", "open", timeout_ms=10)
    ),
    "get, peek and wait": one(b"get q/peek/t=1\r\n", get("q/peek/t=1", "peek", timeout_ms=1)),
    "get, abort and wait": one(b"get q/abort/t=1\r\n", get("q/abort/t=1", "abort", timeout_ms=1)),
    "get, wait for nothing": one(b"get q/t=0\r\n", get("q/t=0", timeout_ms=0)),
    "get, wait for less": one(b"get q/t=-5\r\n", get("q/t=-5", timeout_ms=0)),
    "get, the last wait counts": one(b"get q/t=9/t=3\r\n", get("q/t=9/t=3", timeout_ms=3)),
    "get, an option twice": one(b"get q/open/open\r\n", get("q/open/open", "open")),
    "get, options that nobody knows": one(b"get q/opened/T=1/x\r\n", get("q/opened/T=1/x")),
    "get, slash at the end": one(b"get q/\r\n", get("q/")),
    "get, empty options": one(b"get q//open//\r\n", get("q//open//", "open")),
    "get, no key": one(b"get\r\n", STAYS),
    "get, no key, spaces": one(b"get  \r\n", STAYS),
    "get, longer than lines that are kept": one(b"get %b\r\n" % (b"k" * 280), get("k" * 280)),
    "get, the longest line": one(
        b"get %b\n" % (b"k" * (MAX_LINE_BYTES - 4)), get("k" * (MAX_LINE_BYTES - 4))
    ),
    "delete": one(b"delete q\r\n", Delete("q", False)),
    "delete, time": one(b"delete q 0\r\n", Delete("q", False)),
    "delete, noreply": one(b"delete q noreply\r\n", Delete("q", True)),
    "delete, time and noreply": one(b"delete q 0 noreply\r\n", Delete("q", True)),
    "delete, a queue called noreply": one(b"delete noreply\r\n", Delete("noreply", False)),
    "delete what": one(b"delete\r\n", STAYS),
    "flush": one(b"flush q\r\n", Flush("q")),
    "FLUSH": one(b"FLUSH q\r\n", Flush("q")),
    "flush what": one(b"flush \r\n", STAYS),
    "flush, an empty word": one(b"flush  q\r\n", Flush("")),
    "flush_all": one(b"flush_all\r\n", FlushAll(False)),
    "flush_all, space at the end": one(b"flush_all \r\n", FlushAll(False)),
    "flush_all, delay and noreply": one(b"flush_all 0 noreply\r\n", FlushAll(True)),
    "flush_expired": one(b"flush_expired q\r\n", FlushExpired("q")),
    "flush_expired what": one(b"flush_expired\r\n", STAYS),
    "flush_all_expired": one(b"flush_all_expired\r\n", FlushAllExpired()),
    "stats": one(b"stats\r\n", Stats()),
    "stats, space at the end": one(b"stats \r\n", Stats()),
    "stats, arguments": one(b"STATS items\r\n", Stats()),
    "dump_stats": one(b"dump_stats\r\n", DumpStats(())),
    "dump_stats of some": one(b"DUMP_STATS a b+c\r\n", DumpStats(("a", "b+c"))),
    "monitor": one(b"monitor q 10\r\n", Monitor("q", 10, None)),
    "monitor, up to": one(b"monitor q 10 3\r\n", Monitor("q", 10, 3)),
    "monitor, none": one(b"monitor q 10 0\r\n", Monitor("q", 10, 0)),
    "monitor, a negative number never ends it": one(b"monitor q 10 -1\r\n", Monitor("q", 10, None)),
    "monitor, over at once": one(b"monitor q -1\r\n", Monitor("q", -1, None)),
    "monitor how long": one(b"monitor q\r\n", STAYS),
    "monitor what": one(b"monitor\r\n", STAYS),
    "confirm": one(b"confirm q 2\r\n", Confirm("q", 2)),
    "confirm none": one(b"confirm q 0\r\n", Confirm("q", 0)),
    "confirm less than none": one(b"confirm q -3\r\n", Confirm("q", 0)),
    "confirm how many": one(b"confirm q\r\n", STAYS),
    "confirm what": one(b"confirm\r\n", STAYS),
    "reload": one(b"RELOAD\r\n", Reload()),
    "version": one(b"VERSION\r\n", Version()),
    "status": one(b"status\r\n", Status(None)),
    "status X": one(b"status ReadOnly\r\n", Status("ReadOnly")),
    "quit": one(b"quit\r\n", Quit()),
    "shutdown": one(b"SHUTDOWN\r\n", Shutdown()),
    "list_queues": one(b"list_queues\r\n", ListQueues()),
}

# What ends it. Where there is data, it is not waited for.
_ENDING = {
    "empty line": b"\r\n",
    "empty line, LF": b"\n",
    "only spaces": b"   \r\n",
    "space in front": b" get q\r\n",
    "unknown command": b"bogus q\r\n",
    "unknown command, not ASCII": b"\xff\xfe\x00\r\n",
    "a part of a command": b"ge q\r\n",
    "add": b"add q 0 0 1\r\nx\r\n",
    "replace": b"replace q 0 0 1\r\nx\r\n",
    "append": b"append q 0 0 1\r\nx\r\n",
    "prepend": b"prepend q 0 0 1\r\nx\r\n",
    "cas": b"cas q 0 0 1 7\r\nx\r\n",
    "incr": b"incr q 1\r\n",
    "decr": b"decr q 1\r\n",
    "touch": b"touch q 1\r\n",
    "dump_config": b"dump_config\r\n",
    "binary": b"\x80\x00\x00\x03\x00\x00\n",
    "get, empty key": b"get /open\r\n",
    "get, only a slash": b"get /\r\n",
    "get, two spaces": b"get  q\r\n",
    "get, peek and open": b"get q/peek/open\r\n",
    "get, peek and close": b"get q/close/peek\r\n",
    "get, peek and abort": b"get q/peek/abort\r\n",
    "get, abort and open": b"get q/abort/open\r\n",
    "get, abort and close": b"get q/close/abort\r\n",
    "get, abort, close and open": b"get q/close/abort/open\r\n",
    "get, no time": b"get q/t=\r\n",
    "get, no number": b"get q/t=soon\r\n",
    "get, underscores": b"get q/t=1_0\r\n",
    "get, not ASCII": b"get q/t=\xb2\r\n",
    "get, too long a time": b"get q/t=2147483648\r\n",
    "get, one bad time of two": b"get q/t=x/t=1\r\n",
    "set, nothing at all": b"set\r\n",
    "set, no length": b"set q 0 0\r\nhello\r\n",
    "set, length of spaces": b"set q 0 0 \r\nhello\r\n",
    "set, negative length": b"set q 0 0 -1\r\n\r\n",
    "set, length is no number": b"set q 0 0 five\r\nhello\r\n",
    "set, length with a point": b"set q 0 0 5.0\r\nhello\r\n",
    "set, length beyond 32 bits": b"set q 0 0 2147483648\r\nhello\r\n",
    "set, length of many digits": b"set q 0 0 %b\r\nhello\r\n" % (b"9" * 200),
    "set, length of many zeros": b"set q 0 0 %b5\r\nhello\r\n" % (b"0" * 200),
    "set, only a sign": b"set q 0 0 -\r\nhello\r\n",
    "set, two signs": b"set q 0 0 +-5\r\nhello\r\n",
    "set, expiry is no number": b"set q 0 x 5\r\nhello\r\n",
    "set, expiry beyond 32 bits": b"set q 0 -2147483649 5\r\nhello\r\n",
    "set, empty name": b"set  0 0 5\r\nhello\r\n",
    "monitor, no number": b"monitor q x\r\n",
    "monitor, no number of items": b"monitor q 1 x\r\n",
    "confirm, no number": b"confirm q x\r\n",
    "a line that is too long": b"get %b\r\n" % (b"k" * MAX_LINE_BYTES),
    "a byte too long": b"get %b\n" % (b"k" * (MAX_LINE_BYTES - 3)),
    "too long without an end": b"x" * (MAX_LINE_BYTES + 1),
}

_TOGETHER = {
    "a worker": Transcript(
        b"set q 1 0 5\r\nhello\r\nget q/open\r\nget q/close/open\r\nget q/close\r\n",
        [
            Set("q", 1, 0, b"hello", False),
            get("q/open", "open"),
            get("q/close/open", "close", "open"),
            get("q/close", "close"),
        ],
    ),
    "nothing behind what ends it": Transcript(
        b"get q\r\nincr q 1\r\nset q 0 0 5\r\nhello\r\n", [get("q"), ENDS]
    ),
    "too large between others": Transcript(
        b"set q 0 0 5\r\nhello\r\nset q 7 9 21\r\n%b\r\nset q 0 0 5\r\nhello\r\n" % _PUT_21,
        [_SET, _TOO_LARGE, _SET],
    ),
    "commands within data": Transcript(
        b"set q 0 0 7\r\nget q\r\n\r\nget q\r\n", [Set("q", 0, 0, b"get q\r\n", False), get("q")]
    ),
}

TRANSCRIPTS: dict[str, Transcript] = {
    **_GOING_ON,
    **{name: one(data, ENDS) for name, data in _ENDING.items()},
    **_TOGETHER,
}
