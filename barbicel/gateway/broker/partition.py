"""One partition: its log, its tail in memory, its producers, and those who wait for its next record.

Reactor thread only, but for `stored` and whatever takes the log itself, which wait for the disk. The
`end_offset` here moves when the log's writer has answered: below it everything is as durable as the
setting says, and is in the tail or on the disk.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from barbicel.clock import Clock
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.record_batch import (
    NO_TIMESTAMP,
    BadBatch,
    Batch,
    BatchHeader,
    decode_header,
    stamp,
    stamp_append_time,
)
from barbicel.codecs.kafka.wire import new_tuple
from barbicel.codecs.producer_snapshot import ProducerSnapshot
from barbicel.codecs.topic_file import Topic
from barbicel.errors import (
    BarbicelError,
    CorruptLog,
    CorruptObject,
    DiskError,
    EarlierAppendFailed,
    LogClosed,
    RecordTooLarge,
    StoreError,
)
from barbicel.gateway.broker.batch_opening import has_to_be_opened, is_quickly_opened, open_batch
from barbicel.gateway.broker.producer_file import ProducerFile
from barbicel.gateway.broker.producers import (
    New,
    ProducerStates,
    Refused,
    Repeated,
    RepeatedInFlight,
    Submission,
)
from barbicel.gateway.broker.stored import Remote, Stored
from barbicel.gateway.broker.tail import Tail, TailBudget
from barbicel.gateway.broker.topic_settings import TopicValues
from barbicel.gateway.log_pace import LogPace
from barbicel.keratin import Appended, Log, NewRecord
from barbicel.keratin.passing import is_full, is_passing

__all__ = ["LEADER_EPOCH", "Appends", "DamageFound", "Partition", "Produced", "Waiter"]

_log = logging.getLogger(__name__)

# There is one broker, and it has always led.
LEADER_EPOCH = 0
# The producers' snapshot is written anew after so many appended bytes: a restart reads no more than that.
SNAPSHOT_BYTES = 64 << 20


class Produced(NamedTuple):
    """What became of a batch."""

    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = NO_TIMESTAMP
    message: str | None = None


ProduceDone: TypeAlias = Callable[[Produced], None]


class Waiter(Protocol):
    """Somebody who waits for records, in one partition or several."""

    def wake(self) -> None: ...


class Appends(Protocol):
    """Where appends go: they are answered in the reactor's thread, in the order of the log."""

    def __call__(self, log: Log, record: NewRecord, done: Callable[[Appended | Exception], None]) -> None: ...

    def work_long(self, function: Callable[[], Batch], /) -> Deferred[Batch]:
        """Call it in a thread."""


@dataclass(slots=True)
class DamageFound:
    log: int = 0
    store: int = 0
    produced: int = 0


class _Unopened(NamedTuple):
    """A batch that has to be opened, or that is behind one."""

    batch: Batch
    appends: Appends
    done: ProduceDone


class Partition:
    """Made by Topics, which recovers the log."""

    def __init__(
        self,
        topic: Topic,
        number: int,
        log: Log,
        producers: ProducerStates,
        producer_file: ProducerFile,
        values: TopicValues,
        budget: TailBudget,
        tail_bytes: int,
        clock: Clock,
        touched: set[Partition],
        tiered: Remote | None = None,
    ) -> None:
        self.topic = topic
        self.number = number
        self.log = log
        # The log, and what is in an object store.
        self.stored = Stored(log, tiered)
        self.stored.before_drop = self.keep_producers_until
        self.producers = producers
        self.producer_file = producer_file
        self.values = values
        self.end_offset = log.end_offset
        self.tail = Tail(budget, tail_bytes, log.end_offset)
        self.waiters: set[Waiter] = set()
        self.bytes_since_snapshot = 0
        # Since the start, for whoever watches.
        self.appended_bytes = self.fetched_bytes = 0
        self._tail_bytes = tail_bytes
        # Damage that was told of: the first offset of each stretch.
        self._told_damage: set[int] = set()
        # Stretches that were found damaged since the start, on the disk and in the store, and what producers
        # sent that was damaged on its way.
        self.damage_found = DamageFound()
        self._budget = budget
        self._clock = clock
        # Partitions that were appended to in this turn of the reactor, this one among them.
        self._touched = touched
        self.is_offline = False
        self._has_told_failure = False
        # Set while it waits for room to be opened for writing: called when that keeps somebody from it.
        self.ask_for_room: Callable[[], object] | None = None
        self._pace = LogPace(clock)
        # The first is being opened; the others wait for their turn.
        self._unopened: deque[_Unopened] = deque()

    @property
    def start_offset(self) -> int:
        return self.stored.start_offset

    @property
    def is_writable(self) -> bool:
        return self.log.is_writable

    # --- appending ----------------------------------------------------------------------------------

    def produce(self, batch: Batch, appends: Appends, done: ProduceDone) -> None:
        """Append a batch that was checked; `done` is called when it is durable, or with its error.

        One that has to be opened first keeps those behind it waiting: they may be the same producer's.
        """
        if self._unopened:
            self._unopened.append(_Unopened(batch, appends, done))
        elif not has_to_be_opened(batch, self.values):
            self._append(batch, appends, done)
        else:
            self._open(_Unopened(batch, appends, done))

    def _open(self, unopened: _Unopened) -> None:
        batch, appends, done = unopened
        if not is_quickly_opened(batch, self.values):
            self._unopened.append(unopened)
            self._open_first()
            return
        try:
            opened = open_batch(batch, self.values)
        except BadBatch as error:
            done(Produced(error.error_code, message=error.message))
        else:
            self._append(opened, appends, done)

    def _open_first(self) -> None:
        batch, appends, done = self._unopened[0]
        opening = appends.work_long(partial(open_batch, batch, self.values))
        opening.addCallbacks(
            self._append, self._not_opened, callbackArgs=(appends, done), errbackArgs=(done,)
        )
        opening.addErrback(self._tell_fault).addCallback(self._go_on)

    def _go_on(self, _: object) -> None:
        """Append what need not be opened, up to the next that must."""
        self._unopened.popleft()
        while self._unopened:
            batch, appends, done = self._unopened[0]
            if has_to_be_opened(batch, self.values):
                self._open_first()
                return
            self._unopened.popleft()
            self._append(batch, appends, done)

    def _not_opened(self, failure: Failure, done: ProduceDone) -> None:
        error = failure.value
        if isinstance(error, BadBatch):
            done(Produced(error.error_code, message=error.message))
            return
        self._tell_fault(failure)
        done(Produced(ErrorCode.UNKNOWN_SERVER_ERROR, message=str(error)))

    def _tell_fault(self, failure: Failure) -> None:
        """Of ours. Those behind it go on."""
        _log.error("a batch for %s-%d was not opened", self.topic.name, self.number, exc_info=failure.value)

    def _append(self, batch: Batch, appends: Appends, done: ProduceDone) -> None:
        now_ms = self._clock()
        header = batch.header
        if self.values.is_append_time:
            stamp_append_time(batch.data, now_ms)
            header = decode_header(batch.data)
        else:
            problem = self._timestamp_problem(header, now_ms)
            if problem is not None:
                done(problem)
                return
        submission = None
        if header.producer_id >= 0:
            verdict = self.producers.check(header)
            if not isinstance(verdict, New):
                self._answer_unappended(verdict, done)
                return
            submission = self.producers.begin(header, self.log.failures)
        record = NewRecord(
            batch.data,
            timestamp_ms=header.max_timestamp if header.max_timestamp >= 0 else None,
            span=header.last_offset_delta + 1,
            stamp=partial(stamp, batch.data, leader_epoch=LEADER_EPOCH),
            after_failures=None if submission is None else submission.after_failures,
        )
        appends(self.log, record, partial(self._appended, batch.data, header, submission, done))

    def _answer_unappended(self, verdict: Repeated | RepeatedInFlight | Refused, done: ProduceDone) -> None:
        if isinstance(verdict, Refused):
            done(Produced(verdict.error_code, message=verdict.message))
        elif isinstance(verdict, Repeated):
            # Kafka says the first copy's time here, whosever clock it is.
            done(Produced(ErrorCode.NONE, verdict.batch.base_offset, verdict.batch.max_timestamp))
        else:
            verdict.first.when_settled(partial(self._answer_repetition, verdict.first.header, done))

    def _timestamp_problem(self, header: BatchHeader, now_ms: int) -> Produced | None:
        values, latest_ms = self.values, header.max_timestamp
        if latest_ms == NO_TIMESTAMP:
            return None
        too_old = (
            header.base_timestamp >= 0 and now_ms - header.base_timestamp > values.timestamp_before_max_ms
        )
        if too_old or latest_ms - now_ms > values.timestamp_after_max_ms:
            message = f"a timestamp is not within {self.topic.name}'s bounds around {now_ms}"
            return Produced(ErrorCode.INVALID_TIMESTAMP, message=message)
        return None

    def _append_time(self, header: BatchHeader) -> int:
        return header.max_timestamp if self.values.is_append_time else NO_TIMESTAMP

    def _answer_repetition(self, header: BatchHeader, done: ProduceDone, base_offset: int | None) -> None:
        if base_offset is None:
            done(Produced(ErrorCode.KAFKA_STORAGE_ERROR, message="the first copy could not be stored"))
        else:
            done(Produced(ErrorCode.NONE, base_offset, self._append_time(header)))

    def _appended(
        self,
        data: memoryview,
        header: BatchHeader,
        submission: Submission | None,
        done: ProduceDone,
        outcome: Appended | Exception,
    ) -> None:
        if not isinstance(outcome, Appended):
            if submission is not None:
                self.producers.failed(submission)
            done(self._failure(outcome))
            return
        end_offset = outcome.base_offset + outcome.count
        if submission is not None:
            self.producers.done(submission, outcome.base_offset, self._clock())
        else:
            self.producers.advance(end_offset)
        self.tail.append(outcome.base_offset, end_offset, data)
        self.end_offset = end_offset
        self.bytes_since_snapshot += len(data)
        self.appended_bytes += len(data)
        self._touched.add(self)
        stored = ErrorCode.NONE, outcome.base_offset, self._append_time(header), None
        done(new_tuple(Produced, stored))

    def _failure(self, error: Exception) -> Produced:
        if isinstance(error, LogClosed):  # the topic was deleted meanwhile, or the server stops
            return Produced(ErrorCode.NOT_LEADER_OR_FOLLOWER, message=str(error))
        if isinstance(error, RecordTooLarge):
            return Produced(ErrorCode.MESSAGE_TOO_LARGE, message=str(error))
        if self.ask_for_room is not None:  # that it takes no writes was told at the start
            self.ask_for_room()
        else:
            self._tell_failure(error)
        return Produced(ErrorCode.KAFKA_STORAGE_ERROR, message=str(error))

    def _tell_failure(self, error: Exception) -> None:
        """Clients try again and again; to tell of a log that has stopped once is enough."""
        name, number = self.topic.name, self.number
        if not isinstance(error, BarbicelError):
            _log.error("an append to %s-%d failed", name, number, exc_info=error)
        elif is_passing(error) and self.is_writable:
            if self._pace.is_due():
                _log.error("an append to %s-%d failed, the next one is tried: %s", name, number, error)
        elif not self._has_told_failure and not isinstance(error, EarlierAppendFailed):
            self._has_told_failure = True
            hint = "restart the server once the cause is mended"
            _log.error("%s-%d takes no writes: %s; %s", name, number, error, hint)

    # --- reading ------------------------------------------------------------------------------------

    def is_in_tail(self, offset: int) -> bool:
        """Or else it has to come from the disk."""
        return self.tail.start_offset <= offset <= self.tail.end_offset

    def available_bytes(self, offset: int, max_bytes: int) -> int:
        """What a fetch would find in the tail, where the offset must be; soon told, however much it is."""
        return self.tail.available_bytes(offset, max_bytes)

    def read_tail(self, offset: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview]:
        """Whole batches from the offset on, which must be in the tail, one by one."""
        found = self.tail.read_batches(offset, max_bytes, at_least_one=at_least_one)
        assert found is not None
        return found

    def read_tail_pieces(self, offset: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview]:
        """The same, in as few pieces as they lie in memory."""
        found = self.tail.read(offset, max_bytes, at_least_one=at_least_one)
        assert found is not None
        return found

    # --- the rest -----------------------------------------------------------------------------------

    @property
    def snapshot_is_due(self) -> bool:
        return self.bytes_since_snapshot >= SNAPSHOT_BYTES

    def wake_all(self) -> None:
        for waiter in list(self.waiters):
            waiter.wake()

    def keep_producers(self, snapshot: ProducerSnapshot) -> None:
        """In any thread. A snapshot beyond the durable log would be of no use after a power cut."""
        with suppress(LogClosed):  # the topic was deleted meanwhile
            self.log.sync()
            self.producer_file.write(snapshot)

    def keep_producers_until(self, offset: int) -> None:
        """In any thread, before the log drops what lies below: a restart cannot learn it from there then.

        A full disk has no room for that, and deleting is what makes some. Then nothing is remembered: with an
        old snapshot a restart would take a producer's next batch for one that comes too early.
        """
        if not self.is_writable or self.producer_file.reaches(offset):
            return  # a log that takes no writes drops nothing either
        snapshot = self.producers.snapshot()
        if snapshot.end_offset < offset:
            raise BarbicelError(f"the producers up to offset {offset} are not known yet")
        try:
            self.keep_producers(snapshot)
        except DiskError as error:
            if not is_full(error):
                raise
            self.producer_file.remove()

    def report_damage(self, error: BarbicelError) -> None:
        """Log it, if it is damage and was not logged before: consumers ask again and again."""
        if isinstance(error, CorruptLog | CorruptObject):
            if error.first_offset not in self._told_damage:
                self._told_damage.add(error.first_offset)
                if isinstance(error, CorruptLog):
                    self.damage_found.log += 1
                else:
                    self.damage_found.store += 1
                _log.error("%s-%d: %s", self.topic.name, self.number, error)
        elif isinstance(error, StoreError) and self._pace.is_due():
            _log.error("%s-%d cannot be read from the store: %s", self.topic.name, self.number, error)

    def retire(self) -> None:
        """The topic is being deleted: hold nothing, and send away who waits."""
        self.tail.clear(self.end_offset)
        self.tail = Tail(self._budget, 0, self.end_offset)
        self.wake_all()

    def revive(self) -> None:
        """It could not be deleted."""
        self.tail = Tail(self._budget, self._tail_bytes, self.end_offset)
