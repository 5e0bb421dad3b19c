"""What a client of the memcache protocol can ask for, as values.

Names are text decoded as Latin-1, which every byte string is; whether a queue may be called so is not
judged here. They are tuples, which are cheap; but an empty tuple would be false, and `count` is a method of
tuples, so where there are no fields, or that one, they are frozen dataclasses.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

__all__ = [
    "Bad",
    "Confirm",
    "Delete",
    "DumpStats",
    "Flush",
    "FlushAll",
    "FlushAllExpired",
    "FlushExpired",
    "Get",
    "ListQueues",
    "Monitor",
    "Quit",
    "Refusal",
    "Reload",
    "Request",
    "Set",
    "Shutdown",
    "Stats",
    "Status",
    "Version",
]


class Refusal(Enum):
    """The words by which the protocol refuses. Kestrel never adds a reason to them."""

    CLIENT_ERROR = "CLIENT_ERROR"
    ERROR = "ERROR"
    SERVER_ERROR = "SERVER_ERROR"


class Set(NamedTuple):
    """`data` is None where it was larger than allowed: then it was dropped as it came."""

    queue: str
    flags: int
    expiry_s: int
    data: bytes | None
    noreply: bool


class Get(NamedTuple):
    """`key` is what the client wrote, `queue` that without its options.

    `timeout_ms` is None without the option `t=`, and never negative.
    """

    key: str
    queue: str
    is_open: bool
    is_close: bool
    is_abort: bool
    is_peek: bool
    timeout_ms: int | None


class Delete(NamedTuple):
    queue: str
    noreply: bool


class Flush(NamedTuple):
    queue: str


class FlushAll(NamedTuple):
    noreply: bool


class FlushExpired(NamedTuple):
    queue: str


@dataclass(frozen=True, slots=True)
class FlushAllExpired:
    pass


@dataclass(frozen=True, slots=True)
class Stats:
    pass


class DumpStats(NamedTuple):
    """`queues` is empty where all are meant."""

    queues: tuple[str, ...]


class Monitor(NamedTuple):
    """`max_items` is None where only the limit on open reads ends it."""

    queue: str
    seconds: int
    max_items: int | None


@dataclass(frozen=True, slots=True)
class Confirm:
    """`count` is never negative; Kestrel answers 0 and less like more than are open."""

    queue: str
    count: int


@dataclass(frozen=True, slots=True)
class Reload:
    pass


@dataclass(frozen=True, slots=True)
class Version:
    pass


class Status(NamedTuple):
    """`level` as the client wrote it, in any case; None asks for the present one."""

    level: str | None


@dataclass(frozen=True, slots=True)
class Quit:
    pass


@dataclass(frozen=True, slots=True)
class Shutdown:
    pass


@dataclass(frozen=True, slots=True)
class ListQueues:
    """Not Kestrel's: the names of all queues."""


class Bad(NamedTuple):
    """What cannot be done. `reason` is for our log alone; `closes` ends the connection after the answer."""

    kind: Refusal
    closes: bool
    reason: str


Request: TypeAlias = (
    Set
    | Get
    | Delete
    | Flush
    | FlushAll
    | FlushExpired
    | FlushAllExpired
    | Stats
    | DumpStats
    | Monitor
    | Confirm
    | Reload
    | Version
    | Status
    | Quit
    | Shutdown
    | ListQueues
    | Bad
)
