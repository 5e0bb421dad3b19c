"""Collecting doubts: all of them as long as they are few, then their number. A bad file makes millions."""

from __future__ import annotations

from barbicel.kestrel_compat.journals.queue import Doubt, DoubtKind

__all__ = ["Doubts"]

_LISTED = 100
# Once there is one of these in a file there are many, and the first tells all that the others do.
_LISTED_ONCE = frozenset({DoubtKind.SURPLUS, DoubtKind.DUPLICATES})


class Doubts:
    """Those of each kind and file up to a number, and one more that counts the rest."""

    def __init__(self) -> None:
        self._listed: list[Doubt] = []
        self._counts: dict[tuple[str, DoubtKind], int] = {}
        self._last: dict[tuple[str, DoubtKind], int] = {}

    def add(self, doubt: Doubt, count: int = 1) -> None:
        """The doubt, and as many more of its kind behind it as `count` says."""
        key = (doubt.file, doubt.kind)
        known = self._counts.get(key, 0)
        if known < (1 if doubt.kind in _LISTED_ONCE else _LISTED):
            self._listed.append(doubt)
        self._counts[key] = known + count
        self._last[key] = doubt.position

    def is_listed(self, file: str, kind: DoubtKind) -> bool:
        """Whether another one would be listed, so that its text is worth making."""
        return self._counts.get((file, kind), 0) < (1 if kind in _LISTED_ONCE else _LISTED)

    def all(self) -> tuple[Doubt, ...]:
        shown: dict[tuple[str, DoubtKind], int] = {}
        for doubt in self._listed:
            key = (doubt.file, doubt.kind)
            shown[key] = shown.get(key, 0) + 1
        more = (
            Doubt(file, self._last[file, kind], DoubtKind.MORE, f"{left:,} more of the kind '{kind}'")
            for (file, kind), count in self._counts.items()
            if (left := count - shown[file, kind])
        )
        return (*self._listed, *more)
