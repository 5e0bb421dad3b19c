"""Every timer of every group, in one heap: starting, stopping and finding the next looks at no other."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from barbicel.stroma.deadlines import Deadlines

__all__ = ["TimerKey", "TimerKind", "Timers"]


class TimerKind(Enum):
    SESSION = "session"  # a member that is silent for too long is gone; also one that was only given an id
    JOIN = "join"  # the end of PreparingRebalance
    SYNC = "sync"  # who joined has to ask for its assignment until then


class TimerKey(NamedTuple):
    kind: TimerKind
    group_id: str
    member_id: str = ""


class Timers:
    """At most one a key."""

    __slots__ = ("_order", "_running")

    def __init__(self) -> None:
        self._running: dict[TimerKey, int] = {}
        self._order = Deadlines(self._running.get)

    def __len__(self) -> int:
        return len(self._running)

    def start(self, key: TimerKey, deadline_ms: int) -> None:
        """Start it, or start it anew."""
        self._running[key] = deadline_ms
        self._order.add(deadline_ms, key, len(self._running))

    def stop(self, key: TimerKey) -> None:
        self._running.pop(key, None)

    def next_ms(self) -> int | None:
        return self._order.next_ms()

    def pop(self, now_ms: int) -> TimerKey | None:
        """Take out the earliest one that has run down."""
        key = self._order.pop(now_ms)
        if key is not None:
            del self._running[key]
        return key
