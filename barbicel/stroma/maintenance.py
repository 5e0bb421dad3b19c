"""What keeps a store's promises in time: syncs that are due, recoveries, compactions, evictions.

Each part is done whatever became of the others. A sync runs without the mutex. New groups share one sync of
the directory, which makes their names durable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from barbicel.clock import Clock
from barbicel.disk import Disk
from barbicel.errors import BarbicelError, DiskError
from barbicel.stroma.compaction import Compactions
from barbicel.stroma.group import Group
from barbicel.stroma.layout import StoreLayout
from barbicel.stroma.open_groups import OpenGroups
from barbicel.stroma.ownership import Ownership
from barbicel.stroma.settings import StoreSettings, SyncPolicy

__all__ = ["Maintenance"]

# New groups whose names are synced together; so many stay pinned until then.
NAMES_AT_ONCE = 64


class Unnamed(NamedTuple):
    """A group whose events are durable once its name is."""

    group: Group
    since_ms: int | None


class Maintenance:
    """May run in several threads at once; must be called without the mutex."""

    def __init__(
        self,
        disk: Disk,
        owner: Ownership,
        layout: StoreLayout,
        groups: OpenGroups,
        compactions: Compactions,
        mutex: threading.RLock,
        settings: StoreSettings,
        clock: Clock,
    ) -> None:
        self._disk = disk
        self._owner = owner
        self._layout = layout
        self._groups = groups
        self._compactions = compactions
        self._settings = settings
        self._mutex = mutex
        self._clock = clock

    def run(self) -> None:
        """Raises the first error, after the rest; LogClosed if the store is closed."""
        with self._mutex:
            self._owner.check()
        errors: list[Exception] = []
        steps = [self._heal_due, self._compactions.run_long, self._evict]
        if self._settings.sync_policy is SyncPolicy.INTERVAL:
            steps.insert(0, self._sync_due)
        for step in steps:
            _collect(errors, step)
        if errors:
            raise errors[0]

    def _evict(self) -> None:
        with self._mutex:
            if not self._owner.is_closed:
                self._evict_idle()
                self._groups.evict_surplus()

    def _evict_idle(self) -> None:
        now_ms = self._clock()
        idle: list[Group] = []
        for group in self._groups.values():
            unused_ms = now_ms - group.last_used_ms
            if unused_ms < 0:
                group.last_used_ms = now_ms  # the clock was set back: it says nothing about the others
            elif unused_ms < self._settings.idle_ms:
                break
            else:
                idle.append(group)
        self._groups.evict(idle)

    def _heal_due(self) -> None:
        with self._mutex:
            due = self._groups.failed.due(self._clock())
        for key in due:
            # One at a time, so that others get their turn in between. What fails again stays failed.
            with self._mutex:
                try:
                    if key in self._groups.failed and not self._owner.is_closed:
                        self._groups.heal(key)
                except BarbicelError:
                    continue

    # --- syncing ------------------------------------------------------------------------------------

    def _sync_due(self) -> None:
        unnamed: list[Unnamed] = []
        try:
            while (group := self._pin_next_due()) is not None:
                self._sync_data(group, unnamed)
                if len(unnamed) >= NAMES_AT_ONCE:
                    self._sync_names(unnamed)
        finally:
            self._sync_names(unnamed)

    def _pin_next_due(self) -> Group | None:
        with self._mutex:
            return None if self._owner.is_closed else self._groups.pin_next_due()

    def _sync_data(self, group: Group, unnamed: list[Unnamed]) -> None:
        """On return the group is unpinned, or among the unnamed."""
        failure: DiskError | None = None
        since_ms = None
        try:
            since_ms = group.sync_data()  # without the mutex: others go on writing meanwhile
            with self._mutex:
                self._groups.settle_name(group)
        except DiskError as error:
            group.note_unsynced(since_ms, error)
            failure = error
        finally:
            if failure is None and not group.is_name_synced:
                unnamed.append(Unnamed(group, since_ms))
            else:
                with self._mutex:
                    self._groups.unpin(group, failure)

    def _sync_names(self, unnamed: list[Unnamed]) -> None:
        if not unnamed:
            return
        failure: DiskError | None = None
        try:
            self._disk.sync_directory(self._layout.root)
        except DiskError as error:
            failure = error
        finally:
            with self._mutex:
                for group, since_ms in unnamed:
                    if failure is None:
                        group.is_name_synced = True
                    else:
                        group.note_unsynced(since_ms, failure)
                    self._groups.unpin(group, failure)
            unnamed.clear()


def _collect(errors: list[Exception], step: Callable[[], None]) -> None:
    try:
        step()
    except Exception as error:  # one that nobody thought of must not keep the others from being synced
        errors.append(error)
