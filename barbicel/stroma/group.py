"""One open group: its state in memory and the delta file behind it.

Life of an event: applied to the state and encoded, written with all others of the turn by one write(2),
answered, synced. A snapshot takes the place of a delta that has grown too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from barbicel.codecs.stroma_events import DeltaHeader, Event, encode_delta_header, encode_event
from barbicel.codecs.stroma_snapshot import Snapshot, encode_snapshot
from barbicel.disk import Disk, File, Replacement, copy_file, replace_file, replace_files
from barbicel.errors import CorruptGroup, DiskError
from barbicel.stroma.clamp import clamp_snapshot
from barbicel.stroma.names import GroupKey
from barbicel.stroma.recovery import GroupPlan
from barbicel.stroma.repair import mend_name
from barbicel.stroma.state import GroupState

__all__ = ["Group"]


class Group:
    """Not thread-safe: the store that owns it serialises. After a failed call it must be dropped."""

    def __init__(self, disk: Disk, plan: GroupPlan, now_ms: int) -> None:
        """Raises CorruptGroup if the files are damaged: that takes a repair, never an empty group."""
        if plan.damage is not None:
            raise CorruptGroup(plan.key, plan.damage, path=plan.files.store.root)
        self._disk = disk
        self._files = plan.files
        # A delta without a generation is followed by one that has.
        self._generation = max(plan.generation, 1)
        self._pending: list[bytes] = []
        self._sync_error: DiskError | None = None
        self.key: GroupKey = plan.key
        self.state = plan.state()
        self.snapshot_bytes = plan.snapshot_bytes
        self.delta_bytes = plan.delta_bytes
        # When the oldest event that is written and not synced was written; None if all are. Of those that
        # were found in the file nobody knows whether a process that was killed had synced them.
        self.unsynced_since_ms: int | None = now_ms if plan.events else None
        self.last_used_ms = now_ms
        # In use by somebody who does not hold the store's lock: do not close, do not compact.
        self.pins = 0
        self._delta: File | None = self._open_delta(plan, now_ms) if plan.exists else None

    # --- events -------------------------------------------------------------------------------------

    def record(self, events: Sequence[Event]) -> None:
        """Change the state. The change is safe after `write`, and durable after `sync`.

        Raises ValueError, and changes nothing, if one of the events cannot be written.
        """
        encoded = [encode_event(event) for event in events]
        for event in events:
            self.state.apply(event)
        self._pending += encoded

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    @property
    def is_idle(self) -> bool:
        """Whether its files hold everything and nobody is at them."""
        return not self._pending and not self.pins

    def write(self, now_ms: int) -> None:
        """Write every pending event at once: on return they survive a kill -9."""
        if not self._pending:
            return
        try:
            if self._delta is None:
                self._delta = self._begin_delta(now_ms)
            self._delta.append(self._pending)
        except DiskError:
            self._cut_back()
            raise
        self.delta_bytes = self._delta.end
        self._pending = []
        if self.unsynced_since_ms is None:
            self.unsynced_since_ms = now_ms

    def sync(self) -> None:
        """Make every written event durable. May run beside `write`, which then counts as unsynced again.

        A sync that failed is not tried again: the next one would say that all is well.
        """
        if self._sync_error is not None:
            raise self._sync_error
        since, self.unsynced_since_ms = self.unsynced_since_ms, None
        if since is not None and self._delta is not None:
            try:
                self._delta.fdatasync()
            except DiskError as error:
                self.unsynced_since_ms, self._sync_error = since, error
                raise

    def _cut_back(self) -> None:
        """What was written by half is not answered: take it back if that is possible."""
        if self._delta is not None:
            with suppress(DiskError):
                self._delta.truncate(self.delta_bytes)

    # --- files --------------------------------------------------------------------------------------

    def compact(self, now_ms: int) -> None:
        """Put a snapshot in the delta's place: on return the whole state survives a power cut."""
        self._replace_files(self._snapshot(now_ms), now_ms)

    def clamp(self, end_offset: int, now_ms: int) -> None:
        """Forget what is said about offsets from `end_offset` on: on return that survives a power cut."""
        snapshot = clamp_snapshot(self._snapshot(now_ms), end_offset)
        self._replace_files(snapshot, now_ms)
        self.state = GroupState.of(snapshot)

    def _snapshot(self, now_ms: int) -> Snapshot:
        return self.state.snapshot(
            created_ts_ms=now_ms,
            tp_hash=self.key.tp_hash,
            group_hash=self.key.group_hash,
            generation=self._generation,
        )

    def _replace_files(self, snapshot: Snapshot, now_ms: int) -> None:
        """The snapshot is durable before a new delta replaces the old one, which it voids by its generation.

        A crash in between finds the snapshot and a void delta.
        """
        encoded = encode_snapshot(snapshot)
        mend_name(self._disk, self._files, self.key, now_ms)
        path = self._files.snapshot
        replace_file(self._disk, self._files.temporary(path), path, [encoded])
        self._generation += 1
        fresh = self._begin_delta(now_ms)
        self.close()
        self._delta = fresh
        self._pending, self._sync_error = [], None
        self.snapshot_bytes = len(encoded)
        self.delta_bytes = self._delta.end
        self.unsynced_since_ms = None

    def close(self) -> None:
        if self._delta is not None:
            self._delta.close()
            self._delta = None

    def _open_delta(self, plan: GroupPlan, now_ms: int) -> File:
        if not plan.delta_bytes:
            return self._begin_delta(now_ms)
        mend_name(self._disk, self._files, self.key, now_ms)
        if plan.torn is not None:
            self._keep_torn(plan, now_ms)
        delta = self._disk.open(self._files.delta, "write")
        if plan.torn is not None:
            try:
                delta.truncate(plan.delta_bytes)
                delta.fdatasync()
            except DiskError:
                delta.close()
                raise
        return delta

    def _keep_torn(self, plan: GroupPlan, now_ms: int) -> None:
        assert plan.torn is not None
        while self._disk.exists(f"{self._files.delta}.torn-{now_ms}"):
            now_ms += 1
        copy_file(
            self._disk,
            self._files.delta,
            f"{self._files.delta}.torn-{now_ms}",
            plan.torn.position,
            plan.torn.end_position,
        )

    def _begin_delta(self, now_ms: int) -> File:
        mend_name(self._disk, self._files, self.key, now_ms)
        header = encode_delta_header(DeltaHeader(now_ms, self._generation))
        path = self._files.delta
        replace_files(self._disk, [Replacement(self._files.temporary(path), path, [header])])
        return self._disk.open(path, "write")
