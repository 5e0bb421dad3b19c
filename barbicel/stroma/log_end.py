"""Setting back the groups of a partition whose log is shorter than what they say. `clamp` has the reason."""

from __future__ import annotations

from collections.abc import Iterable

from barbicel.clock import Clock
from barbicel.disk import Disk
from barbicel.stroma.directory import list_groups_of
from barbicel.stroma.failures import errors_of
from barbicel.stroma.layout import StoreLayout
from barbicel.stroma.names import GroupKey
from barbicel.stroma.open_groups import OpenGroups
from barbicel.stroma.recovery import plan_group

__all__ = ["LogEnd"]


class LogEnd:
    """Called with the store's mutex."""

    def __init__(self, disk: Disk, layout: StoreLayout, groups: OpenGroups, clock: Clock) -> None:
        self._disk = disk
        self._layout = layout
        self._groups = groups
        self._clock = clock
        self._is_settled = False

    def clamp(
        self, topic: str, partition: int, end_offset: int, groups: Iterable[str] | None
    ) -> list[GroupKey]:
        """See `GroupStore.clamp`."""
        clamped: list[GroupKey] = []

        def clamp(key: GroupKey) -> None:
            if self._clamp(key, end_offset):
                clamped.append(key)

        if not self._is_settled:
            # A clamp of another process may have renamed a snapshot and gone no further.
            self._disk.sync_directory(self._layout.root)
            self._is_settled = True
        if groups is None:
            keys = self._keys_of(topic, partition)
        else:
            keys = [GroupKey(topic, partition, group) for group in sorted(groups)]
        errors = errors_of(clamp, keys)
        if errors:
            raise errors[0]
        return clamped

    def _keys_of(self, topic: str, partition: int) -> list[GroupKey]:
        in_memory = (key for key in self._groups if key[:2] == (topic, partition))
        return sorted({*in_memory, *list_groups_of(self._disk, self._layout, topic, partition)})

    def _clamp(self, key: GroupKey, end_offset: int) -> bool:
        """Forget what the group says about offsets from there on, durably; whether there was any of it.

        A damaged group is refused only if a repair could bring such offsets back.
        """
        group = self._groups.settled(key)
        plan = plan_group(self._disk, self._layout.files(key), key)
        # What is recorded and not written could still be torn, and leave what it takes back.
        in_memory = group is not None and (group.has_pending or group.state.reaches(end_offset))
        if not in_memory and not plan.reaches(end_offset):
            return False
        found = group or self._groups.get(key)
        self._groups.replace_files(found, lambda: found.clamp(end_offset, self._clock()))
        return True
