"""The writer: it commits the appends of many callers, to many logs, in groups.

Nothing waits for a full group: the requests that arrive while one group is synced are the next group, so
the disk's own pace sets the size. A turn is

    take what waits → one write a log → answer AFTER_WRITE → one sync a log → answer AFTER_FSYNC

and every answer of a kind leaves in one call of `deliver`. The sync of a large group is left to a second
thread, before anybody is answered, so that the next one can be checked and copied beside it. The queue is
bounded: a caller who finds it full waits, or is told so.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from barbicel.closing import Closing
from barbicel.errors import BarbicelError, EarlierAppendFailed, LogClosed, QueueFull
from barbicel.keratin.bell import Bell
from barbicel.keratin.log import Log
from barbicel.keratin.records import Ack, Appended, NewRecord

__all__ = ["Answer", "Done", "Writer", "WriterSettings"]

_log = logging.getLogger(__name__)

Done = Callable[[Appended | Exception], None]
# A callback and what it is to be called with.
Answer = tuple[Done, Appended | Exception]


@dataclass(frozen=True, slots=True)
class WriterSettings:
    # What may wait. A single larger request is taken when nothing else waits.
    max_queue_bytes: int = 64 << 20
    max_queue_requests: int = 10_000
    # What one turn takes. Half as much, or twice, was measured to be slower.
    max_batch_bytes: int = 4 << 20
    max_batch_records: int = 10_000
    # From this size on a group is written while the one before is still being synced.
    overlap_bytes: int = 128 << 10
    # How long a turn waits for more once it has something. 0 lets the disk set the pace.
    linger_ms: int = 0
    # Records that were answered AFTER_WRITE are synced within this time.
    flush_ms: int = 100

    def __post_init__(self) -> None:
        for name in ("max_queue_bytes", "max_queue_requests", "max_batch_bytes", "max_batch_records"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, allowed is 1 or more")
        for name in ("linger_ms", "flush_ms", "overlap_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, allowed is 0 or more")


@dataclass(slots=True)
class _Request:
    log: Log
    records: Sequence[NewRecord]
    size: int
    ack: Ack
    done: Done
    outcome: Appended | Exception | None = None


def answer_here(answers: Sequence[Answer]) -> None:
    """Call every callback in the thread that delivers; one that raises keeps nobody from their answer."""
    for done, outcome in answers:
        try:
            done(outcome)
        except BaseException:  # SystemExit too: it would end a thread that others wait for
            _log.exception("the callback of an append raised")


class Writer(Closing):
    """Start it with `with Writer() as writer:` or end it with `close`. Logs are opened and closed by their
    owner; an append to one that was closed fails alone. A callback must not wait for the writer."""

    def __init__(
        self,
        settings: WriterSettings | None = None,
        *,
        deliver: Callable[[Sequence[Answer]], None] = answer_here,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings or WriterSettings()
        self._deliver = deliver
        self._monotonic = monotonic
        # A process that was forked has none of the threads.
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._not_full = threading.Condition(self._mutex)
        self._writer_wakes = Bell(self._mutex)
        self._syncer_wakes = threading.Condition(self._mutex)
        self._queue: deque[_Request] = deque()
        self._queued_bytes = 0
        # Callers who wait for room.
        self._kept_waiting = 0
        self._closing = False
        self._writer_ended = False
        # The way of a large turn: left to the syncer, taken by it, back for its answers.
        self._left: _Turn | None = None
        self._syncer_is_busy = False
        self._synced: list[_Turn] = []
        # When each log that has unsynced records must be synced.
        self._sync_due: dict[Log, float] = {}
        self._threads = [
            threading.Thread(target=self._write_turns, name="keratin-writer", daemon=True),
            threading.Thread(target=self._sync_turns, name="keratin-syncer", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def append(self, log: Log, records: Sequence[NewRecord], ack: Ack = Ack.AFTER_FSYNC) -> Appended:
        """Append and wait: on return the records are as safe as `ack` says."""
        waiter = _Waiter()
        self.submit(log, records, waiter.done, ack)
        return waiter.wait()

    def submit(
        self,
        log: Log,
        records: Sequence[NewRecord],
        done: Done,
        ack: Ack = Ack.AFTER_FSYNC,
        *,
        wait: bool = True,
        wake: bool = True,
    ) -> None:
        """Hand records over; `done` is called with (base_offset, count) or with the error.

        If the queue is full this waits, or raises QueueFull. A record that the log can never accept is
        refused here, so that it spoils nobody else's group. Whoever has more to hand over wakes the writer
        when that is done, by `wake`.
        """
        if os.getpid() != self._pid:
            raise LogClosed(
                f"the writer belongs to process {self._pid}, which forked this one", path=log.path
            )
        request = _Request(log, records, log.check(records), ack, done)
        with self._mutex:
            while self._is_full(request.size) and not self._closing:
                self._writer_wakes.notify()  # it may not have been told yet of what fills the queue
                if not wait:
                    raise QueueFull(
                        f"{len(self._queue)} appends of {self._queued_bytes} bytes are waiting",
                        path=log.path,
                    )
                self._kept_waiting += 1
                self._not_full.wait()
                self._kept_waiting -= 1
            if self._closing:
                raise LogClosed("the writer was closed", path=log.path)
            self._queue.append(request)
            self._queued_bytes += request.size
            # One turn takes no more, so there is nothing to wait for.
            if wake or self._queued_bytes >= self._settings.max_batch_bytes:
                self._writer_wakes.notify()

    def wake(self) -> None:
        """Write what was handed over."""
        with self._mutex:
            self._writer_wakes.notify()

    def _is_full(self, size: int) -> bool:
        return bool(self._queue) and (
            len(self._queue) >= self._settings.max_queue_requests
            or self._queued_bytes + size > self._settings.max_queue_bytes
        )

    def close(self) -> None:
        """Commit what waits, sync everything, end the threads."""
        if os.getpid() != self._pid:
            return
        with self._mutex:
            self._closing = True
            self._writer_wakes.notify()
            self._not_full.notify_all()
        for thread in self._threads:
            thread.join()

    # --- the writer's thread ------------------------------------------------------------------------

    def _write_turns(self) -> None:
        while True:
            synced, turn = self._next()
            for done in synced:
                self._answer(done, Ack.AFTER_FSYNC)
            if turn is not None:
                self._write_turn(turn)
            elif not synced:
                return

    def _next(self) -> tuple[list[_Turn], _Turn | None]:
        """Wait for turns to answer and requests to write; neither when all is done."""
        with self._mutex:
            while not (may_take := self._may_take()) and not self._synced:
                if self._closing and not self._queue and not self._syncer_is_busy:
                    self._writer_ended = True
                    self._syncer_wakes.notify()
                    return [], None
                self._writer_wakes.wait()
            synced, self._synced = self._synced, []
            if not may_take:
                return synced, None
            if self._settings.linger_ms and not synced:
                self._linger()
            return synced, _Turn(self._take_batch())

    def _may_take(self) -> bool:
        """Beside a sync only what is large enough, and only one turn ahead."""
        if not self._queue:
            return False
        is_large = self._queued_bytes >= self._settings.overlap_bytes
        return not self._syncer_is_busy or (is_large and self._left is None)

    def _take_batch(self) -> list[_Request]:
        batch: list[_Request] = []
        size = count = 0
        while self._queue:
            request = self._queue[0]
            size += request.size
            count += len(request.records)
            if batch and (size > self._settings.max_batch_bytes or count > self._settings.max_batch_records):
                break
            batch.append(self._queue.popleft())
            self._queued_bytes -= request.size
        if self._kept_waiting:
            self._not_full.notify_all()
        return batch

    def _write_turn(self, turn: _Turn) -> None:
        for log, requests in turn.by_log.items():
            self._write(log, requests)
        # Answers wake whoever waits for them, and then this thread may not be next: all else comes before.
        is_left = self._leave_to_syncer(turn)
        checkpoint_is_due = turn.checkpoint_is_due
        if turn.unsynced:
            self._answer(turn, Ack.AFTER_WRITE)
        if is_left:
            return
        if turn.synced:
            self._sync_turn(turn)
            self._answer(turn, Ack.AFTER_FSYNC)
        if checkpoint_is_due:
            turn.checkpoint()

    def _leave_to_syncer(self, turn: _Turn) -> bool:
        """The whole turn, if it is large; else only what nobody waits for, which is synced in time."""
        with self._mutex:
            if turn.unsynced:
                due = self._monotonic() + self._settings.flush_ms / 1000
                # The syncer waits for the first that is due; what comes later need not wake it.
                if not self._sync_due:
                    self._syncer_wakes.notify()
                for log in turn.unsynced:
                    self._sync_due.setdefault(log, due)
            if self._syncer_is_busy or turn.size >= self._settings.overlap_bytes:
                self._left, self._syncer_is_busy = turn, True
                self._syncer_wakes.notify()
                return True
        return False

    def _linger(self) -> None:
        deadline = self._monotonic() + self._settings.linger_ms / 1000
        while not self._closing and not self._has_full_batch():
            left = deadline - self._monotonic()
            if left <= 0:
                return
            self._writer_wakes.wait(left)

    def _has_full_batch(self) -> bool:
        return (
            self._queued_bytes >= self._settings.max_batch_bytes
            or len(self._queue) >= self._settings.max_queue_requests
            or sum(len(request.records) for request in self._queue) >= self._settings.max_batch_records
        )

    def _write(self, log: Log, requests: list[_Request]) -> None:
        """One write for the requests that fit the active segment together, then the next ones."""
        if len(requests) == 1:
            self._write_group(log, requests)
            return
        first = 0
        while first < len(requests):
            room = log.room_bytes
            last = first + 1
            size = requests[first].size
            while last < len(requests) and size + requests[last].size <= room:
                size += requests[last].size
                last += 1
            self._write_group(log, requests[first:last])
            first = last

    def _write_group(self, log: Log, group: list[_Request]) -> None:
        if log.failures:
            group = _without_followers(log, group)
        records: list[NewRecord] = []
        publish = False
        for request in group:
            records += request.records
            publish |= request.ack is Ack.AFTER_WRITE
        try:
            appended = log.write(records, publish=publish)
        except Exception as error:
            for request in group:
                request.outcome = error
            return
        if len(group) == 1:
            group[0].outcome = appended
            return
        base_offset = appended.base_offset
        for request in group:
            count = sum([record.span for record in request.records])
            request.outcome = Appended(base_offset, count)
            base_offset += count

    # --- the syncer's thread ------------------------------------------------------------------------

    def _sync_turns(self) -> None:
        while (turn := self._next_left()) is not None:
            self._sync_turn(turn)
            with self._mutex:
                self._synced.append(turn)
                self._syncer_is_busy = self._left is not None
                self._writer_wakes.notify()
            turn.checkpoint()
            self._sync_what_is_due()
        self._sync_what_is_due(everything=True)

    def _next_left(self) -> _Turn | None:
        """The next turn, one of nothing if another sync is due first; None when all is done."""
        with self._mutex:
            while self._left is None:
                if self._writer_ended:
                    return None
                due = min(self._sync_due.values(), default=None)
                left = None if due is None else max(0.0, due - self._monotonic())
                if left == 0.0:
                    return _Turn([])
                self._syncer_wakes.wait(left)
            turn, self._left = self._left, None
            self._writer_wakes.notify()
            return turn

    def _sync_turn(self, turn: _Turn) -> None:
        """One sync a log; if it fails, so do the appends that were not durable before."""
        for log in turn.synced:
            # Before the sync: what is written beside it is not covered by it and must be due again.
            with self._mutex:
                self._sync_due.pop(log, None)
            try:
                log.sync()
            except Exception as error:
                for request in turn.by_log[log]:
                    outcome = request.outcome
                    # Whoever waits for no sync has what it asked for, and may not have been told so yet.
                    if request.ack is Ack.AFTER_WRITE or not isinstance(outcome, Appended):
                        continue
                    if not log.is_synced(outcome):
                        request.outcome = error

    def _sync_what_is_due(self, *, everything: bool = False) -> None:
        with self._mutex:
            now = self._monotonic()
            logs = [log for log, due in self._sync_due.items() if everything or due <= now]
            for log in logs:
                del self._sync_due[log]
        for log in logs:
            # Nobody waits for this one: a log that fails stops, and says so to the next append.
            with suppress(BarbicelError):
                log.sync()

    # --- both ---------------------------------------------------------------------------------------

    def _answer(self, turn: _Turn, ack: Ack) -> None:
        answers = [
            (request.done, request.outcome)
            for request in turn.batch
            if request.ack is ack and request.outcome is not None
        ]
        if answers:
            try:
                self._deliver(answers)
            except BaseException:  # the threads serve others too
                _log.exception("answers could not be delivered")


def _without_followers(log: Log, group: list[_Request]) -> list[_Request]:
    """Fail what must follow an append that has failed since; what is left."""
    left: list[_Request] = []
    for request in group:
        counts = [record.after_failures for record in request.records if record.after_failures is not None]
        if counts and min(counts) < log.failures:
            request.outcome = EarlierAppendFailed("an append that it must follow failed", path=log.path)
        else:
            left.append(request)
    return left


class _Turn:
    """The requests that are committed together."""

    __slots__ = ("batch", "by_log", "size", "synced", "unsynced")

    def __init__(self, batch: list[_Request]) -> None:
        self.batch = batch
        self.size = 0
        # The logs of requests that are answered when they are synced, and when they are written.
        self.synced: set[Log] = set()
        self.unsynced: set[Log] = set()
        self.by_log: dict[Log, list[_Request]] = {}
        for request in batch:
            self.size += request.size
            (self.synced if request.ack is Ack.AFTER_FSYNC else self.unsynced).add(request.log)
            self.by_log.setdefault(request.log, []).append(request)

    @property
    def checkpoint_is_due(self) -> bool:
        return any(log.checkpoint_is_due for log in self.by_log)

    def checkpoint(self) -> None:
        for log in self.by_log:
            log.checkpoint_if_due()


class _Waiter:
    """Blocks one thread until its append is answered."""

    __slots__ = ("_lock", "_outcome")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._outcome: Appended | Exception | None = None

    def done(self, outcome: Appended | Exception) -> None:
        self._outcome = outcome
        self._lock.release()

    def wait(self) -> Appended:
        self._lock.acquire()
        if isinstance(self._outcome, Appended):
            return self._outcome
        assert self._outcome is not None
        raise self._outcome
