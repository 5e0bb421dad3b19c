"""A log: records in, by offset and by time out again, across crashes.

One object owns a log's directory (its lock says so). Everything that changes it is serialised by one
mutex; readers take the current View and never wait. What is durable when, in the order it happens:

- append: written, synced (if asked for), shown to readers, answered; one that waits for its sync is shown
  earlier only if a later one is answered before its own;
- roll: the old segment cut to its length and synced, the new one created, the manifest replaced;
- checkpoint: records synced, indexes replaced, the manifest replaced, which vouches for them;
- trim: the manifest replaced, then the files unlinked.

What a failure does is in appendable.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial

from barbicel.clock import Clock, wall_clock_ms
from barbicel.closing import Closing
from barbicel.codecs.keratin_format import SealedSegment
from barbicel.disk import Disk, Lock, RealDisk
from barbicel.errors import DiskError, LogClosed, LogStopped, NotALog, OffsetOutOfRange
from barbicel.keratin.appendable import AppendableLog, active_indexes
from barbicel.keratin.clean_close import has_every_file
from barbicel.keratin.handles import HandleBudget
from barbicel.keratin.layout import Layout
from barbicel.keratin.passing import is_full, is_passing
from barbicel.keratin.plan import RecoveryPlan
from barbicel.keratin.readable import view_of
from barbicel.keratin.recovery import plan_beside_writer, plan_recovery
from barbicel.keratin.repair import apply_plan, clear_temporaries, cut_ahead, manifest_of
from barbicel.keratin.retention import (
    RetentionRules,
    count_below,
    count_expired,
    count_over_size,
)
from barbicel.keratin.segment import ActiveSegment
from barbicel.keratin.settings import LogSettings

__all__ = ["Log"]


class Log(AppendableLog, Closing):
    """Use `Log.open`. Every method may be called from any thread."""

    @classmethod
    def open(
        cls,
        path: str,
        *,
        disk: Disk | None = None,
        settings: LogSettings | None = None,
        clock: Clock = wall_clock_ms,
        read_only: bool = False,
        handles: HandleBudget | None = None,
        first_offset: int = 0,
    ) -> Log:
        """Open a log, creating it if there is none, and recover what a crash left behind.

        If offsets are lost to damage nothing is changed: the log opens for reading what is sound, `damage`
        says what is not, and appends are refused until a repair. With `read_only` nothing is changed in
        any case and no lock is taken. A log that is created begins at `first_offset`. Logs that share
        `handles` keep no more files open for reading together than those allow, but for one each. Raises
        LogLocked, DiskError, UnknownVersion, NotALog.
        """
        disk = disk or RealDisk()
        # Files are opened as long as the log is, wherever the process has gone by then.
        path = disk.resolve(path)
        layout = Layout(path)
        lock = None
        if not read_only:
            disk.make_directory(path)
            lock = disk.lock(layout.lock)
        try:
            if read_only:
                found = plan_beside_writer(disk, layout, settings)
            else:
                found = plan_recovery(disk, layout, settings, quick=True)
            if read_only and found.is_fresh:
                raise NotALog("there is no log in this directory", path=path)
            may_change = lock is not None and not found.damage
            recovered = _recover(disk, found, clock(), first_offset) if may_change else found
            return cls(disk, found, recovered, clock, lock, handles)
        except BaseException:
            if lock is not None:
                lock.release()
            raise

    def begin_writing(self, before: Callable[[], None] = lambda: None) -> None:
        """Recover a log that was opened for reading only, and take appends from then on.

        `before` is called when all is recovered and nothing is appended yet. If it raises, or the recovery
        does, the log can be read as before and this may be tried again. Raises what `open` does, LogClosed,
        and LogStopped if the files have changed since they were read. One thread at a time; readers go on.
        """
        if not self.is_read_only:
            return
        with self._mutex:
            if self._stopped is not None:  # its directory may be gone, or another log's by now
                raise self._stopped
        # Without the mutex, for whoever appends would wait for it: as long as this is read-only, whatever
        # would change it is refused.
        lock = self._disk.lock(self._layout.lock)
        try:
            found = plan_recovery(self._disk, self._layout, self._settings, quick=True)
            self._check_as_it_was_read(found)
            recovered = _recover(self._disk, found, self._clock())
            before()
            with self._mutex:
                if self._stopped is not None:
                    raise self._stopped
                self._take_over(found, recovered, lock)
        except BaseException:
            lock.release()
            raise

    def _check_as_it_was_read(self, found: RecoveryPlan) -> None:
        if found.damage:
            damage = "; ".join(map(str, found.damage))
            raise LogStopped(f"damaged ({damage}); see 'barbicel log repair'", path=self.path)
        if found.is_fresh or (found.log_start_offset, found.next_offset) != (
            self.start_offset,
            self.end_offset,
        ):
            raise LogStopped(
                f"it was read from {self.start_offset} to {self.end_offset} and is another now",
                path=self.path,
                hint="open the log again",
            )

    def _take_over(self, found: RecoveryPlan, recovered: RecoveryPlan, lock: Lock) -> None:
        last, indexes = recovered.segments[-1], active_indexes(recovered)
        active = self._open_active(last, indexes)
        # Recovery may have replaced indexes.
        for stretch in self._view.stretches():
            self._handles.drop(stretch.base_offset)
            self._times.forget(stretch.base_offset)
        self.found = found
        self._view = view_of(recovered, indexes)
        self._manifest = recovered.manifest or manifest_of(recovered, self._clock())
        self._synced_offset, self._synced_position = recovered.next_offset, last.end_position
        # Of a producer whose batch was refused before this, those that follow it must be refused too.
        self.failures += 1
        self._active, self._lock = active, lock

    # --- trimming -----------------------------------------------------------------------------------

    def truncate_before(self, offset: int) -> int:
        """Give up everything below the offset; returns the new start of the log.

        Segments go as a whole; what is left of one that the offset lies in can no longer be read.
        """
        with self._mutex:
            view = self._view
            if offset > view.end_offset:
                raise OffsetOutOfRange(offset, view.start_offset, view.end_offset, self.path)
            if offset <= view.start_offset:
                return view.start_offset
            is_all = offset == view.end_offset
            # So that the active segment's bytes can go too.
            is_rolled = is_all and self._roll_if_possible()
            if not is_rolled and offset > self._synced_offset:
                self.sync()
            dropped = self._trim(offset, count_below(self._view.segments, offset))
        self._unlink(dropped)
        if is_all and not is_rolled:
            self._drop_rest(offset)
        return offset

    def _drop_rest(self, offset: int) -> None:
        """Let the segment go that could not be rolled before, if there is room for that now."""
        with self._mutex:
            if not self._roll_if_possible():
                return
            dropped = self._trim(self._view.start_offset, count_below(self._view.segments, offset))
        self._unlink(dropped)

    def _roll_if_possible(self) -> bool:
        """A disk too full for a new segment must not keep anybody from deleting old ones."""
        try:
            self.roll()
        except DiskError as error:
            if not is_passing(error):
                raise
            return False
        return True

    def retain(self, rules: RetentionRules, before_drop: Callable[[int], None] | None = None) -> int:
        """Drop the segments that the rules no longer keep; returns the new start of the log.

        `before_drop` is called with that start before anything goes; if it raises, all of it stays.
        """
        with self._mutex:
            count = 0
            if rules.max_age_ms is not None:
                oldest_kept_ms = self._clock() - rules.max_age_ms
                if self._active_is_older(oldest_kept_ms):
                    self._roll_if_possible()
                count = count_expired(self._view.segments, oldest_kept_ms, self.max_timestamp_ms)
            view = self._view
            if rules.max_bytes is not None:
                count = max(count, count_over_size(view.segments, view.end_position, rules.max_bytes))
            if not count:
                return view.start_offset
            start = max(view.start_offset, view.segments[count - 1].end_offset)
            if before_drop is not None:
                before_drop(start)
            dropped = self._trim(start, count)
        self._unlink(dropped)
        return start

    def _active_is_older(self, oldest_kept_ms: int) -> bool:
        active = self._writable()
        return not active.is_empty and active.indexes.max_timestamp_ms < oldest_kept_ms

    def _trim(self, start_offset: int, count: int) -> tuple[SealedSegment, ...]:
        self._writable()
        dropped, kept = self._manifest.segments[:count], self._manifest.segments[count:]
        # The log cannot start beyond what is vouched for; all below the start was synced by the caller.
        next_offset = max(self._manifest.next_offset, start_offset)
        write = partial(
            self._replace_manifest, log_start_offset=start_offset, segments=kept, next_offset=next_offset
        )
        with self._stopping():
            try:
                write()
            except DiskError as error:
                if not is_full(error):
                    raise
                self._make_room(dropped)
                write()
        self._view = self._view._replace(segments=kept, start_offset=start_offset)
        return dropped

    def _make_room(self, dropped: Sequence[SealedSegment]) -> None:
        """For the manifest that lets the segments go, by what nobody misses if that is not written."""
        self._writable().cut_ahead()
        for segment in dropped:
            self._unlink_all(self._layout.all_of(segment.base_offset)[1:])

    def _unlink_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            if self._disk.exists(path):
                self._disk.unlink(path)

    def _unlink(self, dropped: Sequence[SealedSegment]) -> None:
        """The oldest first, so that a crash leaves no gap. The manifest has forgotten them already."""
        for segment in dropped:
            base = segment.base_offset
            self._unlink_all(self._layout.all_of(base))
            # Now that nobody can open it any more.
            self._handles.drop(base)
            self._times.forget(base)
        if dropped:
            self._disk.sync_directory(self._layout.segments)

    # --- ending -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Make everything durable, say so in the manifest and let go of the directory."""
        if os.getpid() != self._pid:
            return  # all of it is the parent's
        with self._mutex:
            if isinstance(self._stopped, LogClosed):
                return
            # Each step is taken whatever became of those before it: the lock must go.
            with ExitStack() as steps:
                if self._lock is not None:
                    steps.callback(self._lock.release)
                if self._active is not None:
                    steps.callback(self._close_active, self._active)
                steps.callback(self._handles.close)
                steps.callback(self._refuse_everything)
                if self._active is not None:
                    self._end(self._active)

    def _refuse_everything(self) -> None:
        self._stopped = LogClosed("the log was closed", path=self.path)

    def _close_active(self, active: ActiveSegment) -> None:
        with self._only_sync.alone():
            active.close()

    def _end(self, active: ActiveSegment) -> None:
        """On return all records are durable. That the stop was clean is said if there is room to say it."""
        if self._stopped is not None or self._manifest.clean_shutdown or self._sealed is not None:
            return
        try:
            self._settle(active)
            # Whoever opens it next relies on that word.
            is_whole = has_every_file(self._disk, self._layout, self._manifest)
            self._replace_manifest(clean_shutdown=is_whole, next_offset=active.next_offset)
        except DiskError as error:
            if not is_passing(error) or self._synced_offset < active.next_offset:
                raise


def _recover(disk: Disk, found: RecoveryPlan, now_ms: int, first_offset: int = 0) -> RecoveryPlan:
    """Carry a plan out. A disk that is too full for that gets back first what was allocated ahead."""
    try:
        return _apply(disk, found, now_ms, first_offset)
    except DiskError as error:
        if not is_full(error) or not cut_ahead(disk, found):
            raise
    # What was carried out of the first plan is done.
    again = plan_recovery(disk, found.layout, found.settings, quick=True)
    return _apply(disk, again, now_ms, first_offset)


def _apply(disk: Disk, plan: RecoveryPlan, now_ms: int, first_offset: int) -> RecoveryPlan:
    try:
        return apply_plan(disk, plan, now_ms, first_offset=first_offset)
    except DiskError as error:
        if is_full(error):
            with suppress(DiskError):
                clear_temporaries(disk, plan.layout)
        raise
