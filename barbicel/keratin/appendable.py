"""The side of a log that is written: appends, syncs, rolls and checkpoints, and when all of that stops.

Everything that changes the log is serialised by one mutex. See log.py for what is durable when.

A failed write or sync stops the log: nothing is tried again, and opening it anew recovers. Two failures pass,
see passing.py: no room, and no descriptor for a file. They fail the append; what it left is cut off, and the
next one tries again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from barbicel.clock import Clock
from barbicel.codecs.keratin_format import LOG_HEADER_BYTES, FileHeader, Manifest, SealedSegment
from barbicel.disk import Disk, Lock
from barbicel.errors import DiskError, LogClosed, LogStopped
from barbicel.keratin.handles import HandleBudget
from barbicel.keratin.indexes import SegmentIndexes
from barbicel.keratin.manifest import write_manifest
from barbicel.keratin.passing import is_passing
from barbicel.keratin.plan import RecoveryPlan, SegmentPlan
from barbicel.keratin.readable import ReadableLog
from barbicel.keratin.records import Ack, Appended, NewRecord, check_records
from barbicel.keratin.repair import manifest_of
from barbicel.keratin.segment import ActiveSegment
from barbicel.keratin.syncing import OnlySync
from barbicel.keratin.view import View

__all__ = ["AppendableLog", "active_indexes"]


def active_indexes(recovered: RecoveryPlan) -> SegmentIndexes:
    """The indexes of the segment that records are appended to."""
    last = recovered.segments[-1]
    return last.indexes or SegmentIndexes(last.base_offset, recovered.settings.index_stride_bytes)


class AppendableLog(ReadableLog):
    """Every method may be called from any thread."""

    def __init__(
        self,
        disk: Disk,
        found: RecoveryPlan,
        recovered: RecoveryPlan,
        clock: Clock,
        lock: Lock | None,
        handles: HandleBudget | None = None,
    ) -> None:
        last, indexes = recovered.segments[-1], active_indexes(recovered)
        super().__init__(disk, found, recovered, indexes, handles)
        self._clock = clock
        self._lock = lock
        self._mutex = threading.RLock()
        # Held while the active segment is synced; taken after the mutex, never before it.
        self._only_sync = OnlySync(self.path)
        self._stopped: Exception | None = None
        self._is_writing = False
        # How many appends have failed in passing. See NewRecord.after_failures.
        self.failures = 0
        # The active segment once it is sealed: whoever writes has to begin the next one first.
        self._sealed: SealedSegment | None = None
        # A process that was forked has the same open files and no part in the mutex: it may only read.
        self._pid = os.getpid()
        self._manifest = recovered.manifest or manifest_of(recovered, clock())
        self._active: ActiveSegment | None = None
        self._synced_offset = recovered.next_offset
        # In the active segment.
        self._synced_position = last.end_position
        self._bytes_since_checkpoint = 0
        if lock is not None and not recovered.damage:
            self._active = self._open_active(last, indexes)

    def _open_active(self, last: SegmentPlan, indexes: SegmentIndexes) -> ActiveSegment:
        return ActiveSegment(
            self._disk,
            self._layout,
            self._settings,
            FileHeader(last.base_offset, last.created_ts_ms),
            indexes,
            next_offset=last.end_offset,
            end_position=last.end_position,
        )

    @property
    def is_writable(self) -> bool:
        """Whether appends are taken: not after a failure, nor with damage, nor for reading only."""
        return self._stopped is None and self._active is not None

    @property
    def is_read_only(self) -> bool:
        """Whether it was opened for reading only, and nothing has changed that. See Log.begin_writing."""
        return self._lock is None

    # --- appending ----------------------------------------------------------------------------------

    def append(self, records: Sequence[NewRecord], ack: Ack = Ack.AFTER_FSYNC) -> Appended:
        """Append in the calling thread; on return the records are as safe as `ack` says.

        Records that do not fit one segment are split at its end: if that fails midway, the first of them
        may be found after recovery. Within one segment it is all or nothing.
        """
        self.check(records)
        with self._mutex:
            appended = self.write(records, publish=ack is Ack.AFTER_WRITE)
            if ack is Ack.AFTER_FSYNC:
                self.sync()
            self.checkpoint_if_due()
        return appended

    def check(self, records: Sequence[NewRecord]) -> int:
        """Their bytes in the log. Raises if one of them can never be stored."""
        return check_records(records, self._settings.max_record_bytes, self.path)

    def write(self, records: Sequence[NewRecord], *, publish: bool = False) -> Appended:
        """The first half of an append: written, not durable, and shown to readers only if that is wished.

        The records must have passed `check`. On an error the log stops, unless it is one that passes.
        """
        with self._mutex:
            active = self._writable()
            base_offset = active.next_offset
            if not records:
                return Appended(base_offset, 0)
            if self._is_writing:  # the mutex lets the same thread in again
                raise RuntimeError("an append inside of an append, from a signal handler or a stamp")
            self._is_writing = True
            try:
                active = self._write_all(active, records)
            except BaseException as error:
                self._stop_unless_it_passes(error, base_offset)
                self.failures += isinstance(error, DiskError)
                raise
            finally:
                self._is_writing = False
            if publish:
                self._show(active.next_offset, active.end_position)
            return Appended(base_offset, active.next_offset - base_offset)

    def _write_all(self, active: ActiveSegment, records: Sequence[NewRecord]) -> ActiveSegment:
        self._mark_unclean()
        taken = 0
        while taken < len(records):
            now_ms = self._clock()
            active = self._active_for(active, records[taken], now_ms)
            start = active.end_position
            taken += active.append(records, taken, now_ms)
            self._bytes_since_checkpoint += active.end_position - start
        return active

    def _show(self, end_offset: int, end_position: int) -> None:
        view = self._view
        if end_offset > view.end_offset:
            self._view = View(
                view.segments,
                view.active_base_offset,
                view.active_indexes,
                view.start_offset,
                end_offset,
                end_position,
            )

    def sync(self) -> None:
        """Make all that was written before durable, then show it to readers.

        Others may write meanwhile. What they write is not covered by it.
        """
        with self._mutex:
            active = self._writable()
            end_offset, end_position = active.next_offset, active.end_position
        if self._synced_offset < end_offset:
            try:
                with self._only_sync:
                    active.sync()
            except BaseException as error:
                with self._mutex:
                    self._stop(error)
                raise
        with self._mutex:
            self._writable()  # a write that failed meanwhile may have taken back what was synced
            if self._active is active:  # else a roll has synced and shown it
                self._synced_offset = max(self._synced_offset, end_offset)
                self._synced_position = max(self._synced_position, end_position)
                self._show(end_offset, end_position)

    @property
    def unsynced_offsets(self) -> int:
        """How many offsets a power cut would take."""
        active = self._active
        return 0 if active is None else active.next_offset - self._synced_offset

    @property
    def unsynced_bytes(self) -> int:
        """The bytes of these, as they lie in the log."""
        active = self._active
        return 0 if active is None else max(0, active.end_position - self._synced_position)

    def is_synced(self, appended: Appended) -> bool:
        """Whether an append survives a power cut."""
        return appended.base_offset + appended.count <= self._synced_offset

    @property
    def room_bytes(self) -> int:
        """How many bytes fit into the segment that is active now."""
        active = self._active
        return 0 if active is None else self._settings.segment_max_bytes - active.end_position

    @property
    def checkpoint_is_due(self) -> bool:
        """Whether enough was written since the last one."""
        return self._bytes_since_checkpoint >= self._settings.checkpoint_bytes

    def checkpoint_if_due(self) -> None:
        """Let the manifest vouch for what was synced, if enough has come together.

        No append fails by it: those before are durable already, and if the disk refuses, the log stops and
        says so to the next one, or this is tried again.
        """
        with self._mutex:
            if self.checkpoint_is_due and self._stopped is None:
                with suppress(DiskError):
                    self.checkpoint()

    def checkpoint(self) -> None:
        """Sync, and let the manifest vouch for all of it: recovery will begin behind it."""
        with self._mutex:
            self.sync()
            with self._stopping():
                self._writable().write_indexes()
                self._replace_manifest(next_offset=self._synced_offset)
                self._bytes_since_checkpoint = 0

    def roll(self) -> None:
        """Seal the active segment, if it holds records, and begin a new one."""
        with self._mutex:
            active = self._writable()
            if active.is_empty:
                return
            with self._stopping():
                self._mark_unclean()
                self._roll(active)

    def resize(self, segment_max_bytes: int, segment_max_age_ms: int | None) -> None:
        """Let segments be of another size and age from now on."""
        with self._mutex:
            settings = replace(
                self._settings, segment_max_bytes=segment_max_bytes, segment_max_age_ms=segment_max_age_ms
            )
            self._settings = settings
            if self._active is not None:
                self._active.settings = settings

    def roll_if_due(self) -> None:
        """Seal the active segment if it has reached its age."""
        with self._mutex:
            if self._writable().is_too_old(self._clock()):
                self.roll()

    def _active_for(self, active: ActiveSegment, record: NewRecord, now_ms: int) -> ActiveSegment:
        is_full = not active.has_room(record.size, record.span)
        if is_full or active.is_too_old(now_ms) or self._sealed is not None:
            return self._roll(active)
        return active

    def _roll(self, active: ActiveSegment) -> ActiveSegment:
        """Each step may fail in passing. Nothing is appended to a sealed segment: the next one's files may be
        there already, named by the offset that this one ends at."""
        sealed = self._sealed or self._seal(active)
        header = FileHeader(sealed.end_offset, self._clock())
        fresh = ActiveSegment.create(self._disk, self._layout, self._settings, header)
        try:
            self._replace_manifest(
                active_base_offset=fresh.base_offset,
                next_offset=fresh.base_offset,
                segments=(*self._manifest.segments, sealed),
            )
        except BaseException:
            fresh.close()
            raise
        self._active, self._sealed = fresh, None
        self._synced_position = fresh.end_position
        self._bytes_since_checkpoint = 0
        self._view = self._view._replace(
            segments=self._manifest.segments,
            active_base_offset=fresh.base_offset,
            active_indexes=fresh.indexes,
            end_offset=fresh.base_offset,
            end_position=LOG_HEADER_BYTES,
        )
        return fresh

    def _seal(self, active: ActiveSegment) -> SealedSegment:
        self._settle(active)
        with self._only_sync:  # nobody may be syncing what is closed
            self._sealed = active.seal()
        return self._sealed

    def _settle(self, active: ActiveSegment) -> None:
        """Leave the segment as it would be found after a clean stop, durably."""
        active.cut_ahead()
        with self._only_sync:
            active.sync()
        self._synced_offset, self._synced_position = active.next_offset, active.end_position
        active.write_indexes()

    def _mark_unclean(self) -> None:
        """The manifest must not claim a clean stop once there may be records that it does not know."""
        if self._manifest.clean_shutdown:
            self._replace_manifest()

    def _replace_manifest(self, *, clean_shutdown: bool = False, **changes: object) -> None:
        settings = self._settings
        manifest: Manifest = self._manifest.but(
            segment_max_bytes=settings.segment_max_bytes,
            index_stride_bytes=settings.index_stride_bytes,
            max_open_segments=settings.max_open_segments,
            clean_shutdown=clean_shutdown,
            **changes,
        )
        write_manifest(self._disk, self._layout, manifest)
        self._manifest = manifest

    # --- failing ------------------------------------------------------------------------------------

    def _writable(self) -> ActiveSegment:
        if isinstance(self._stopped, LogClosed):
            raise LogClosed("the log was closed", path=self.path)
        if self._stopped is not None:
            raise LogStopped(
                f"takes no writes since this failed: {self._stopped}",
                path=self.path,
                hint="open the log again to recover",
            )
        if os.getpid() != self._pid:
            raise LogStopped(
                f"opened by process {self._pid}, which forked this one",
                path=self.path,
                hint="open a log in the process that writes it",
            )
        if self._active is None:
            raise LogStopped("opened for reading only" + self._damage_text(), path=self.path)
        return self._active

    def _damage_text(self) -> str:
        if not self.damage:
            return ""
        return f", because it is damaged ({'; '.join(map(str, self.damage))}); see 'barbicel log repair'"

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """A failure in here stops the log, and what was not answered is taken back if that is possible.

        It is never written or synced again here: after a failed fsync the page cache cannot be trusted. A
        failure that passes does not stop it, if nothing was appended before and what it tore is cut off.
        """
        next_offset = self._writable().next_offset
        try:
            yield
        except BaseException as error:
            self._stop_unless_it_passes(error, next_offset)
            raise

    def _stop_unless_it_passes(self, error: BaseException, next_offset: int) -> None:
        if not (is_passing(error) and self._goes_on(next_offset)):
            self._stop(error)

    def _goes_on(self, next_offset: int) -> bool:
        active = self._active
        if active is None or active.next_offset != next_offset:
            return False
        try:
            active.take_back()
        except DiskError:
            return False
        return self._stopped is None

    def _stop(self, error: BaseException) -> None:
        if self._stopped is not None:
            return
        self._stopped = error if isinstance(error, Exception) else RuntimeError(repr(error))
        view, active = self._view, self._active
        if active is not None and active.base_offset == view.active_base_offset:
            with suppress(DiskError):
                active.cut_back(view.end_position)
