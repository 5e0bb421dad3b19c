"""Collecting doubts: all of them as long as they are few, then their number. A bad file makes millions."""

from __future__ import annotations

from barbicel.kestrel_compat.journals.queue import Doubt, DoubtKind

__all__ = ["Doubts"]

_LISTED = 100
# Once there is one of these in a file there are many, and the first tells all that the others do.
_LISTED_OF = {DoubtKind.SURPLUS: 1, DoubtKind.DUPLICATES: 1}


class Doubts:
    """Those of each kind and file up to a number, and one more that counts the rest."""

    def __init__(self) -> None:
        self._listed: list[Doubt] = []
        # How many there are, listed or not.
        self._counts: dict[tuple[str, DoubtKind], int] = {}

    def is_listed(self, file: str, kind: DoubtKind) -> bool:
        """Whether one more would be listed, so that its text is worth making."""
        return self._counts.get((file, kind), 0) < _LISTED_OF.get(kind, _LISTED)

    def add(self, doubt: Doubt, count: int = 1) -> None:
        """A doubt, which may stand for so many of its kind."""
        if self.is_listed(doubt.file, doubt.kind):
            self._listed.append(doubt)
        key = doubt.file, doubt.kind
        self._counts[key] = self._counts.get(key, 0) + count

    def all(self) -> tuple[Doubt, ...]:
        left = dict(self._counts)
        last = {}
        for doubt in self._listed:
            key = doubt.file, doubt.kind
            left[key] -= 1
            last[key] = doubt.position
        more = (
            Doubt(
                file, last[file, kind], DoubtKind.MORE, f"{count:,} more of the kind '{kind}' behind this one"
            )
            for (file, kind), count in left.items()
            if count
        )
        return (*self._listed, *more)
