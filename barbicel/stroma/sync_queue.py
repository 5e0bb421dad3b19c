"""The groups that are written and not synced, the longest waiting first."""

from __future__ import annotations

from collections import OrderedDict

from barbicel.stroma.group import Group
from barbicel.stroma.names import GroupKey

__all__ = ["SyncQueue"]


class SyncQueue:
    """A group whose events another sync took along may still be in it, and counts no more."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._waiting: OrderedDict[GroupKey, Group] = OrderedDict()

    def add(self, group: Group) -> None:
        """At the end, unless it waits already."""
        self._waiting.setdefault(group.key, group)

    def discard(self, key: GroupKey) -> None:
        self._waiting.pop(key, None)

    def pop_due(self, now_ms: int) -> Group | None:
        """Take out the one that has been waiting the longest, if it is time."""
        while self._waiting:
            key, group = next(iter(self._waiting.items()))
            since_ms = group.unsynced_since_ms
            # Half, so that the next round is not too late; a clock that was set back says nothing.
            if since_ms is not None and 0 <= now_ms - since_ms < self._interval_ms // 2:
                return None
            del self._waiting[key]
            if since_ms is not None:
                return group
        return None

    def since_ms(self) -> int | None:
        """Since when the longest waiting one has been waiting."""
        waiting = (group.unsynced_since_ms for group in self._waiting.values())
        return next((since_ms for since_ms in waiting if since_ms is not None), None)
