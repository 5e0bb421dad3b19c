"""Snapshots in the place of deltas that have grown too long, while others go on writing.

The state is copied and the position noted under the mutex; the snapshot is encoded, written and synced
without it. Events that are written meanwhile lie behind that position, and move to the new delta. A failure
leaves the old delta in use, and the next try comes later.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from barbicel.clock import Clock
from barbicel.codecs.stroma_events import DELTA_HEADER_BYTES
from barbicel.errors import DiskError
from barbicel.stroma.failures import RETRY_MS
from barbicel.stroma.group import Group, Moment
from barbicel.stroma.names import GroupKey
from barbicel.stroma.open_groups import OpenGroups
from barbicel.stroma.ownership import Ownership
from barbicel.stroma.settings import StoreSettings

__all__ = ["Compactions"]


class Compactions:
    """Every method takes the mutex when it needs it, and must be called without."""

    def __init__(
        self,
        owner: Ownership,
        groups: OpenGroups,
        mutex: threading.RLock,
        settings: StoreSettings,
        clock: Clock,
    ) -> None:
        self._owner = owner
        self._groups = groups
        self._mutex = mutex
        self._settings = settings
        self._clock = clock

    def run_long(self) -> None:
        """Compact every group that needs it. Raises the first DiskError, after the rest."""
        with self._mutex:
            long_groups = [group for group in self._groups.values() if self._is_long(group)]
        failure: DiskError | None = None
        for group in long_groups:
            try:
                self._run_if_long(group)
            except DiskError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _run_if_long(self, group: Group) -> None:
        with self._mutex:
            if self._owner.is_closed or not self._groups.is_open(group) or not self._is_long(group):
                return  # meanwhile
            moment = self._begin(group)
        self._complete(group, moment)

    def run(self, key: GroupKey) -> None:
        """On return all that was recorded for the group survives a power cut. Raises BarbicelError."""
        with self._mutex:
            self._groups.settled(key)
            self._owner.check()
            group = self._groups.get(key)
            moment = self._begin(group)
        self._complete(group, moment)

    def _is_long(self, group: Group) -> bool:
        """A large snapshot is written anew only for as much again, so that it costs little an event."""
        settings, snapshot_bytes = self._settings, group.snapshot_bytes
        is_long = group.delta_bytes > DELTA_HEADER_BYTES and group.delta_bytes > min(
            max(settings.compact_bytes, snapshot_bytes),
            max(settings.compact_min_bytes, settings.compact_ratio * snapshot_bytes),
        )
        # A clock that was set back holds nothing up.
        is_waiting = 0 < group.compact_after_ms - self._clock() <= RETRY_MS
        return is_long and not group.is_compacting and not is_waiting

    def _begin(self, group: Group) -> Moment:
        self._groups.write_now(group)
        with self._groups.failing(group):
            moment = group.begin_compaction(self._clock())
        self._groups.pins.add(group.key)
        return moment

    def _complete(self, group: Group, moment: Moment) -> None:
        try:
            snapshot_bytes = group.write_snapshot(moment)
            self._move_tail(group, moment, snapshot_bytes)
        except DiskError:
            group.compact_after_ms = self._clock() + RETRY_MS
            raise
        finally:
            with self._mutex:
                group.is_compacting = False
                self._groups.unpin(group)

    def _move_tail(self, group: Group, moment: Moment, snapshot_bytes: int) -> None:
        with self._mutex:
            self._groups.pins.wait_for_others(group.key)
            if not self._groups.is_open(group):
                return  # a write failed meanwhile: what its files say is what counts, this snapshot too
            since_ms = group.unsynced_since_ms
            group.move_tail(moment, snapshot_bytes)
        try:
            group.sync_name()
        except DiskError as error:
            with self._mutex:
                group.note_unsynced(since_ms, error)
                self._groups.fail(group, error)
            raise
        with self._mutex, suppress(DiskError):
            group.unlink_begun()
