"""The groups in memory: who is open, who waits for a write or a sync, and who has failed.

A group is in its files, or open; what it recorded is unwritten, then unsynced, then durable. One whose
write or sync failed is dropped: its state is what its files say, once that was written to fresh ones, because
the page cache may show events that never reached the disk. It counts as failed until then.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from barbicel.clock import Clock
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.disk import Disk
from barbicel.errors import BarbicelError, DiskError
from barbicel.stroma.failures import RETRY_MS, FailedGroups
from barbicel.stroma.group import Group
from barbicel.stroma.hints import DeadlineHints
from barbicel.stroma.layout import StoreLayout
from barbicel.stroma.names import GroupKey
from barbicel.stroma.recovery import plan_group
from barbicel.stroma.settings import StoreSettings, SyncPolicy

__all__ = ["OpenGroups"]


class OpenGroups:
    """Not thread-safe: the store that owns it holds its mutex, that of `unpinned`, in every call."""

    def __init__(
        self,
        disk: Disk,
        layout: StoreLayout,
        settings: StoreSettings,
        clock: Clock,
        unpinned: threading.Condition,
    ) -> None:
        self._disk = disk
        self._layout = layout
        self._settings = settings
        self._clock = clock
        # A sync that ran without the mutex has ended.
        self._unpinned = unpinned
        # The least recently used first.
        self._open: OrderedDict[GroupKey, Group] = OrderedDict()
        self._unwritten: dict[GroupKey, Group] = {}
        # Written and not synced, the longest waiting first.
        self._unsynced: OrderedDict[GroupKey, Group] = OrderedDict()
        self.failed = FailedGroups()
        # Failures that took recorded events with them, to be told by the next commit.
        self.untold: dict[GroupKey, BarbicelError] = {}
        self.hints = DeadlineHints()

    # --- one group ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: GroupKey) -> bool:
        return key in self._open

    def __iter__(self) -> Iterator[GroupKey]:
        return iter(list(self._open))

    def is_unwritten(self, key: GroupKey) -> bool:
        return key in self._unwritten

    def get(self, key: GroupKey) -> Group:
        """The group, read from its files if need be. Raises CorruptGroup, DiskError."""
        group = self._open.get(key)
        if group is None:
            group = self._load(key)
        self._open.move_to_end(key)
        group.last_used_ms = self._clock()
        return group

    def settled(self, key: GroupKey) -> Group | None:
        """The group if it is open, once no sync of it is under way any more."""
        while (group := self._open.get(key)) is not None and group.pins:
            self._unpinned.wait()
        return group

    def _load(self, key: GroupKey) -> Group:
        plan = plan_group(self._disk, self._layout.files(key), key)
        try:
            group = self._open[key] = Group(self._disk, plan, self._clock())
        except DiskError as error:
            # A cut of a torn delta that was not synced looks clean to the next reader.
            self.failed.note(key, error, None, self._clock())
            raise
        if key in self.failed and plan.exists:
            self.compact(group)
        self.failed.discard(key)
        if group.unsynced_since_ms is not None:
            self._unsynced[key] = group
        self.hints.set(key, group.state.next_expiry_ms())
        self.evict_surplus(keep=group)
        return group

    def read_hint(self, key: GroupKey) -> None:
        """Note the deadline that the group's files tell of. Raises BarbicelError if they do not."""
        plan = plan_group(self._disk, self._layout.files(key), key)
        if plan.damage is None:
            self.hints.set(key, plan.state().next_expiry_ms())

    # --- writing and syncing ------------------------------------------------------------------------

    def note_recorded(self, group: Group) -> None:
        if group.has_pending:
            self._unwritten[group.key] = group

    def write_all(self) -> None:
        for group in list(self._unwritten.values()):
            self.write(group)

    def write(self, group: Group) -> None:
        """What fails is told by the next commit."""
        key = group.key
        self._unwritten.pop(key, None)
        try:
            group.write(self._clock())
            self.hints.set(key, group.state.next_expiry_ms())
            self._unsynced.setdefault(key, group)
            if self._settings.sync_policy is SyncPolicy.ALWAYS:
                self._unsynced.pop(key)
                group.sync()
        except DiskError as error:
            self.untold[key] = error
            self._fail(group, error)

    def sync(self, group: Group) -> None:
        self._unsynced.pop(group.key, None)
        with self._failing(group):
            group.sync()

    def sync_settled(self, key: GroupKey) -> None:
        """Sync the group if it is open, and wait for a sync of it that is under way."""
        group = self.settled(key)
        if group is not None:
            self.sync(group)

    def pin_next_due(self) -> Group | None:
        """The group that has been waiting for its sync the longest, if it is time: sync it, then `unpin`."""
        while self._unsynced:
            key, group = next(iter(self._unsynced.items()))
            if group.unsynced_since_ms is None:  # another sync took it along
                del self._unsynced[key]
                continue
            waited_ms = self._clock() - group.unsynced_since_ms
            # Half, so that the next round is not too late; a clock that was set back says nothing.
            if 0 <= waited_ms < self._settings.sync_interval_ms // 2:
                return None
            del self._unsynced[key]
            group.pins += 1
            return group
        return None

    def unpin(self, group: Group, error: DiskError | None) -> None:
        if error is not None:
            self._fail(group, error)
        group.pins -= 1
        if not group.pins and self._open.get(group.key) is not group:
            group.close()  # it was dropped meanwhile
        self._unpinned.notify_all()

    def unsynced_since_ms(self) -> int | None:
        """When the oldest event that may not be durable was written."""
        waiting = (group.unsynced_since_ms for group in self._unsynced.values())
        oldest = next((since for since in waiting if since is not None), None)
        return min((since for since in (oldest, self.failed.since_ms) if since is not None), default=None)

    # --- files --------------------------------------------------------------------------------------

    def compact(self, group: Group) -> None:
        self._replace_files(group, lambda: group.compact(self._clock()))

    def compact_long(self) -> None:
        for group in [group for group in self._open.values() if self._is_long(group)]:
            if not group.pins and self._open.get(group.key) is group:
                self.compact(group)

    def clamp(self, key: GroupKey, end_offset: int) -> bool:
        """Forget what the group says about offsets from there on, durably; whether there was any of it.

        A damaged group is refused only if a repair could bring such offsets back.
        """
        group = self.settled(key)
        plan = plan_group(self._disk, self._layout.files(key), key)
        # What is recorded and not written could still be torn, and leave what it takes back.
        in_memory = group is not None and (group.has_pending or group.state.reaches(end_offset))
        if not in_memory and not plan.reaches(end_offset):
            return False
        found = group or self.get(key)
        self._replace_files(found, lambda: found.clamp(end_offset, self._clock()))
        return True

    def _replace_files(self, group: Group, replace: Callable[[], None]) -> None:
        with self._failing(group):
            replace()
        self._unwritten.pop(group.key, None)
        self._unsynced.pop(group.key, None)
        self.hints.set(group.key, group.state.next_expiry_ms())

    def _is_long(self, group: Group) -> bool:
        settings = self._settings
        return group.delta_bytes > settings.compact_bytes or (
            group.delta_bytes > settings.compact_min_bytes
            and group.delta_bytes > settings.compact_ratio * group.snapshot_bytes
        )

    # --- letting go ---------------------------------------------------------------------------------

    def evict_idle(self) -> None:
        idle_since_ms = self._clock() - self._settings.idle_ms
        for group in list(self._open.values()):
            if group.last_used_ms > idle_since_ms:
                return
            self._evict(group)

    def evict_surplus(self, *, keep: Group | None = None) -> None:
        surplus = len(self._open) - self._settings.max_open_groups
        if surplus > 0:
            free = (group for group in self._open.values() if group is not keep and not group.pins)
            for group in list(islice(free, surplus)):
                if group.has_pending:
                    self.write(group)  # before its turn has ended, which does no harm
                self._evict(group)

    def _evict(self, group: Group) -> None:
        """Back to its files, durably; one that is in use, or whose events are not written, stays."""
        if group.is_idle:
            with suppress(DiskError):  # then it has failed, and is gone all the same
                self.sync(group)
                self.drop(group)

    def drop_all(self) -> None:
        for group in list(self._open.values()):
            self.drop(group)

    def drop(self, group: Group) -> None:
        for table in (self._open, self._unwritten, self._unsynced):
            table.pop(group.key, None)
        if not group.pins:
            group.close()

    # --- failing ------------------------------------------------------------------------------------

    @contextmanager
    def _failing(self, group: Group) -> Iterator[None]:
        try:
            yield
        except DiskError as error:
            self._fail(group, error)
            raise

    def _fail(self, group: Group, error: DiskError) -> None:
        """The group's state is what its files say, from its next use on."""
        key = group.key
        if self._open.get(key) is not group:
            return  # another one has taken its place
        if group.has_pending and key not in self.untold and key in self._unwritten:
            self.untold[key] = error
        self.failed.note(key, error, group.unsynced_since_ms, self._clock())
        self.drop(group)
        self.hints.set(key, NO_DEADLINE_MS)
        try:
            self.read_hint(key)
        except BarbicelError:
            self.hints.set(key, self._clock() + RETRY_MS)

    def heal(self, key: GroupKey) -> None:
        """Read a failed group and put its state into fresh files, durably. Raises BarbicelError."""
        try:
            self.get(key)
        except BarbicelError as error:
            self.failed.note(key, error, None, self._clock())
            raise
