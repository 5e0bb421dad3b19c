"""All groups of a data directory: loaded when used, written once a turn, synced and evicted in time.

The order of a turn: events are recorded in as many groups as need be, `commit` writes each group's with
one write(2), then they may be answered. `maintain` syncs what is due, replaces long deltas by snapshots,
recovers what has failed and lets go of what nobody uses. One lock guards it all; a sync runs without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from barbicel.clock import Clock, wall_clock_ms
from barbicel.closing import Closing
from barbicel.codecs.stroma_events import Event, Release
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.codecs.stroma_snapshot import Inflight
from barbicel.disk import Disk, RealDisk
from barbicel.errors import BarbicelError, DiskError, LogClosed
from barbicel.stroma.deletion import delete_files
from barbicel.stroma.directory import list_groups, list_groups_of
from barbicel.stroma.failures import RETRY_MS
from barbicel.stroma.group import Group
from barbicel.stroma.layout import StoreLayout
from barbicel.stroma.names import GroupKey
from barbicel.stroma.open_groups import OpenGroups
from barbicel.stroma.settings import StoreSettings, SyncPolicy
from barbicel.stroma.state import GroupState

__all__ = ["Expired", "GroupStore"]


class Expired(NamedTuple):
    """An offset that was handed out and not acked in time; it is available again."""

    key: GroupKey
    offset: int
    inflight: Inflight


class GroupStore(Closing):
    """Use `GroupStore.open`. Every method may be called from any thread."""

    def __init__(self, disk: Disk, layout: StoreLayout, settings: StoreSettings, clock: Clock) -> None:
        self._disk = disk
        self._layout = layout
        self._settings = settings
        self._clock = clock
        self._mutex = threading.RLock()
        self._groups = OpenGroups(disk, layout, settings, clock, threading.Condition(self._mutex))
        self._lock = disk.lock(layout.lock)
        self._is_closed = False

    @classmethod
    def open(
        cls,
        path: str,
        *,
        disk: Disk | None = None,
        settings: StoreSettings | None = None,
        clock: Clock = wall_clock_ms,
    ) -> GroupStore:
        """Open a directory of groups, creating it if there is none. Raises LogLocked, DiskError.

        Deadlines that were running when it was last closed are found by `recover_deadlines`.
        """
        disk = disk or RealDisk()
        layout = StoreLayout(path)
        disk.make_directory(layout.temporaries)
        return cls(disk, layout, settings or StoreSettings(), clock)

    # --- groups -------------------------------------------------------------------------------------

    def state(self, key: GroupKey) -> GroupState:
        """The group's state, to look at; one that does not exist is empty. Raises CorruptGroup."""
        with self._mutex:
            return self._group(key).state

    def exists(self, key: GroupKey) -> bool:
        with self._mutex:
            files = self._layout.files(key)
            has_files = self._disk.exists(files.delta) or self._disk.exists(files.snapshot)
            return has_files or self._groups.is_unwritten(key)

    def groups(self) -> Iterator[GroupKey]:
        """Every group in the directory."""
        return list_groups(self._disk, self._layout)

    def delete(self, key: GroupKey) -> None:
        """Forget the group: on return it is gone, durably. A crash leaves it as it was, or empty."""
        with self._mutex:
            self._check_open()
            group = self._groups.settled(key)
            if group is not None:
                self._groups.drop(group)
            delete_files(self._disk, self._layout.files(key), self._clock())
            self._groups.failed.discard(key)
            self._groups.hints.set(key, NO_DEADLINE_MS)

    def clamp(self, topic: str, partition: int, end_offset: int) -> list[GroupKey]:
        """Forget, durably, what groups say about offsets from the log's end on; returns those groups.

        For whoever opens a log: a power cut may have taken messages whose acks are durable, and their
        offsets are about to be used again. Raises the first error after the rest; then nothing may be
        appended, because a group may still take new messages for acked.
        """
        clamped: list[GroupKey] = []

        def clamp(key: GroupKey) -> None:
            if self._groups.clamp(key, end_offset):
                clamped.append(key)

        with self._mutex:
            self._check_open()
            # A clamp that was interrupted may have renamed a snapshot and gone no further.
            self._disk.sync_directory(self._layout.root)
            errors = _errors_of(clamp, self._keys_of(topic, partition))
        if errors:
            raise errors[0]
        return clamped

    def _keys_of(self, topic: str, partition: int) -> list[GroupKey]:
        in_memory = (key for key in self._groups if key[:2] == (topic, partition))
        return sorted({*in_memory, *list_groups_of(self._disk, self._layout, topic, partition)})

    # --- events -------------------------------------------------------------------------------------

    def record(self, key: GroupKey, events: Sequence[Event]) -> GroupState:
        """Change the group's state; safe to answer after `commit`.

        Raises CorruptGroup, DiskError, and ValueError for an event that cannot be written; then nothing
        has changed.
        """
        with self._mutex:
            group = self._group(key)
            group.record(events)
            self._groups.note_recorded(group)
            return group.state

    def commit(self) -> dict[GroupKey, BarbicelError]:
        """Write all that was recorded, one write a group; returns the groups for which that failed.

        With SyncPolicy.ALWAYS it is durable too. A failed group is read from its files when next used.
        """
        with self._mutex:
            self._check_open()
            self._groups.write_all()
            failures, self._groups.untold = self._groups.untold, {}
            return failures

    def sync(self, keys: Iterable[GroupKey]) -> None:
        """Make the groups' events durable now, whatever the policy says. Raises DiskError.

        What fails for other groups is told by the next `commit`.
        """
        with self._mutex:
            self._check_open()
            groups, untold = self._groups, self._groups.untold
            groups.write_all()
            for key in keys:
                if key in untold:
                    raise untold.pop(key)
                if key in groups.failed:
                    groups.heal(key)
                groups.sync_settled(key)
                if key in untold:
                    raise untold.pop(key)

    # --- deadlines ----------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of all groups."""
        with self._mutex:
            return self._groups.hints.next_ms()

    def pop_expired(self, now_ms: int, limit: int = 10_000) -> list[Expired]:
        """Release what is inflight beyond its deadline; safe to hand out again after `commit`.

        Touches only groups that have such an offset. One that cannot be read is tried again later.
        """
        expired: list[Expired] = []
        with self._mutex:
            hints = self._groups.hints
            while len(expired) < limit and (key := hints.pop(now_ms)) is not None:
                try:
                    state = self.state(key)
                except BarbicelError:
                    hints.set(key, now_ms + RETRY_MS)
                    continue
                found = state.expired(now_ms)[: limit - len(expired)]
                self.record(key, [Release(offset, entry.epoch) for offset, entry in found])
                hints.set(key, state.next_expiry_ms())
                expired += [Expired(key, offset, entry) for offset, entry in found]
        return expired

    def recover_deadlines(self) -> Iterator[GroupKey]:
        """Find the deadlines of groups that are not in memory, one group a step.

        A step costs one small read, so a server can take them between other work after a restart.
        Damaged groups are passed over: using them says what is wrong.
        """
        for key in self.groups():
            with self._mutex, suppress(BarbicelError):
                if key not in self._groups:
                    self._groups.read_hint(key)
            yield key

    # --- maintenance --------------------------------------------------------------------------------

    @property
    def sync_lag_ms(self) -> int:
        """For how long the oldest written event has been waiting to become durable, failed groups too."""
        with self._mutex:
            since_ms = self._groups.unsynced_since_ms()
            return 0 if since_ms is None else max(0, self._clock() - since_ms)

    @property
    def failures(self) -> dict[GroupKey, BarbicelError]:
        """The groups whose last write or sync failed and that have not recovered yet, each with its error."""
        with self._mutex:
            return self._groups.failed.errors

    @property
    def open_groups(self) -> int:
        return len(self._groups)

    def maintain(self) -> None:
        """Sync what is due, recover what failed, compact what has grown, evict what is idle.

        Called again and again. May raise the DiskError of one group; the next call goes on with the others.
        """
        if self._settings.sync_policy is SyncPolicy.INTERVAL:
            while (group := self._pin_next_due()) is not None:
                self._sync_pinned(group)
        self._heal_due()
        with self._mutex:
            self._groups.compact_long()
            self._groups.evict_idle()
            self._groups.evict_surplus()

    def _pin_next_due(self) -> Group | None:
        with self._mutex:
            return self._groups.pin_next_due()

    def _sync_pinned(self, group: Group) -> None:
        failure: DiskError | None = None
        try:
            group.sync()  # without the mutex: others go on writing meanwhile
        except DiskError as error:
            failure = error
        finally:
            with self._mutex:
                self._groups.unpin(group, failure)

    def _heal_due(self) -> None:
        with self._mutex:
            due = [] if self._is_closed else self._groups.failed.due(self._clock())
        for key in due:
            # One at a time, so that others get their turn in between. What fails again stays failed.
            with self._mutex, suppress(BarbicelError):
                if key in self._groups.failed:
                    self._groups.heal(key)

    def compact(self, key: GroupKey) -> None:
        """Put a snapshot in the place of the group's delta now. Raises DiskError."""
        with self._mutex:
            self._groups.compact(self._groups.settled(key) or self._group(key))

    # --- inside -------------------------------------------------------------------------------------

    def _group(self, key: GroupKey) -> Group:
        self._check_open()
        return self._groups.get(key)

    def _check_open(self) -> None:
        if self._is_closed:
            raise LogClosed("the store was closed", path=self._layout.root)

    def close(self) -> None:
        """Write and sync everything and let go of the directory. Raises the first error, after the rest."""
        with self._mutex:
            if self._is_closed:
                return
            errors: list[BarbicelError] = list(self.commit().values())
            errors += _errors_of(self._groups.heal, self._groups.failed.in_doubt)
            errors += _errors_of(self._groups.sync_settled, self._groups)
            self._groups.drop_all()
            self._is_closed = True
            self._lock.release()
            if errors:
                raise errors[0]


def _errors_of(run: Callable[[GroupKey], None], keys: Iterable[GroupKey]) -> list[BarbicelError]:
    """Run it for every key, whatever happens to the others."""
    errors: list[BarbicelError] = []
    for key in keys:
        try:
            run(key)
        except BarbicelError as error:
            errors.append(error)
    return errors
