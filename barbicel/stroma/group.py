"""One open group: its state in memory and the delta file behind it.

Life of an event: applied to the state and encoded, written with all others of the turn by one write(2),
answered, synced. A snapshot takes the place of a delta that has grown too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from barbicel.codecs.stroma_events import DELTA_HEADER_BYTES, Event, encode_event
from barbicel.codecs.stroma_snapshot import Snapshot
from barbicel.disk import Disk, File
from barbicel.errors import DiskError
from barbicel.stroma.clamp import clamp_snapshot
from barbicel.stroma.group_files import begin_delta, keep_torn, replace_delta, replace_snapshot
from barbicel.stroma.names import GroupKey
from barbicel.stroma.recovery import GroupPlan
from barbicel.stroma.repair import mend_name
from barbicel.stroma.state import GroupState

__all__ = ["Group", "Moment"]


class Moment(NamedTuple):
    """A group as it was when its delta ended at this position, to take a snapshot of."""

    state: GroupState
    delta_position: int
    now_ms: int


class Group:
    """Not thread-safe: the store that owns it serialises, but for `sync_data`, `sync_name`, `write_snapshot`.

    After a failed write or sync it must be dropped.
    """

    def __init__(self, disk: Disk, plan: GroupPlan, now_ms: int) -> None:
        """Raises CorruptGroup if the files are damaged."""
        self.key: GroupKey = plan.key
        self.state = plan.usable_state()
        self._disk = disk
        self._files = plan.files
        # A delta without a generation is followed by one that has.
        self._generation = max(plan.generation, 1)
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._sync_error: DiskError | None = None
        self.snapshot_bytes = plan.snapshot_bytes
        # When it was taken; None if there is none.
        self.snapshot_ms = None if plan.snapshot is None else plan.snapshot.created_ts_ms
        # When the oldest event that is written and not synced was written; None if all are. Of those that
        # were found in the file nobody knows whether a process that was killed had synced them.
        self.unsynced_since_ms: int | None = now_ms if plan.events else None
        self.last_used_ms = now_ms
        self.is_compacting = False
        # Not before then: the last try failed.
        self.compact_after_ms = 0
        # The delta has the name that says that it may not be durable...
        self._is_begun = plan.is_begun and plan.delta_bytes > 0
        # ...or got the right one, and the directory was not synced since.
        self.is_name_synced = True
        self._delta: File | None = self._open_delta(plan, now_ms) if plan.exists else None
        self.delta_bytes = 0 if self._delta is None else self._delta.end
        if plan.exists:
            with suppress(DiskError):
                self.unlink_begun()

    # --- events -------------------------------------------------------------------------------------

    def record(self, events: Sequence[Event]) -> None:
        """Change the state. The change is safe after `write`, and durable after `sync`.

        Raises ValueError, and changes nothing, if one of the events cannot be written.
        """
        encoded = [encode_event(event) for event in events]
        for event in events:
            self.state.apply(event)
        self._pending += encoded
        self._pending_bytes += sum(map(len, encoded))

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    @property
    def bytes_after_write(self) -> int:
        """How long the delta will be."""
        return max(self.delta_bytes, DELTA_HEADER_BYTES) + self._pending_bytes

    def write(self, now_ms: int) -> None:
        """Write every pending event at once: on return they survive a kill -9."""
        if not self._pending:
            return
        if self._delta is None:
            self._begin_delta(now_ms)
        else:
            self._append(self._delta)
        self._forget_pending()
        if self.unsynced_since_ms is None:
            self.unsynced_since_ms = now_ms

    def _append(self, delta: File) -> None:
        """What is written by half is not answered: it is taken back if that is possible."""
        try:
            delta.append(self._pending)
        except DiskError:
            with suppress(DiskError):
                delta.truncate(self.delta_bytes)
            raise
        self.delta_bytes = delta.end

    def _begin_delta(self, now_ms: int) -> None:
        mend_name(self._disk, self._files, self.key, now_ms)
        self._delta = begin_delta(self._disk, self._files, self._generation, self._pending, now_ms)
        self._is_begun = True
        self.delta_bytes = self._delta.end

    def _forget_pending(self) -> None:
        self._pending = []
        self._pending_bytes = 0

    # --- syncing ------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Make every written event durable.

        A sync that failed is not tried again: the next one would say that all is well.
        """
        since_ms = self.sync_but_name()
        try:
            self.sync_name()
        except DiskError as error:
            self.note_unsynced(since_ms, error)
            raise

    def sync_but_name(self) -> int | None:
        """All steps but the last one, which groups can share. Returns what `sync_data` does."""
        since_ms = self.sync_data()
        try:
            self.settle_name()
        except DiskError as error:
            self.note_unsynced(since_ms, error)
            raise
        return since_ms

    @property
    def is_durable(self) -> bool:
        """Whether there is nothing to write or to sync."""
        is_synced = self.unsynced_since_ms is None and self.is_name_synced and not self._is_begun
        return is_synced and not self._pending

    def sync_data(self) -> int | None:
        """The first step. May run beside `write`, which then counts as unsynced again.

        Returns since when events have been waiting for it, None if none were.
        """
        if self._sync_error is not None:
            raise self._sync_error
        since_ms, self.unsynced_since_ms = self.unsynced_since_ms, None
        if (since_ms is not None or self._is_begun) and self._delta is not None:
            try:
                self._delta.fdatasync()
            except DiskError as error:
                self.note_unsynced(since_ms, error)
                raise
        return since_ms

    def settle_name(self) -> None:
        """The second step: what is durable gets the name that says so."""
        if self._is_begun and self._delta is not None:
            self._disk.rename(self._files.begun, self._files.delta)
            self._delta.path = self._files.delta
            self._is_begun = self.is_name_synced = False

    def sync_name(self) -> None:
        """The last step, if the name is new: it survives a power cut, too."""
        if not self.is_name_synced:
            self._disk.sync_directory(self._files.store.root)
            self.is_name_synced = True

    def note_unsynced(self, since_ms: int | None, error: DiskError) -> None:
        """A step failed: what waited for it is not durable, and no other sync will say otherwise."""
        found = (since for since in (since_ms, self.unsynced_since_ms) if since is not None)
        self.unsynced_since_ms, self._sync_error = min(found, default=None), error

    # --- a snapshot while others go on writing --------------------------------------------------------

    def begin_compaction(self, now_ms: int) -> Moment:
        """The first step. Everything must be written."""
        if self._delta is None:
            self._begin_delta(now_ms)
        self.is_compacting = True
        return Moment(self.state.frozen(), self.delta_bytes, now_ms)

    def write_snapshot(self, moment: Moment) -> int:
        """The second step, which may run beside `write`: a durable snapshot; returns its size.

        It makes the delta void up to the moment's position. A crash from now on finds both.
        """
        snapshot = self._snapshot(moment.state, moment.now_ms, moment.delta_position)
        mend_name(self._disk, self._files, self.key, moment.now_ms)
        return replace_snapshot(self._disk, self._files, snapshot)

    def move_tail(self, moment: Moment, snapshot_bytes: int) -> None:
        """The last step: what was written since goes to a new delta. Durable after `sync_name`.

        If it fails the old delta goes on: nothing has changed.
        """
        delta = self._delta
        assert delta is not None
        tail = delta.pread(self.delta_bytes - moment.delta_position, moment.delta_position)
        fresh = replace_delta(self._disk, self._files, self._generation + 1, tail, moment.now_ms)
        self._take(fresh, snapshot_bytes, moment.now_ms)
        self.is_name_synced = False
        self.unsynced_since_ms = None

    def unlink_begun(self) -> None:
        """Once another delta is durable the one that a new group began with is of no use any more."""
        if not self._is_begun and self._disk.exists(self._files.begun):
            self._disk.unlink(self._files.begun)

    # --- a snapshot at once -------------------------------------------------------------------------

    def compact(self, now_ms: int) -> None:
        """Put a snapshot in the delta's place: on return the whole state survives a power cut."""
        self._replace_files(self._snapshot(self.state, now_ms), now_ms)

    def clamp(self, end_offset: int, now_ms: int) -> None:
        """Forget what is said about offsets from `end_offset` on: on return that survives a power cut."""
        snapshot = clamp_snapshot(self._snapshot(self.state, now_ms), end_offset)
        self._replace_files(snapshot, now_ms)
        self.state = GroupState.of(snapshot)

    def _snapshot(self, state: GroupState, now_ms: int, delta_position: int = 0) -> Snapshot:
        return state.snapshot(
            created_ts_ms=now_ms,
            tp_hash=self.key.tp_hash,
            group_hash=self.key.group_hash,
            generation=self._generation,
            delta_position=delta_position,
        )

    def _replace_files(self, snapshot: Snapshot, now_ms: int) -> None:
        """The snapshot is durable before a new delta replaces the old one, which it voids by its generation.

        A crash in between finds the snapshot and a void delta.
        """
        mend_name(self._disk, self._files, self.key, now_ms)
        snapshot_bytes = replace_snapshot(self._disk, self._files, snapshot)
        fresh = replace_delta(self._disk, self._files, self._generation + 1, b"", now_ms)
        self._take(fresh, snapshot_bytes, now_ms)
        self._disk.sync_directory(self._files.store.root)
        self._forget_pending()
        self._sync_error = self.unsynced_since_ms = None
        self.is_name_synced = True
        self.unlink_begun()

    def _take(self, fresh: File, snapshot_bytes: int, snapshot_ms: int) -> None:
        """Go on with the delta of the next generation."""
        self.close()
        self._delta = fresh
        self._generation += 1
        self._is_begun = False
        self.snapshot_bytes, self.delta_bytes = snapshot_bytes, fresh.end
        self.snapshot_ms = snapshot_ms

    def close(self) -> None:
        if self._delta is not None:
            self._delta.close()
            self._delta = None

    # --- opening ------------------------------------------------------------------------------------

    def _open_delta(self, plan: GroupPlan, now_ms: int) -> File:
        mend_name(self._disk, self._files, self.key, now_ms)
        if plan.torn is not None:
            keep_torn(self._disk, plan, plan.torn, now_ms)
        if not plan.delta_bytes:
            fresh = replace_delta(self._disk, self._files, self._generation, plan.tail, now_ms)
            self.is_name_synced = False
            self.sync_name()
            return fresh
        delta = self._disk.open(plan.delta_path, "write")
        if plan.torn is not None:
            try:
                delta.truncate(plan.delta_bytes)
                delta.fdatasync()
            except DiskError:
                delta.close()
                raise
        return delta
