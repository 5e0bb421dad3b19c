"""All groups of a data directory: loaded when used, written once a turn, synced and evicted in time.

The order of a turn: events are recorded in as many groups as need be, `commit` writes each group's with
one write(2), then they may be answered. `maintain` syncs what is due, replaces long deltas by snapshots
and lets go of what nobody uses. One lock guards it all; a sync runs without it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from barbicel.clock import Clock, wall_clock_ms
from barbicel.closing import Closing
from barbicel.codecs.stroma_format import NO_DEADLINE_MS, Event, Inflight, Release
from barbicel.disk import Disk, RealDisk, read_file
from barbicel.errors import BarbicelError, DiskError, LogClosed
from barbicel.stroma.deadlines import Deadlines
from barbicel.stroma.group import Group
from barbicel.stroma.layout import StoreLayout
from barbicel.stroma.names import GroupKey, file_stem, is_hashed, parse_full_name, parse_stem
from barbicel.stroma.recovery import plan_group
from barbicel.stroma.settings import StoreSettings, SyncPolicy
from barbicel.stroma.state import GroupState

__all__ = ["Expired", "GroupStore", "list_groups"]

# Kafka's longest group and topic names, every byte escaped.
MAX_NAME_BYTES = 1 << 18
# A group whose deadline has come and that cannot be read is tried again after this time.
RETRY_MS = 1000


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
        # A sync that ran without the mutex has ended.
        self._unpinned = threading.Condition(self._mutex)
        self._lock = disk.lock(layout.lock)
        self._is_closed = False
        # The least recently used first.
        self._open: OrderedDict[GroupKey, Group] = OrderedDict()
        self._unwritten: dict[GroupKey, Group] = {}
        # Written and not synced, the longest waiting first.
        self._unsynced: OrderedDict[GroupKey, Group] = OrderedDict()
        # Groups whose last sync or write failed: their state goes to a fresh file before it counts.
        self._failed: set[GroupKey] = set()
        # Failures that took recorded events with them, to be told by the next commit.
        self._untold: dict[GroupKey, BarbicelError] = {}
        # The earliest deadline of every group that has one, in memory or not.
        self._hints: dict[GroupKey, int] = {}
        self._deadlines: Deadlines[GroupKey] = Deadlines(self._hints.get)

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
            return key in self._unwritten or any(map(self._disk.exists, (files.delta, files.snapshot)))

    def groups(self) -> Iterator[GroupKey]:
        """Every group in the directory."""
        return list_groups(self._disk, self._layout)

    def delete(self, key: GroupKey) -> None:
        """Forget the group: on return it is gone, durably."""
        with self._mutex:
            self._check_open()
            group = self._settled(key)
            if group is not None:
                self._drop(group)
            self._failed.discard(key)
            self._set_hint(key, NO_DEADLINE_MS)
            files = self._layout.files(key)
            # The delta first: a crash in between leaves an older state, which means redelivery.
            for path in (files.delta, files.snapshot, files.name):
                if self._disk.exists(path):
                    self._disk.unlink(path)
            self._disk.sync_directory(self._layout.root)

    # --- events -------------------------------------------------------------------------------------

    def record(self, key: GroupKey, events: Sequence[Event]) -> GroupState:
        """Change the group's state; safe to answer after `commit`.

        Raises CorruptGroup, DiskError, and ValueError for an event that cannot be written; then nothing
        has changed.
        """
        with self._mutex:
            group = self._group(key)
            group.record(events)
            if group.has_pending:
                self._unwritten[key] = group
            return group.state

    def commit(self) -> dict[GroupKey, BarbicelError]:
        """Write all that was recorded, one write a group; returns the groups for which that failed.

        With SyncPolicy.ALWAYS it is durable too. A failed group is read from its files when next used.
        """
        with self._mutex:
            self._write_all()
            failures, self._untold = self._untold, {}
            return failures

    def sync(self, keys: Iterable[GroupKey]) -> None:
        """Make the groups' events durable now, whatever the policy says. Raises DiskError.

        What fails for other groups is told by the next `commit`.
        """
        with self._mutex:
            self._write_all()
            for key in keys:
                if key in self._untold:
                    raise self._untold.pop(key)
                group = self._settled(key)
                if group is not None:
                    self._sync(group)
                elif key in self._failed:
                    self._group(key)  # which puts its state into fresh files, durably
                if key in self._untold:
                    raise self._untold.pop(key)

    def _write_all(self) -> None:
        self._check_open()
        for group in list(self._unwritten.values()):
            self._write(group)

    def _write(self, group: Group) -> None:
        key = group.key
        self._unwritten.pop(key, None)
        try:
            group.write(self._clock())
            self._set_hint(key, group.state.next_expiry_ms())
            self._unsynced.setdefault(key, group)
            if self._settings.sync_policy is SyncPolicy.ALWAYS:
                self._unsynced.pop(key)
                group.sync()
        except DiskError as error:
            self._untold[key] = error
            self._fail(group, error)

    def _sync(self, group: Group) -> None:
        self._unsynced.pop(group.key, None)
        try:
            group.sync()
        except DiskError as error:
            self._fail(group, error)
            raise

    # --- deadlines ----------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of all groups."""
        with self._mutex:
            return self._deadlines.next_ms()

    def pop_expired(self, now_ms: int, limit: int = 10_000) -> list[Expired]:
        """Release what is inflight beyond its deadline; safe to hand out again after `commit`.

        Touches only groups that have such an offset. One that cannot be read is tried again later.
        """
        expired: list[Expired] = []
        with self._mutex:
            while len(expired) < limit and (key := self._deadlines.pop(now_ms)) is not None:
                del self._hints[key]
                try:
                    state = self.state(key)
                except BarbicelError:
                    self._set_hint(key, now_ms + RETRY_MS)
                    continue
                found = state.expired(now_ms)[: limit - len(expired)]
                self.record(key, [Release(offset, entry.epoch) for offset, entry in found])
                self._set_hint(key, state.next_expiry_ms())
                expired += [Expired(key, offset, entry) for offset, entry in found]
        return expired

    def recover_deadlines(self) -> Iterator[GroupKey]:
        """Find the deadlines of groups that are not in memory, one group a step.

        A step costs one small read, so a server can take them between other work after a restart.
        Damaged groups are passed over: using them says what is wrong.
        """
        for key in self.groups():
            with self._mutex, suppress(BarbicelError):
                if key not in self._open:
                    self._read_hint(key)
            yield key

    def _read_hint(self, key: GroupKey) -> None:
        """The deadline that the group's files tell of. Raises BarbicelError if they do not."""
        plan = plan_group(self._disk, self._layout.files(key), key)
        if plan.damage is None:
            self._set_hint(key, plan.state().next_expiry_ms())

    def _set_hint(self, key: GroupKey, deadline_ms: int) -> None:
        if deadline_ms == NO_DEADLINE_MS:
            self._hints.pop(key, None)
        elif self._hints.get(key) != deadline_ms:
            self._hints[key] = deadline_ms
            self._deadlines.add(deadline_ms, key, len(self._hints))

    # --- maintenance --------------------------------------------------------------------------------

    @property
    def sync_lag_ms(self) -> int:
        """For how long the oldest written event has been waiting for its sync."""
        with self._mutex:
            waiting = (group.unsynced_since_ms for group in self._unsynced.values())
            since_ms = next((since for since in waiting if since is not None), None)
            return 0 if since_ms is None else max(0, self._clock() - since_ms)

    @property
    def open_groups(self) -> int:
        return len(self._open)

    def maintain(self) -> None:
        """Sync what is due, compact what has grown, evict what is idle. Called again and again.

        May raise the DiskError of one group; the next call goes on with the others.
        """
        if self._settings.sync_policy is SyncPolicy.INTERVAL:
            while (group := self._pin_next_due()) is not None:
                self._sync_pinned(group)
        with self._mutex:
            for group in [group for group in self._open.values() if self._is_long(group)]:
                if not group.pins and self._open.get(group.key) is group:
                    self._compact(group)
            self._evict_idle()
            self._evict_surplus()

    def _pin_next_due(self) -> Group | None:
        with self._mutex:
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

    def _sync_pinned(self, group: Group) -> None:
        try:
            group.sync()  # without the mutex: others go on writing meanwhile
        except DiskError as error:
            with self._mutex:
                self._fail(group, error)
        finally:
            with self._mutex:
                group.pins -= 1
                if not group.pins and self._open.get(group.key) is not group:
                    group.close()  # it was dropped meanwhile
                self._unpinned.notify_all()

    def _is_long(self, group: Group) -> bool:
        settings = self._settings
        return group.delta_bytes > settings.compact_bytes or (
            group.delta_bytes > settings.compact_min_bytes
            and group.delta_bytes > settings.compact_ratio * group.snapshot_bytes
        )

    def compact(self, key: GroupKey) -> None:
        """Put a snapshot in the place of the group's delta now. Raises DiskError."""
        with self._mutex:
            self._compact(self._settled(key) or self._group(key))

    def _compact(self, group: Group) -> None:
        try:
            group.compact(self._clock())
        except DiskError as error:
            self._fail(group, error)
            raise
        self._unwritten.pop(group.key, None)
        self._unsynced.pop(group.key, None)
        self._set_hint(group.key, group.state.next_expiry_ms())

    def _evict_idle(self) -> None:
        idle_since_ms = self._clock() - self._settings.idle_ms
        for group in list(self._open.values()):
            if group.last_used_ms > idle_since_ms:
                return
            self._evict(group)

    def _evict_surplus(self, *, keep: Group | None = None) -> None:
        surplus = len(self._open) - self._settings.max_open_groups
        if surplus > 0:
            free = (group for group in self._open.values() if group is not keep and not group.pins)
            for group in list(islice(free, surplus)):
                if group.has_pending:
                    self._write(group)  # before its turn has ended, which does no harm
                self._evict(group)

    def _evict(self, group: Group) -> None:
        """Back to its files, durably; one that is in use, or whose events are not written, stays."""
        if group.is_idle:
            with suppress(DiskError):  # then it has failed, and is gone all the same
                self._sync(group)
                self._drop(group)

    # --- inside -------------------------------------------------------------------------------------

    def _group(self, key: GroupKey) -> Group:
        self._check_open()
        group = self._open.get(key)
        if group is None:
            group = self._load(key)
        self._open.move_to_end(key)
        group.last_used_ms = self._clock()
        return group

    def _load(self, key: GroupKey) -> Group:
        plan = plan_group(self._disk, self._layout.files(key), key)
        group = self._open[key] = Group(self._disk, plan, self._clock())
        if key in self._failed and plan.exists:
            # The page cache may show events that never reached the disk: write them to a fresh file.
            self._compact(group)
        self._failed.discard(key)
        if group.unsynced_since_ms is not None:
            self._unsynced[key] = group
        self._set_hint(key, group.state.next_expiry_ms())
        self._evict_surplus(keep=group)
        return group

    def _settled(self, key: GroupKey) -> Group | None:
        """The group if it is open, once no sync of it is under way any more."""
        while (group := self._open.get(key)) is not None and group.pins:
            self._unpinned.wait()
        return group

    def _fail(self, group: Group, error: BarbicelError) -> None:
        """The group's state is what its files say, from its next use on."""
        key = group.key
        if self._open.get(key) is not group:
            return  # another one has taken its place
        if group.has_pending and key not in self._untold and key in self._unwritten:
            self._untold[key] = error
        self._failed.add(key)
        self._drop(group)
        self._hints.pop(key, None)
        try:
            self._read_hint(key)
        except BarbicelError:
            self._set_hint(key, self._clock() + RETRY_MS)

    def _drop(self, group: Group) -> None:
        for table in (self._open, self._unwritten, self._unsynced):
            table.pop(group.key, None)
        if not group.pins:
            group.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise LogClosed("the store was closed", path=self._layout.root)

    def close(self) -> None:
        """Write and sync everything and let go of the directory. Raises the first error, after the rest."""
        with self._mutex:
            if self._is_closed:
                return
            errors: list[BarbicelError] = list(self.commit().values())
            for key in list(self._open):
                group = self._settled(key)
                if group is not None:
                    try:
                        self._sync(group)
                    except DiskError as error:
                        errors.append(error)
            for group in list(self._open.values()):
                self._drop(group)
            self._is_closed = True
            self._lock.release()
            if errors:
                raise errors[0]


def list_groups(disk: Disk, layout: StoreLayout) -> Iterator[GroupKey]:
    """Every group in a directory; names that are no group's are passed over."""
    seen: set[str] = set()
    for entry in disk.list(layout.root):
        stem, dot, suffix = entry.name.rpartition(".")
        if not dot or suffix not in ("snap", "delta") or stem in seen or entry.is_directory:
            continue
        seen.add(stem)
        key = _hashed_key(disk, layout, stem) if is_hashed(stem) else parse_stem(stem)
        if key is not None:
            yield key


def _hashed_key(disk: Disk, layout: StoreLayout, stem: str) -> GroupKey | None:
    path = f"{layout.root}/{stem}.name"
    if not disk.exists(path):
        return None
    key = parse_full_name(read_file(disk, path, MAX_NAME_BYTES).decode("ascii", "replace"))
    return key if key is not None and file_stem(key) == stem else None
