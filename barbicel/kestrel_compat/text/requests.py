"""What a client of the text protocol can ask for, as values.

Get, Peek and Monitor first confirm every read that the connection has open on the queue: that is how this
protocol confirms, and why they are not the memcache protocol's. All times are in milliseconds from now.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from barbicel.kestrel_compat.memcache.requests import (
    Confirm,
    Delete,
    Flush,
    Quit,
    Shutdown,
    Status,
    Version,
)

__all__ = [
    "Bad",
    "Confirm",
    "Delete",
    "Flush",
    "Get",
    "Monitor",
    "Peek",
    "Put",
    "Quit",
    "Request",
    "Shutdown",
    "Status",
    "Version",
]


class Put(NamedTuple):
    """`lifetime_ms` is None where items never expire. `dropped` items were too large, or too many, to keep:
    like items that a full queue refuses they are missing from the count that is answered."""

    queue: str
    lifetime_ms: int | None
    items: tuple[bytes, ...] = ()
    dropped: int = 0


class Get(NamedTuple):
    """Opens a read. `timeout_ms` is None where it does not wait, and never negative."""

    queue: str
    timeout_ms: int | None


class Peek(NamedTuple):
    queue: str
    timeout_ms: int | None


class Monitor(NamedTuple):
    """Opens reads until the time is over or as many are open as may be."""

    queue: str
    timeout_ms: int


class Bad(NamedTuple):
    """What cannot be done. `message` is what the client is told; `closes` ends the connection after it."""

    message: str
    closes: bool = False


Request: TypeAlias = (
    Put | Get | Peek | Monitor | Confirm | Flush | Delete | Status | Quit | Shutdown | Version | Bad
)
