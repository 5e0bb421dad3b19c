"""The earliest deadline of every group that has one, in memory or not: one number a group."""

from __future__ import annotations

from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.stroma.deadlines import Deadlines
from barbicel.stroma.names import GroupKey

__all__ = ["DeadlineHints"]


class DeadlineHints:
    """At most one deadline a group."""

    def __init__(self) -> None:
        self._hints: dict[GroupKey, int] = {}
        self._deadlines: Deadlines[GroupKey] = Deadlines(self._hints.get)

    def set(self, key: GroupKey, deadline_ms: int) -> None:
        """NO_DEADLINE_MS means that the group has none."""
        if deadline_ms == NO_DEADLINE_MS:
            self._hints.pop(key, None)
        elif self._hints.get(key) != deadline_ms:
            self._hints[key] = deadline_ms
            self._deadlines.add(deadline_ms, key, len(self._hints))

    def next_ms(self) -> int | None:
        """The earliest of all."""
        return self._deadlines.next_ms()

    def pop(self, now_ms: int) -> GroupKey | None:
        """Take out the group with the earliest deadline, if that has come."""
        key = self._deadlines.pop(now_ms)
        if key is not None:
            del self._hints[key]
        return key
