"""The groups in memory: who is open, who waits for a write or a sync, and who has failed.

A group is in its files, or open; what it recorded is unwritten, then unsynced, then durable. One whose
write or sync failed is dropped: its state is what its files say, once that was written to fresh ones, because
the page cache may show events that never reached the disk. It counts as failed until then. One that is
pinned is being synced or compacted without the mutex: nobody closes it, loads it anew or replaces its files.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from barbicel.clock import Clock
from barbicel.codecs.stroma_events import Event
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.disk import Disk
from barbicel.errors import BarbicelError, DiskError
from barbicel.stroma.failures import RETRY_MS, FailedGroups
from barbicel.stroma.group import Group
from barbicel.stroma.hints import DeadlineHints
from barbicel.stroma.layout import StoreLayout
from barbicel.stroma.names import GroupKey
from barbicel.stroma.pins import Pins
from barbicel.stroma.recovery import plan_group
from barbicel.stroma.settings import StoreSettings, SyncPolicy
from barbicel.stroma.state import GroupState
from barbicel.stroma.sync_queue import SyncQueue
from barbicel.stroma.turn import Turn

__all__ = ["OpenGroups"]

EVICTED_SHARE = 16  # a store that is full lets go of this part of its groups at once


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
        self.pins = Pins(unpinned)
        # The least recently used first.
        self._open: OrderedDict[GroupKey, Group] = OrderedDict()
        self.turn = Turn()
        self._unsynced = SyncQueue(settings.sync_interval_ms)
        self.failed = FailedGroups()
        self.hints = DeadlineHints()

    # --- one group ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: GroupKey) -> bool:
        return key in self._open

    def __iter__(self) -> Iterator[GroupKey]:
        return iter(list(self._open))

    def values(self) -> list[Group]:
        return list(self._open.values())

    def is_open(self, group: Group) -> bool:
        """Whether it is still the one that counts."""
        return self._open.get(group.key) is group

    def get(self, key: GroupKey) -> Group:
        """The group, read from its files if need be. Raises CorruptGroup, DiskError."""
        group = self._open.get(key)
        if group is None:
            group = self._load(key)
        self._open.move_to_end(key)
        group.last_used_ms = self._clock()
        return group

    def settled(self, key: GroupKey) -> Group | None:
        """The group if it is open, once nothing that is done to its files is under way any more."""
        self.pins.wait_for_none(key)
        return self._open.get(key)

    def look(self, key: GroupKey) -> GroupState:
        """The group's state, to look at. One that failed and cannot be opened yet is read from its files."""
        if key in self.failed and key not in self._open and not self.failed.is_due(key, self._clock()):
            return self._read_state(key)
        try:
            return self.get(key).state
        except DiskError:
            if key not in self.failed:
                raise
            return self._read_state(key)

    def _read_state(self, key: GroupKey) -> GroupState:
        return plan_group(self._disk, self._layout.files(key), key).usable_state()

    def _load(self, key: GroupKey) -> Group:
        self.settled(key)  # an earlier one of this name may be just leaving
        if key in self._open:
            return self._open[key]  # another thread was faster meanwhile
        plan = plan_group(self._disk, self._layout.files(key), key)
        try:
            group = self._open[key] = Group(self._disk, plan, self._clock())
        except DiskError as error:
            # A cut of a torn delta that was not synced looks clean to the next reader.
            self.failed.note(key, error, None, self._clock())
            raise
        if key in self.failed and plan.exists:
            self.replace_files(group, lambda: group.compact(self._clock()))
        self.failed.discard(key)
        if group.unsynced_since_ms is not None:
            self._unsynced.add(group)
        self.hints.set(key, group.state.next_expiry_ms())
        self.evict_surplus(keep=group)
        return group

    def read_hint(self, key: GroupKey) -> None:
        """Note the deadline that the group's files tell of. Raises BarbicelError if they do not."""
        plan = plan_group(self._disk, self._layout.files(key), key)
        if plan.damage is None:
            self.hints.set(key, plan.state().next_expiry_ms())

    # --- writing and syncing ------------------------------------------------------------------------

    def record(self, group: Group, events: Sequence[Event]) -> None:
        group.record(events)
        if group.has_pending:
            self.turn.add(group, threading.get_ident())

    def write_all(self) -> None:
        for group in self.turn.groups():
            self.write(group)

    def write(self, group: Group) -> None:
        """What fails is told by the next commit. One that was dropped meanwhile has told already."""
        key = group.key
        if not self.is_open(group):
            return
        try:
            if group.bytes_after_write > self._settings.max_delta_bytes:
                self._replace_too_long(group)
                return
            group.write(self._clock())
            self._unsynced.add(group)
            self.hints.set(key, group.state.next_expiry_ms())
            if self._settings.sync_policy is SyncPolicy.ALWAYS:
                self._unsynced.discard(key)
                group.sync()
            self.turn.discard(key)
        except DiskError as error:
            self.turn.lose(key, error)
            self.fail(group, error)

    def write_now(self, group: Group) -> None:
        """Write the group before its turn has ended, which does no harm. Raises DiskError."""
        if group.has_pending:
            self.write(group)
            if not self.is_open(group):
                raise self.failed.errors[group.key]

    def _replace_too_long(self, group: Group) -> None:
        self.settled(group.key)
        if self.is_open(group) and group.has_pending:
            self.replace_files(group, lambda: group.compact(self._clock()))

    def sync(self, key: GroupKey) -> None:
        """Open or not: a process that was killed may have written events and not synced. Raises DiskError."""
        group = self.settled(key) or self.get(key)
        self._unsynced.discard(key)
        with self.failing(group):
            group.sync()

    def pin_next_due(self) -> Group | None:
        """The group that has been waiting for its sync the longest, if it is time: sync it, then `unpin`."""
        group = self._unsynced.pop_due(self._clock())
        if group is not None:
            self.pins.add(group.key)
        return group

    def settle_name(self, group: Group) -> None:
        """Give a new group's delta the name that says that it is durable, unless it was dropped meanwhile."""
        if self.is_open(group):
            group.settle_name()

    def unpin(self, group: Group, error: DiskError | None = None) -> None:
        if error is not None:
            self.fail(group, error)
        self.pins.remove(group.key)
        if group.key not in self.pins and not self.is_open(group):
            group.close()  # it was dropped meanwhile

    def unsynced_since_ms(self) -> int | None:
        """When the oldest event that may not be durable was written."""
        found = (self._unsynced.since_ms(), self.failed.since_ms)
        return min((since_ms for since_ms in found if since_ms is not None), default=None)

    # --- files --------------------------------------------------------------------------------------

    def replace_files(self, group: Group, replace: Callable[[], None]) -> None:
        """A snapshot of everything takes the place of all that was written and recorded. Raises DiskError."""
        with self.failing(group):
            replace()
        self.turn.discard(group.key)
        self._unsynced.discard(group.key)
        self.hints.set(group.key, group.state.next_expiry_ms())

    # --- letting go ---------------------------------------------------------------------------------

    def evict_surplus(self, *, keep: Group | None = None) -> None:
        """The least recently used go, and sooner those that cost no sync.

        If all cost one, some more go with them: new groups share the sync of their directory.
        """
        surplus = len(self._open) - self._settings.max_open_groups
        if surplus <= 0:
            return
        at_once = max(surplus, self._settings.max_open_groups // EVICTED_SHARE)
        free = (group for group in self._open.values() if group is not keep and group.key not in self.pins)
        oldest = list(islice(free, at_once))
        durable = [group for group in oldest if group.is_durable]
        leaving = durable[:surplus] if len(durable) >= surplus else oldest
        for group in leaving:
            self.write(group)  # before its turn has ended, which does no harm
        self.evict(leaving)

    def evict(self, groups: Iterable[Group]) -> None:
        """Back to their files, durably; those in use, or whose events are not written, stay.

        One whose sync fails is gone all the same, and has failed.
        """
        leaving = [group for group in groups if self._may_leave(group)]
        since_ms: dict[GroupKey, int | None] = {}
        for group in leaving:
            self._unsynced.discard(group.key)
            with suppress(DiskError), self.failing(group):
                since_ms[group.key] = group.sync_but_name()
        unnamed = [group for group in leaving if self.is_open(group) and not group.is_name_synced]
        try:
            if unnamed:
                self._disk.sync_directory(self._layout.root)
        except DiskError as error:
            for group in unnamed:
                group.note_unsynced(since_ms[group.key], error)
                self.fail(group, error)
        for group in filter(self.is_open, leaving):
            self.drop(group)

    def _may_leave(self, group: Group) -> bool:
        return self.is_open(group) and not group.has_pending and group.key not in self.pins

    def drop(self, group: Group) -> None:
        self._open.pop(group.key, None)
        self.turn.discard(group.key)
        self._unsynced.discard(group.key)
        if group.key not in self.pins:
            group.close()

    # --- failing ------------------------------------------------------------------------------------

    @contextmanager
    def failing(self, group: Group) -> Iterator[None]:
        try:
            yield
        except DiskError as error:
            self.fail(group, error)
            raise

    def fail(self, group: Group, error: DiskError) -> None:
        """The group's state is what its files say, from its next use on."""
        key = group.key
        if not self.is_open(group):
            return  # another one has taken its place
        if key in self.turn:
            self.turn.lose(key, error)
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
