"""Kestrel's two protocols, as far as a connection has to tell them apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from barbicel.gateway.kestrel import commands, text_commands
from barbicel.gateway.kestrel.serving import Plan
from barbicel.gateway.kestrel.shared import Shared
from barbicel.kestrel_compat.memcache import reader as memcache_reader
from barbicel.kestrel_compat.memcache.replies import REFUSALS
from barbicel.kestrel_compat.memcache.requests import Refusal
from barbicel.kestrel_compat.text import reader as text_reader
from barbicel.kestrel_compat.text.replies import unavailable

__all__ = ["MEMCACHE", "TEXT", "Address", "Dialect", "Reader"]


class Address(NamedTuple):
    host: str
    port: int


class Reader(Protocol):
    """Bytes in, requests out."""

    @property
    def held_bytes(self) -> int: ...

    @property
    def is_within_a_request(self) -> bool: ...

    def feed(self, data: bytes) -> None: ...

    def next_request(self) -> Any: ...


class NewReader(Protocol):
    def __call__(self, shared: Shared, narrowed: Callable[[int], int] | None = None) -> Reader:
        """`narrowed` makes the limit of an item smaller, for as long as it likes."""


class Dialect(NamedTuple):
    name: str
    new_reader: NewReader
    plan_of: Callable[[Any], Plan]
    # What a client is told for which there is no room.
    too_many: bytes


def _max_item_bytes(shared: Shared, queue: str) -> int:
    """The server's limit, or the queue's where that is smaller."""
    limit = shared.config.kestrel_max_item_bytes
    of_queue = shared.queues.settings_of(queue).max_item_size_bytes
    return limit if of_queue is None else min(limit, of_queue)


def _limit_of(shared: Shared, narrowed: Callable[[int], int] | None) -> Callable[[str], int]:
    if narrowed is None:
        return partial(_max_item_bytes, shared)
    return lambda queue: narrowed(_max_item_bytes(shared, queue))


def _new_memcache_reader(shared: Shared, narrowed: Callable[[int], int] | None = None) -> Reader:
    limit_of = _limit_of(shared, narrowed)
    return memcache_reader.RequestReader(shared.config.kestrel_max_line_bytes, limit_of)


def _new_text_reader(shared: Shared, narrowed: Callable[[int], int] | None = None) -> Reader:
    limit_of = _limit_of(shared, narrowed)
    return text_reader.RequestReader(shared.config.kestrel_max_line_bytes, limit_of)


MEMCACHE = Dialect("memcache", _new_memcache_reader, commands.plan_of, REFUSALS[Refusal.SERVER_ERROR])
TEXT = Dialect("text", _new_text_reader, text_commands.plan_of, unavailable("connect"))
