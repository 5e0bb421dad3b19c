"""Queues that answer when the test says so, and remember what they were asked.

For what a connection does while its requests are under way; what queues do is tested on the real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from barbicel.config.queue_settings import QueueSettings
from barbicel.gateway.kestrel.session import Session
from barbicel.kestrel_compat.items import Item

__all__ = ["Asked", "HeldQueues"]


class Asked(NamedTuple):
    """`kind` is the name of the method."""

    kind: str
    queue: str
    done: Callable[[Any], None]
    waiting: HeldWaiting | None = None

    def give(self, data: bytes) -> None:
        self.done(Item(0, data, 0, None, 0))


class HeldWaiting:
    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class HeldQueues:
    """`asked` has what is not answered yet, the oldest first."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.ended: list[Session] = []

    def settings_of(self, name: str) -> QueueSettings:
        return QueueSettings()

    @property
    def kinds(self) -> list[str]:
        return [asked.kind for asked in self.asked]

    def put(self, name: str, data: bytes, flags: int, expiry_ms: int | None, done: Any) -> None:
        self.asked.append(Asked("put", name, done))

    def take(self, session: Session, name: str, *, is_open: bool, timeout_ms: int | None, done: Any) -> Any:
        waiting = None if timeout_ms is None else HeldWaiting()
        self.asked.append(Asked("open" if is_open else "take", name, done, waiting))
        return waiting

    def peek(self, name: str, timeout_ms: int | None, done: Any) -> Any:
        self.asked.append(Asked("peek", name, done))

    def flush(self, name: str, done: Any) -> None:
        self.asked.append(Asked("flush", name, done))

    def close_oldest(self, session: Session, name: str, count: int = 1) -> int:
        return count

    def settled(self, done: Any) -> None:
        self.asked.append(Asked("settled", "", done))

    def end(self, session: Session) -> None:
        self.ended.append(session)

    def next(self) -> Asked:
        return self.asked.pop(0)
