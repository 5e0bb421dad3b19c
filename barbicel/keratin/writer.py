"""The writer: one thread that commits the appends of many callers, to many logs, in groups.

Nothing waits for a full group: the requests that arrive while one group is written and synced are the
next group, so the disk's own pace sets the size. A turn is

    take what waits → one write a log → answer AFTER_WRITE → one sync a log → answer AFTER_FSYNC

and every answer of a kind leaves in one call of `deliver`. The queue is bounded: a caller who finds it
full waits, or is told so.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

from barbicel.errors import BarbicelError, LogClosed, QueueFull
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
    # What one turn takes.
    max_batch_bytes: int = 8 << 20
    max_batch_records: int = 10_000
    # How long a turn waits for more once it has something. 0 lets the disk set the pace.
    linger_ms: int = 0
    # Records that were answered AFTER_WRITE are synced within this time.
    flush_ms: int = 100

    def __post_init__(self) -> None:
        for name in ("max_queue_bytes", "max_queue_requests", "max_batch_bytes", "max_batch_records"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, allowed is 1 or more")
        for name in ("linger_ms", "flush_ms"):
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
        except Exception:
            _log.exception("the callback of an append raised")


class Writer:
    """Start it with `with Writer() as writer:` or end it with `close`. Logs are opened and closed by their
    owner; an append to one that was closed fails alone."""

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
        self._mutex = threading.Lock()
        self._not_empty = threading.Condition(self._mutex)
        self._not_full = threading.Condition(self._mutex)
        self._queue: deque[_Request] = deque()
        self._queued_bytes = 0
        self._closing = False
        # When each log that has unsynced records must be synced; touched by the thread alone.
        self._sync_due: dict[Log, float] = {}
        self._thread = threading.Thread(target=self._run, name="keratin-writer", daemon=True)
        self._thread.start()

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
    ) -> None:
        """Hand records over; `done` is called with (base_offset, count) or with the error.

        If the queue is full this waits, or raises QueueFull. A record that the log can never accept is
        refused here, so that it spoils nobody else's group.
        """
        request = _Request(log, records, log.check(records), ack, done)
        with self._mutex:
            while self._is_full(request.size) and not self._closing:
                if not wait:
                    raise QueueFull(
                        f"{len(self._queue)} appends of {self._queued_bytes} bytes are waiting",
                        path=log.path,
                    )
                self._not_full.wait()
            if self._closing:
                raise LogClosed("the writer was closed", path=log.path)
            self._queue.append(request)
            self._queued_bytes += request.size
            self._not_empty.notify()

    def _is_full(self, size: int) -> bool:
        return bool(self._queue) and (
            len(self._queue) >= self._settings.max_queue_requests
            or self._queued_bytes + size > self._settings.max_queue_bytes
        )

    def close(self) -> None:
        """Commit what waits, sync everything, end the thread."""
        with self._mutex:
            self._closing = True
            self._not_empty.notify()
            self._not_full.notify_all()
        self._thread.join()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            batch = self._take_batch()
            if batch:
                self._commit(batch)
            self._sync_what_is_due(everything=not batch and self._closing)
            if not batch and self._closing:
                return

    def _take_batch(self) -> list[_Request]:
        """Wait for requests; empty if a sync is due first, or if all is done and the writer closes."""
        with self._mutex:
            while not self._queue and not self._closing:
                if not self._not_empty.wait(self._until_sync_due()):
                    return []
            if self._settings.linger_ms and self._queue:
                self._linger()
            batch: list[_Request] = []
            size = count = 0
            while self._queue:
                request = self._queue[0]
                size += request.size
                count += len(request.records)
                if batch and (
                    size > self._settings.max_batch_bytes or count > self._settings.max_batch_records
                ):
                    break
                batch.append(self._queue.popleft())
                self._queued_bytes -= request.size
            self._not_full.notify_all()
            return batch

    def _linger(self) -> None:
        deadline = self._monotonic() + self._settings.linger_ms / 1000
        while not self._closing and not self._has_full_batch():
            left = deadline - self._monotonic()
            if left <= 0:
                return
            self._not_empty.wait(left)

    def _has_full_batch(self) -> bool:
        return (
            self._queued_bytes >= self._settings.max_batch_bytes
            or len(self._queue) >= self._settings.max_queue_requests
            or sum(len(request.records) for request in self._queue) >= self._settings.max_batch_records
        )

    def _until_sync_due(self) -> float | None:
        if not self._sync_due:
            return None
        return max(0.0, min(self._sync_due.values()) - self._monotonic())

    def _commit(self, batch: list[_Request]) -> None:
        by_log: dict[Log, list[_Request]] = {}
        for request in batch:
            by_log.setdefault(request.log, []).append(request)
        for log, requests in by_log.items():
            self._write(log, requests)
        self._answer(request for request in batch if request.ack is Ack.AFTER_WRITE)
        for log, requests in by_log.items():
            self._sync(log, [request for request in requests if request.ack is Ack.AFTER_FSYNC])
        self._answer(request for request in batch if request.ack is Ack.AFTER_FSYNC)
        for log in by_log:
            log.checkpoint_if_due()

    def _write(self, log: Log, requests: list[_Request]) -> None:
        """One write for the requests that fit the active segment together, then the next ones."""
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
        try:
            base_offset = log.write([record for request in group for record in request.records]).base_offset
            if any(request.ack is Ack.AFTER_WRITE for request in group):
                log.publish()
                self._sync_due.setdefault(log, self._monotonic() + self._settings.flush_ms / 1000)
        except Exception as error:
            for request in group:
                request.outcome = error
            return
        for request in group:
            count = sum([record.span for record in request.records])
            request.outcome = Appended(base_offset, count)
            base_offset += count

    def _sync(self, log: Log, requests: list[_Request]) -> None:
        """One sync; if it fails, so do the appends that were not durable before."""
        if not requests:
            return
        try:
            log.sync()
            self._sync_due.pop(log, None)
        except Exception as error:
            for request in requests:
                if isinstance(request.outcome, Appended) and not log.is_synced(request.outcome):
                    request.outcome = error

    def _answer(self, requests: Iterable[_Request]) -> None:
        answers = [(request.done, request.outcome) for request in requests if request.outcome is not None]
        if answers:
            try:
                self._deliver(answers)
            except Exception:  # the thread serves others too
                _log.exception("answers could not be delivered")

    def _sync_what_is_due(self, everything: bool) -> None:
        if not self._sync_due:
            return
        now = self._monotonic()
        for log in [log for log, due in self._sync_due.items() if everything or due <= now]:
            del self._sync_due[log]
            # Nobody waits for this one: a log that fails stops, and says so to the next append.
            with suppress(BarbicelError):
                log.sync()


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
