"""Conversations of the memcache protocol: what a client sends, and every byte that it is answered.

Each starts with empty queues, and is about one row of Kestrel's command table. `closes` says that the server
ends the connection after the last answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from barbicel import __version__

__all__ = ["TRANSCRIPTS", "Step", "Transcript"]


class Step(NamedTuple):
    sent: bytes
    answer: bytes


class Transcript(NamedTuple):
    name: str
    steps: tuple[Step, ...]
    closes: bool = False
    settings: Mapping[str, Any] = MappingProxyType({})


def stored(queue: bytes, data: bytes) -> Step:
    return Step(b"set %b 0 0 %d\r\n%b\r\n" % (queue, len(data), data), b"STORED\r\n")


def asked(key: bytes, data: bytes, queue: bytes | None = None, flags: int = 0) -> Step:
    """A get that is a hit."""
    return Step(b"get %b\r\n" % key, hit(queue or key.partition(b"/")[0], data, flags))


def missed(key: bytes) -> Step:
    return Step(b"get %b\r\n" % key, b"END\r\n")


def hit(queue: bytes, data: bytes, flags: int = 0) -> bytes:
    return b"VALUE %b %d %d\r\n%b\r\nEND\r\n" % (queue, flags, len(data), data)


def transcript(name: str, *steps: Step, closes: bool = False, **settings: Any) -> Transcript:
    return Transcript(name, steps, closes, settings)


def refused(name: str, line: bytes, answer: bytes = b"CLIENT_ERROR\r\n", **settings: Any) -> Transcript:
    """The line alone is answered so, and the connection is closed."""
    return transcript(name, Step(line, answer), closes=True, **settings)


def bad(name: str, line: bytes) -> Transcript:
    """The line is refused, and the next is served."""
    return transcript(name, Step(line, b"CLIENT_ERROR\r\n"), missed(b"q"))


VERSION = Step(b"version\r\n", b"VERSION %b\r\n" % __version__.encode())

ITEMS = [
    transcript(
        "set and get", stored(b"q", b"one"), stored(b"q", b"two"), asked(b"q", b"one"), asked(b"q", b"two")
    ),
    transcript("gets", stored(b"q", b"one"), Step(b"gets q\r\n", hit(b"q", b"one"))),
    transcript("a miss", missed(b"q"), missed(b"q")),
    transcript("an empty item", stored(b"q", b""), asked(b"q", b"")),
    transcript("data of any bytes", stored(b"q", b"a\r\nEND\r\n\0\xff"), asked(b"q", b"a\r\nEND\r\n\0\xff")),
    transcript("LF alone", Step(b"set q 0 0 1\nx\r\n", b"STORED\r\n"), Step(b"get q\n", hit(b"q", b"x"))),
    transcript(
        "spaces at the end",
        Step(b"set q 0 0 1 \r\nx\r\n", b"STORED\r\n"),
        Step(b"get q  \r\n", hit(b"q", b"x")),
    ),
    transcript(
        "a command in capitals",
        Step(b"SET q 0 0 1\r\nx\r\n", b"STORED\r\n"),
        Step(b"GET q\r\n", hit(b"q", b"x")),
    ),
    transcript("a queue in capitals", stored(b"q", b"x"), missed(b"Q")),
    transcript(
        "only the first key",
        stored(b"a", b"x"),
        stored(b"b", b"y"),
        Step(b"get a b\r\n", hit(b"a", b"x")),
        asked(b"b", b"y"),
    ),
    transcript("flags", Step(b"set q 16 0 1\r\nx\r\n", b"STORED\r\n"), asked(b"q", b"x", flags=16)),
    transcript(
        "flags that are not kept",
        Step(b"set q 16 0 1\r\nx\r\n", b"STORED\r\n"),
        asked(b"q", b"x"),
        kestrel_keep_flags=False,
    ),
    transcript("flags that are no number", Step(b"set q a 0 1\r\nx\r\n", b"CLIENT_ERROR\r\n"), missed(b"q")),
    transcript(
        "an item that has expired",
        Step(b"set q 0 -1 1\r\nx\r\n", b"STORED\r\n"),
        stored(b"q", b"y"),
        asked(b"q", b"y"),
    ),
    transcript("an expiry to come", Step(b"set q 0 60 1\r\nx\r\n", b"STORED\r\n"), asked(b"q", b"x")),
    transcript("a date that has passed", Step(b"set q 0 1000000 1\r\nx\r\n", b"STORED\r\n"), missed(b"q")),
    transcript(
        "an item too large",
        Step(b"set q 0 0 11\r\n12345678901\r\n", b"NOT_STORED\r\n"),
        stored(b"q", b"1234567890"),
        asked(b"q", b"1234567890"),
        kestrel_max_item_bytes=10,
    ),
    transcript(
        "noreply",
        Step(b"set q 0 0 1 noreply\r\nx\r\n", b""),
        stored(b"q", b"y"),
        asked(b"q", b"x"),
        asked(b"q", b"y"),
    ),
    transcript(
        "noreply as Kestrel",
        Step(b"set q 0 0 1 noreply\r\nx\r\n", b"STORED\r\n"),
        asked(b"q", b"x"),
        kestrel_noreply=False,
    ),
    transcript(
        "a set on a child",
        missed(b"q+a"),
        missed(b"q+b"),
        stored(b"q+a", b"x"),
        missed(b"q"),
        missed(b"q+b"),
        asked(b"q+a", b"x"),
    ),
    transcript("a fanout", missed(b"q+a"), stored(b"q", b"x"), asked(b"q+a", b"x"), asked(b"q", b"x")),
    refused("a bad name in set", b"set a.b 0 0 1\r\nx\r\n"),
    refused("a bad name in get", b"get a~b\r\n"),
]

RELIABLE_READS = [
    transcript(
        "open and close", stored(b"q", b"x"), asked(b"q/open", b"x"), missed(b"q/close"), missed(b"q")
    ),
    transcript(
        "open and abort", stored(b"q", b"x"), asked(b"q/open", b"x"), missed(b"q/abort"), asked(b"q", b"x")
    ),
    transcript(
        "close and open",
        stored(b"q", b"x"),
        stored(b"q", b"y"),
        asked(b"q/open", b"x"),
        asked(b"q/close/open", b"y"),
        missed(b"q/close/open"),
        missed(b"q"),
    ),
    transcript(
        "in the other order",
        stored(b"q", b"x"),
        stored(b"q", b"y"),
        asked(b"q/open", b"x"),
        asked(b"q/open/close", b"y"),
        missed(b"q/abort"),
        asked(b"q", b"y"),
    ),
    transcript(
        "with a time", stored(b"q", b"x"), asked(b"q/t=10/open", b"x"), missed(b"q/close/t=10"), missed(b"q")
    ),
    transcript("nothing to close or abort", missed(b"q/close"), missed(b"q/abort")),
    transcript(
        "the oldest first",
        stored(b"q", b"x"),
        stored(b"q", b"y"),
        asked(b"q/open", b"x"),
        asked(b"q/open", b"y"),
        missed(b"q/close"),
        missed(b"q/abort"),
        asked(b"q", b"y"),
    ),
    transcript(
        "peek",
        stored(b"q", b"x"),
        asked(b"q/peek", b"x"),
        asked(b"q/peek", b"x"),
        asked(b"q", b"x"),
        missed(b"q/peek"),
    ),
    transcript(
        "peek beside an open read",
        stored(b"q", b"x"),
        stored(b"q", b"y"),
        asked(b"q/open", b"x"),
        asked(b"q/peek", b"y"),
    ),
    transcript(
        "a plain get beside an open read",
        stored(b"q", b"x"),
        asked(b"q/open", b"x"),
        Step(b"get q\r\n", b"ERROR\r\n"),
        closes=True,
    ),
    transcript("a plain get of another queue", stored(b"q", b"x"), asked(b"q/open", b"x"), missed(b"r")),
    transcript(
        "too many open",
        stored(b"q", b"x"),
        stored(b"q", b"y"),
        stored(b"q", b"z"),
        asked(b"q/open", b"x"),
        asked(b"q/open", b"y"),
        Step(b"get q/open\r\n", b"ERROR\r\n"),
        closes=True,
        kestrel_max_open_transactions=2,
    ),
    transcript(
        "as many open as may be, of each queue",
        stored(b"q", b"x"),
        stored(b"r", b"y"),
        asked(b"q/open", b"x"),
        asked(b"r/open", b"y"),
        kestrel_max_open_transactions=1,
    ),
    transcript(
        "close makes room",
        stored(b"q", b"x"),
        stored(b"q", b"y"),
        asked(b"q/open", b"x"),
        asked(b"q/close/open", b"y"),
        kestrel_max_open_transactions=1,
    ),
    transcript("an unknown option", stored(b"q", b"x"), asked(b"q/what", b"x")),
    transcript(
        "the key is echoed",
        stored(b"q", b"x"),
        asked(b"q/open", b"x", queue=b"q/open"),
        missed(b"q/close"),
        stored(b"q", b"y"),
        asked(b"q/peek", b"y", queue=b"q/peek"),
        asked(b"q/t=5", b"y", queue=b"q/t=5"),
        kestrel_echo_key=True,
    ),
    *(
        refused(options, b"get q/%b\r\n" % options.encode())
        for options in ("peek/open", "peek/close", "abort/open", "abort/close", "peek/abort")
    ),
    refused("an empty key", b"get /open\r\n"),
    transcript(
        "confirm",
        stored(b"q", b"x"),
        stored(b"q", b"y"),
        asked(b"q/open", b"x"),
        asked(b"q/open", b"y"),
        Step(b"confirm q 2\r\n", b"END\r\n"),
        missed(b"q"),
    ),
    transcript(
        "confirm more than are open",
        stored(b"q", b"x"),
        asked(b"q/open", b"x"),
        Step(b"confirm q 2\r\n", b"ERROR\r\n"),
        Step(b"confirm q 0\r\n", b"ERROR\r\n"),
        Step(b"confirm q 1\r\n", b"END\r\n"),
    ),
    transcript("confirm of no queue", Step(b"confirm q 1\r\n", b"ERROR\r\n")),
    transcript(
        "monitor up to a number",
        stored(b"q", b"x"),
        stored(b"q", b"y"),
        stored(b"q", b"z"),
        Step(b"monitor q 10 2\r\n", hit(b"q", b"x") + hit(b"q", b"y") + b"END\r\n"),
        Step(b"confirm q 2\r\n", b"END\r\n"),
        asked(b"q", b"z"),
    ),
    transcript(
        "monitor as many as may be open",
        stored(b"q", b"x"),
        stored(b"q", b"y"),
        Step(b"monitor q 10\r\n", hit(b"q", b"x") + b"END\r\n"),
        kestrel_max_open_transactions=1,
    ),
    transcript(
        "monitor for no time", stored(b"q", b"x"), Step(b"monitor q 0\r\n", b"END\r\n"), asked(b"q", b"x")
    ),
    transcript(
        "monitor for no items", stored(b"q", b"x"), Step(b"monitor q 5 0\r\n", b"END\r\n"), asked(b"q", b"x")
    ),
]

QUEUES = [
    transcript("delete", stored(b"q", b"x"), Step(b"delete q\r\n", b"DELETED\r\n"), missed(b"q")),
    transcript(
        "delete nothing",
        Step(b"delete q\r\n", b"DELETED\r\n"),
        Step(b"delete a.b\r\n", b"DELETED\r\n"),
        Step(b"list_queues\r\n", b"END\r\n"),
    ),
    transcript("delete with noreply", stored(b"q", b"x"), Step(b"delete q noreply\r\n", b""), missed(b"q")),
    transcript("flush", stored(b"q", b"x"), Step(b"flush q\r\n", b"END\r\n"), missed(b"q")),
    transcript(
        "flush nothing",
        Step(b"flush q\r\n", b"END\r\n"),
        Step(b"flush a.b\r\n", b"END\r\n"),
        Step(b"list_queues\r\n", b"END\r\n"),
    ),
    transcript(
        "flush_all",
        stored(b"q", b"x"),
        stored(b"r", b"y"),
        Step(b"flush_all \r\n", b"Flushed all queues.\r\n"),
        missed(b"q"),
        missed(b"r"),
        kestrel_allow_flush_all=True,
    ),
    transcript(
        "flush_all with noreply",
        stored(b"q", b"x"),
        Step(b"flush_all noreply\r\n", b""),
        missed(b"q"),
        kestrel_allow_flush_all=True,
    ),
    transcript(
        "flush_all that is not allowed",
        stored(b"q", b"x"),
        Step(b"flush_all\r\n", b"SERVER_ERROR not allowed, see kestrel.allow.flush.all\r\n"),
        asked(b"q", b"x"),
    ),
    transcript(
        "flush_expired",
        Step(b"set q 0 -1 1\r\nx\r\n", b"STORED\r\n"),
        stored(b"q", b"y"),
        Step(b"flush_expired q\r\n", b"1\r\n"),
        Step(b"flush_expired q\r\n", b"0\r\n"),
        asked(b"q", b"y"),
    ),
    transcript(
        "flush_expired of nothing",
        Step(b"flush_expired q\r\n", b"0\r\n"),
        Step(b"flush_expired a.b\r\n", b"0\r\n"),
    ),
    transcript(
        "flush_all_expired",
        Step(b"set q 0 -1 1\r\nx\r\n", b"STORED\r\n"),
        Step(b"set r 0 -1 1\r\nx\r\n", b"STORED\r\n"),
        Step(b"flush_all_expired\r\n", b"2\r\n"),
    ),
    transcript(
        "list_queues",
        stored(b"r", b"x"),
        missed(b"q+a"),
        Step(b"list_queues\r\n", b"QUEUE q+a\r\nQUEUE r\r\nEND\r\n"),
    ),
    transcript(
        "dump_stats of what is not there",
        Step(b"dump_stats q r\r\n", b"queue 'q' {\r\n}\r\nqueue 'r' {\r\n}\r\nEND\r\n"),
        Step(b"DUMP_STATS\r\n", b"END\r\n"),
    ),
]

SERVER = [
    transcript("version", VERSION, Step(b"VERSION\r\n", VERSION.answer)),
    transcript(
        "status",
        Step(b"status\r\n", b"UP\r\n"),
        Step(b"status writeavoid\r\n", b"END\r\n"),
        Step(b"status\r\n", b"WRITEAVOID\r\n"),
        stored(b"q", b"x"),
        asked(b"q", b"x"),
        Step(b"status Up\r\n", b"END\r\n"),
        Step(b"status\r\n", b"UP\r\n"),
    ),
    *(
        transcript(
            f"readonly, {line!r}",
            stored(b"q", b"x"),
            Step(b"status readonly\r\n", b"END\r\n"),
            asked(b"q/open", b"x"),
            missed(b"q/abort"),
            Step(line, b"SERVER_ERROR\r\n"),
            closes=True,
            kestrel_allow_flush_all=True,
        )
        for line in (
            b"set q 0 0 1\r\nx\r\n",
            b"delete q\r\n",
            b"flush q\r\n",
            b"flush_all\r\n",
            b"flush_expired q\r\n",
        )
    ),
    *(
        transcript(
            f"quiescent, {line!r}",
            stored(b"q", b"x"),
            asked(b"q/open", b"x"),
            Step(b"status quiescent\r\n", b"END\r\n"),
            missed(b"q/close"),
            Step(b"confirm q 1\r\n", b"ERROR\r\n"),
            Step(b"flush_all_expired\r\n", b"0\r\n"),
            VERSION,
            Step(line, b"SERVER_ERROR\r\n"),
            closes=True,
        )
        for line in (
            b"set q 0 0 1\r\nx\r\n",
            b"get q\r\n",
            b"get q/peek\r\n",
            b"get q/open\r\n",
            b"get q/close/open\r\n",
            b"monitor q 1\r\n",
            b"delete q\r\n",
        )
    ),
    refused("a status that is none", b"status sideways\r\n"),
    refused("a status that is not to be set", b"status down\r\n"),
    transcript("reload", Step(b"RELOAD\r\n", b"Reloaded config.\r\n"), kestrel_allow_reload=True),
    transcript(
        "reload that is not allowed",
        Step(b"reload\r\n", b"SERVER_ERROR not allowed, see kestrel.allow.reload\r\n"),
        VERSION,
    ),
    transcript(
        "shutdown that is not allowed",
        Step(b"shutdown\r\n", b"SERVER_ERROR not allowed, see kestrel.allow.shutdown\r\n"),
        VERSION,
    ),
    refused("shutdown", b"shutdown\r\n", b"", kestrel_allow_shutdown=True),
    transcript("quit", VERSION, Step(b"quit\r\n", b""), closes=True),
]

BAD_INPUT = [
    *(
        refused(f"{line!r}", line)
        for line in (
            b"what\r\n",
            b"\r\n",
            b"incr q 1\r\n",
            b"touch q 1\r\n",
            b"add q 0 0 1\r\nx\r\n",
            b"cas q 0 0 1 1\r\nx\r\n",
        )
    ),
    refused("a line too long", b"get " + b"q" * 600 + b"\r\n", kestrel_max_line_bytes=512),
    *(
        bad(f"{line!r}", line)
        for line in (
            b"get\r\n",
            b"delete\r\n",
            b"flush\r\n",
            b"flush_expired\r\n",
            b"monitor q\r\n",
            b"confirm q\r\n",
        )
    ),
    transcript(
        "what came before is answered",
        stored(b"q", b"x"),
        asked(b"q", b"x"),
        Step(b"what\r\n", b"CLIENT_ERROR\r\n"),
        closes=True,
    ),
]

TRANSCRIPTS = [*ITEMS, *RELIABLE_READS, *QUEUES, *SERVER, *BAD_INPUT]
