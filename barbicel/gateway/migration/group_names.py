"""Which groups each topic of a data directory has.

Looked up once: whoever asks has the directory to himself, and a look at all names for each of a hundred
thousand queues would take longer than everything else.
"""

from __future__ import annotations

from collections.abc import Iterable

from barbicel.disk import Disk
from barbicel.stroma import GroupKey
from barbicel.stroma.directory import list_groups
from barbicel.stroma.layout import StoreLayout

__all__ = ["GroupNames"]


class GroupNames:
    """Whoever makes or deletes a group says so here: what happens behind its back is not seen."""

    def __init__(self, disk: Disk, groups: StoreLayout) -> None:
        self._disk = disk
        self._groups = groups
        self._found: dict[tuple[str, int], set[str]] | None = None

    def of(self, topic: str, partition: int) -> frozenset[str]:
        """Raises DiskError."""
        if self._found is None:
            self._found = _by_partition(list_groups(self._disk, self._groups))
        return frozenset(self._found.get((topic, partition), ()))

    def add(self, made: Iterable[GroupKey]) -> None:
        if self._found is not None:
            for key in made:
                self._found.setdefault((key.topic, key.partition), set()).add(key.group)

    def remove(self, deleted: GroupKey) -> None:
        if self._found is not None:
            self._found.get((deleted.topic, deleted.partition), set()).discard(deleted.group)


def _by_partition(keys: Iterable[GroupKey]) -> dict[tuple[str, int], set[str]]:
    found: dict[tuple[str, int], set[str]] = {}
    for key in keys:
        found.setdefault((key.topic, key.partition), set()).add(key.group)
    return found
