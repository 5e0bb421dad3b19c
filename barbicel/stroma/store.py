"""All groups of a data directory: loaded when used, written once a turn, synced and evicted in time.

The order of a turn: events are recorded in as many groups as need be, `commit` writes each group's with
one write(2), then they may be answered. `maintain` syncs what is due, replaces long deltas by snapshots,
recovers what has failed and lets go of what nobody uses. One lock guards it all; syncs and snapshots run
without it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from barbicel.clock import Clock, wall_clock_ms
from barbicel.closing import Closing
from barbicel.codecs.stroma_events import Event
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.disk import Disk, Lock, RealDisk
from barbicel.errors import BarbicelError, DiskError, LogLocked
from barbicel.stroma.compaction import Compactions
from barbicel.stroma.deletion import delete_files
from barbicel.stroma.directory import list_groups
from barbicel.stroma.expiry import Expired, pop_expired, recover_deadlines
from barbicel.stroma.failures import errors_of
from barbicel.stroma.file_sizes import GroupFileSizes, measure
from barbicel.stroma.layout import StoreLayout
from barbicel.stroma.log_end import LogEnd
from barbicel.stroma.maintenance import Maintenance
from barbicel.stroma.names import GroupKey
from barbicel.stroma.open_groups import OpenGroups
from barbicel.stroma.ownership import Ownership
from barbicel.stroma.ranges import Range
from barbicel.stroma.settings import StoreSettings
from barbicel.stroma.state import GroupState

__all__ = ["Expired", "GroupStore"]


class GroupStore(Closing):
    """Use `GroupStore.open`.

    Every method may be called from any thread. Three rules for more than one:

    - Whoever records also commits. Another thread's `commit` may write the events, and be told that this
      failed; the thread that recorded them is told by its own next `commit` all the same.
    - A `GroupState` is live and not guarded. Look at it in the thread that records for that group, between
      its own calls. Other threads ask `available` and `lag`.
    - Reading a state and recording what follows from it are two calls: let one thread do that for a group.
    """

    def __init__(self, disk: Disk, layout: StoreLayout, settings: StoreSettings, clock: Clock) -> None:
        self._disk = disk
        self._layout = layout
        self._clock = clock
        self._mutex = threading.RLock()
        self._owner = owner = Ownership(layout.root)
        self._groups = groups = OpenGroups(disk, layout, settings, clock, threading.Condition(self._mutex))
        self._compactions = Compactions(owner, groups, self._mutex, settings, clock)
        self._maintenance = Maintenance(
            disk, owner, layout, groups, self._compactions, self._mutex, settings, clock
        )
        self._log_end = LogEnd(disk, layout, groups, clock)
        self._lock = _lock(disk, layout)

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
        store = cls(disk, layout, settings or StoreSettings(), clock)
        try:
            # A process that was killed may have renamed files and gone no further.
            disk.sync_directory(layout.root)
        except DiskError:
            store._lock.release()
            raise
        return store

    # --- groups -------------------------------------------------------------------------------------

    def state(self, key: GroupKey) -> GroupState:
        """The group's state, to look at; one that does not exist is empty. Raises CorruptGroup, DiskError.

        A group whose last write failed can still be looked at: its files say what counts.
        """
        with self._mutex:
            self._owner.check()
            return self._groups.look(key)

    def available(self, key: GroupKey, from_offset: int, end_offset: int, max_offsets: int) -> list[Range]:
        """Stretches of offsets that are neither acked nor inflight, until they are `max_offsets` or more."""
        with self._mutex:
            self._owner.check()
            total = 0

            def is_wanted(gap: Range) -> bool:
                nonlocal total
                before, total = total, total + gap.end - gap.start
                return before < max_offsets

            return list(takewhile(is_wanted, self._groups.look(key).available(from_offset, end_offset)))

    def lag(self, key: GroupKey, end_offset: int, start_offset: int = 0) -> int:
        """How many offsets from the start to the end of a log are not acked."""
        with self._mutex:
            self._owner.check()
            return self._groups.look(key).lag(end_offset, start_offset)

    def exists(self, key: GroupKey) -> bool:
        with self._mutex:
            self._owner.check()
            has_files = any(self._disk.exists(path) for path in self._layout.files(key).data)
            return has_files or key in self._groups.turn

    def groups(self) -> Iterator[GroupKey]:
        """Every group in the directory. Raises DiskError after the rest if a name could not be read."""
        self._owner.check()
        return list_groups(self._disk, self._layout)

    def delete(self, key: GroupKey) -> None:
        """Forget the group: on return it is gone, durably. A crash leaves it as it was, or empty."""
        for error in self.delete_all([key]).values():
            raise error

    def delete_all(self, keys: Sequence[GroupKey]) -> dict[GroupKey, BarbicelError]:
        """Forget them all, with the syncs of one; returns those for which that failed. Others wait for it."""
        with self._mutex:
            files = {}
            for key in keys:
                group = self._groups.settled(key)
                self._owner.check()
                if group is not None:
                    self._groups.drop(group)
                files[self._layout.files(key)] = key
            failed = delete_files(self._disk, list(files), self._clock())
            for one, key in files.items():
                if one not in failed:
                    self._groups.failed.discard(key)
                    self._groups.hints.set(key, NO_DEADLINE_MS)
            return {files[one]: error for one, error in failed.items()}

    def clamp(
        self, topic: str, partition: int, end_offset: int, groups: Iterable[str] | None = None
    ) -> list[GroupKey]:
        """Forget, durably, what groups say about offsets from the log's end on; returns those groups.

        For whoever opens a log: a power cut may have taken messages whose acks are durable, and their
        offsets are about to be used again. Raises the first error after the rest; then nothing may be
        appended, because a group may still take new messages for acked. Whoever knows which groups the
        partition has may say so: else the directory is looked through, for each partition anew.
        """
        with self._mutex:
            self._owner.check()
            return self._log_end.clamp(topic, partition, end_offset, groups)

    # --- events -------------------------------------------------------------------------------------

    def record(self, key: GroupKey, events: Sequence[Event]) -> GroupState:
        """Change the group's state; safe to answer after `commit`.

        Raises CorruptGroup, DiskError, and ValueError for a name or an event that cannot be written; then
        nothing has changed.
        """
        with self._mutex:
            self._owner.check()
            group = self._groups.get(key)
            self._groups.record(group, events)
            return group.state

    def commit(self) -> dict[GroupKey, BarbicelError]:
        """Write all that was recorded, one write a group; returns the groups for which that failed.

        With SyncPolicy.ALWAYS it is durable too. A failed group is read from its files when next used. Tells
        also what this thread recorded and another one, or maintenance, failed to write.
        """
        with self._mutex:
            self._owner.check()
            self._groups.write_all()
            return self._groups.turn.tell(threading.get_ident())

    def sync(self, keys: Iterable[GroupKey]) -> None:
        """Make the groups' events durable now, whatever the policy says, also what a killed process wrote.

        Raises BarbicelError. What fails for other groups is told by the next `commit`.
        """
        with self._mutex:
            self._owner.check()
            self._groups.write_all()
            for key in keys:
                self._raise_untold(key)
                self._groups.sync(key)
                self._raise_untold(key)

    def _raise_untold(self, key: GroupKey) -> None:
        error = self._groups.turn.tell_of(key, threading.get_ident())
        if error is not None:
            raise error

    # --- deadlines ----------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of all groups."""
        with self._mutex:
            return self._groups.hints.next_ms()

    def pop_expired(self, now_ms: int, limit: int = 10_000) -> list[Expired]:
        """Release what is inflight beyond its deadline; safe to hand out again after `commit`.

        Touches only groups that have such an offset. One that cannot be read is tried again later.
        """
        with self._mutex:
            self._owner.check()
            return pop_expired(self._groups, now_ms, limit)

    def recover_deadlines(self) -> Iterator[GroupKey]:
        """Find the deadlines of groups that are not in memory, one group a step.

        A step costs one small read, so a server can take them between other work after a restart.
        Damaged groups are passed over: using them says what is wrong. Raises as `groups` does.
        """
        return recover_deadlines(self._owner, self._groups, self.groups(), self._mutex, self._clock)

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

    def file_sizes(self) -> GroupFileSizes:
        """Of the groups in memory."""
        with self._mutex:
            groups = self._groups.values()
        return measure(groups, self._clock())

    def maintain(self) -> None:
        """Sync what is due, recover what failed, compact what has grown, evict what is idle.

        Called again and again, by a `Flusher`. Raises the first error, after the rest; a later call tries
        again.
        """
        self._maintenance.run()

    def compact(self, key: GroupKey) -> None:
        """Put a snapshot in the place of the group's delta now: on return all of it is durable.

        Raises BarbicelError. Then the old files go on, and nothing is lost.
        """
        self._compactions.run(key)

    # --- ending -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write and sync everything and let go of the directory. Raises the first error, after the rest."""
        if self._owner.is_forked:
            return  # all of it is the parent's
        with self._mutex:
            if self._owner.is_closed:
                return
            self._owner.is_closed = True  # nothing is begun any more, what is under way is waited for
            self._groups.write_all()
            errors: list[BarbicelError] = list(self._groups.turn.tell(threading.get_ident()).values())
            errors += errors_of(self._groups.heal, self._groups.failed.in_doubt)
            errors += errors_of(self._groups.sync, self._groups)
            self._groups.pins.wait_for_all()
            for group in self._groups.values():
                self._groups.drop(group)
            self._lock.release()
            if errors:
                raise errors[0]


def _lock(disk: Disk, layout: StoreLayout) -> Lock:
    try:
        return disk.lock(layout.lock)
    except LogLocked as error:
        raise LogLocked(
            error.message, path=error.path, hint="only one process may use a directory of groups"
        ) from None
