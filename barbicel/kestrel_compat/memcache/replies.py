"""The bytes of every reply of the memcache protocol. `quit` and `shutdown` have none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from barbicel.kestrel_compat.memcache.requests import Refusal

__all__ = [
    "DELETED",
    "END",
    "FLUSHED_ALL",
    "NOT_STORED",
    "REFUSALS",
    "RELOADED",
    "STORED",
    "count",
    "dump_stats",
    "queue_names",
    "stats",
    "status",
    "value",
    "version",
]

Rows: TypeAlias = Iterable[tuple[str, str]]

STORED = b"STORED\r\n"
NOT_STORED = b"NOT_STORED\r\n"
DELETED = b"DELETED\r\n"
END = b"END\r\n"
FLUSHED_ALL = b"Flushed all queues.\r\n"
RELOADED = b"Reloaded config.\r\n"

REFUSALS: Mapping[Refusal, bytes] = {
    Refusal.CLIENT_ERROR: b"CLIENT_ERROR\r\n",
    Refusal.ERROR: b"ERROR\r\n",
    Refusal.SERVER_ERROR: b"SERVER_ERROR\r\n",
}


def value(key: str, flags: int, data: bytes) -> bytes:
    """A hit: the item and the END behind it. `key` is the queue, or what the client asked for."""
    return b"VALUE %b %d %d\r\n%b\r\nEND\r\n" % (key.encode("latin-1"), flags, len(data), data)


def count(number: int) -> bytes:
    """Of flush_expired and flush_all_expired."""
    return b"%d\r\n" % number


def version(text: str) -> bytes:
    return _lines([f"VERSION {text}"])


def status(level: str) -> bytes:
    return _lines([level.upper()])


def stats(rows: Rows) -> bytes:
    return _lines([*(f"STAT {name} {text}" for name, text in rows), "END"])


def dump_stats(queues: Iterable[tuple[str, Rows]]) -> bytes:
    """The rows of each queue, by its name. A queue that is not there has none."""
    return _lines([*(line for name, rows in queues for line in _block(name, rows)), "END"])


def queue_names(names: Iterable[str]) -> bytes:
    """Of list_queues."""
    return _lines([*(f"QUEUE {name}" for name in names), "END"])


def _block(name: str, rows: Rows) -> list[str]:
    return [f"queue '{name}' {{", *(f"  {row}={text}" for row, text in rows), "}"]


def _lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1", "replace")
