"""What was recorded and not written yet, by whom, and who has to be told that it was lost.

Whoever ends the next turn is told of a failure, because that one answers. Whoever recorded the events is
told, too, when it ends a turn itself: another thread may have ended this one.
"""

from __future__ import annotations

from barbicel.errors import BarbicelError
from barbicel.stroma.group import Group
from barbicel.stroma.names import GroupKey

__all__ = ["Turn"]


class Turn:
    """Threads are known by a number each."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Group] = {}
        self._recorders: dict[GroupKey, set[int]] = {}
        self._untold: dict[GroupKey, BarbicelError] = {}
        self._untold_recorders: dict[int, dict[GroupKey, BarbicelError]] = {}

    def __contains__(self, key: GroupKey) -> bool:
        return key in self._groups

    def groups(self) -> list[Group]:
        return list(self._groups.values())

    def add(self, group: Group, thread: int) -> None:
        self._groups[group.key] = group
        self._recorders.setdefault(group.key, set()).add(thread)

    def discard(self, key: GroupKey) -> None:
        """What was recorded is safe, or nobody wants it any more."""
        self._groups.pop(key, None)
        self._recorders.pop(key, None)

    def lose(self, key: GroupKey, error: BarbicelError) -> None:
        """What was recorded could not be written, or not be synced before the answer."""
        self._untold[key] = error
        for thread in self._recorders.get(key, ()):
            self._untold_recorders.setdefault(thread, {})[key] = error
        self.discard(key)

    def tell(self, thread: int) -> dict[GroupKey, BarbicelError]:
        """The losses that nobody was told of, and those of this thread that it was not."""
        told, self._untold = self._untold, {}
        return {**self._untold_recorders.pop(thread, {}), **told}

    def tell_of(self, key: GroupKey, thread: int) -> BarbicelError | None:
        """The same about one group."""
        own = self._untold_recorders.get(thread, {})
        error = own.pop(key, None)
        if not own:
            self._untold_recorders.pop(thread, None)
        return self._untold.pop(key, error)
