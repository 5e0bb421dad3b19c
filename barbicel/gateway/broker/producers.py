"""The idempotent producers of one partition: which batch is new, which was stored before, which is refused.

Its invariant: what is known to be stored changes in one place, `_apply`, which replaying the log's headers
calls too. So a restart knows what was known before it. Batches on their way to the log are kept apart, and a
failed append leaves nothing behind. Only the reactor's thread may call; there is no I/O and no clock here.
docs/formats/producers.md has the rules and the snapshot.

Facts of Kafka 4: the first batch of a producer that nothing is known of may have any sequence, as its earlier
batches may have expired; UNKNOWN_PRODUCER_ID is not answered. A batch from before the last five is
OUT_OF_ORDER_SEQUENCE_NUMBER. (DUPLICATE_SEQUENCE_NUMBER is from the first brokers with idempotence. Clients
take it for success, and what those sequences were used for is forgotten: nobody can vouch for it.)
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.record_batch import CONTROL_BIT, BatchHeader
from barbicel.codecs.kafka.wire import new_tuple
from barbicel.codecs.producer_snapshot import (
    MAX_BATCHES,
    MAX_SEQUENCE,
    Producer,
    ProducerSnapshot,
    StoredBatch,
)

__all__ = [
    "DEFAULT_MAX_PRODUCERS",
    "New",
    "ProducerDescription",
    "ProducerStates",
    "Refused",
    "Repeated",
    "RepeatedInFlight",
    "Submission",
    "SubmissionState",
    "Verdict",
]

# Kafka has no limit but expiry, and a client may invent ids. So many take 14 MB at most.
DEFAULT_MAX_PRODUCERS = 10_000


class SubmissionState(Enum):
    """IN_FLIGHT is left once, for one of the other two."""

    IN_FLIGHT = "in flight"
    STORED = "stored"
    FAILED = "failed"


# Called once with the base offset, or with None if the append failed.
Listener: TypeAlias = Callable[[int | None], None]


class Submission:
    """A batch on its way to the log, and who wants to know what becomes of it."""

    __slots__ = ("_listeners", "after_failures", "base_offset", "header", "next_sequence", "state")

    def __init__(self, header: BatchHeader, next_sequence: int, after_failures: int) -> None:
        self.header = header
        self.next_sequence = next_sequence
        # The log's failures when the first of the batches was begun that it follows in flight: if one of
        # them fails, this one must.
        self.after_failures = after_failures
        self.state = SubmissionState.IN_FLIGHT
        self.base_offset: int | None = None
        self._listeners: list[Listener] = []

    def when_settled(self, listener: Listener) -> None:
        """The listener is called when the submission is done or has failed, at once if it is already."""
        if self.state is SubmissionState.IN_FLIGHT:
            self._listeners.append(listener)
        else:
            listener(self.base_offset)

    def _settle(self, state: SubmissionState, base_offset: int | None) -> None:
        self.state, self.base_offset = state, base_offset
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(base_offset)


class New(NamedTuple):
    """Append it: `begin`, and then `done` or `failed`."""


class Repeated(NamedTuple):
    """It is in the log. Kafka answers its offset, and its max timestamp as log append time."""

    batch: StoredBatch


class RepeatedInFlight(NamedTuple):
    """Its first copy is on its way: answer what becomes of that one."""

    first: Submission


class Refused(NamedTuple):
    """Nothing is stored; the message is for the log and for the answer's error_message."""

    error_code: ErrorCode
    message: str


Verdict: TypeAlias = New | Repeated | RepeatedInFlight | Refused
NEW = New()
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class ProducerDescription(NamedTuple):
    """A row of DescribeProducers. There are no transactions, hence the two -1."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int = -1
    current_txn_start_offset: int = -1


class ProducerStates:
    """What one partition knows of its producers."""

    def __init__(self, *, start_offset: int = 0, max_producers: int = DEFAULT_MAX_PRODUCERS) -> None:
        """Nothing is known of any producer; replaying begins at `start_offset`."""
        if max_producers < 1:
            raise ValueError(f"max_producers is {max_producers}, at least 1 is needed")
        self._max_producers = max_producers
        self._exact_until = start_offset
        # The one used longest ago first: a producer moves to the end whenever it is used.
        self._stored: OrderedDict[int, Producer] = OrderedDict()
        self._in_flight: dict[int, deque[Submission]] = {}

    @classmethod
    def restored(
        cls,
        snapshot: ProducerSnapshot,
        *,
        log_start: int,
        log_end: int,
        max_producers: int = DEFAULT_MAX_PRODUCERS,
    ) -> ProducerStates:
        """The snapshot's state; `learn` what the log has from `exact_until` on."""
        states = cls(start_offset=log_start, max_producers=max_producers)
        # A power cut may take the log's end and leave a snapshot, which speaks of what does not exist then.
        if snapshot.end_offset <= log_end:
            newest = snapshot.producers[-max_producers:]
            states._stored.update((producer.producer_id, producer) for producer in newest)
            states._exact_until = max(log_start, snapshot.end_offset)
        return states

    @property
    def exact_until(self) -> int:
        """All that the log has below this offset is known here."""
        return self._exact_until

    def check(self, header: BatchHeader) -> Verdict:
        """What to do with a data batch that has a producer id. Changes nothing."""
        if (place := self._place(header.producer_id)) is None:
            return NEW
        epoch, next_sequence = place
        if header.producer_epoch < epoch:
            reason = f"epoch {header.producer_epoch}, but {epoch} is known"
            return _refused(ErrorCode.INVALID_PRODUCER_EPOCH, header, reason)
        expected = next_sequence if header.producer_epoch == epoch else 0
        if header.base_sequence == expected:
            return NEW
        reason = f"sequence {header.base_sequence}, expected {expected}"
        return self._repetition(header) or _refused(OUT_OF_ORDER, header, reason)

    def begin(self, header: BatchHeader, failures: int = 0) -> Submission:
        """The batch, found New just now, goes to the log. `header` is as the log will have it, `failures` how
        many appends have failed in that."""
        if header.producer_id < 0:
            raise ValueError("a batch without a producer id is no matter of producers")
        queue = self._in_flight.get(header.producer_id)
        after_failures = queue[-1].after_failures if queue else failures
        submission = Submission(header, self._next_sequence(header), after_failures)
        self._in_flight.setdefault(header.producer_id, deque()).append(submission)
        return submission

    def done(self, submission: Submission, base_offset: int, now_ms: int) -> None:
        """The batch is durable at `base_offset`. Batches must be told of in the log's order."""
        if base_offset < self._exact_until:
            raise RuntimeError(f"offset {base_offset} is told of after {self._exact_until - 1}")
        self._leave_flight(submission, is_first=True)
        self._apply(submission.header, base_offset, now_ms)
        submission._settle(SubmissionState.STORED, base_offset)

    def failed(self, submission: Submission) -> None:
        """The batch was not appended, or nobody knows. Later ones of its producer must be told of too."""
        self._leave_flight(submission, is_first=False)
        submission._settle(SubmissionState.FAILED, None)

    def learn(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """A batch of the log, data or control, at a start. What is known already is passed over.

        The log does not say when it was written, so a producer's time to expire begins anew.
        """
        end_offset = base_offset + header.last_offset_delta + 1
        # The log's start may lie inside of a batch, which is there as a whole.
        if end_offset <= self._exact_until:
            return
        if header.producer_id >= 0 and header.producer_epoch >= 0:
            self._apply(header, base_offset, now_ms)
        self.advance(end_offset)

    def advance(self, end_offset: int) -> None:
        """All below `end_offset` was told of or has no producer, so that a restart need not look there."""
        if end_offset > self._exact_until:
            self._exact_until = end_offset

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget the producers that were silent for so long; how many they were. Costs only those."""
        silent = takewhile(lambda p: now_ms - p.last_used_ms >= expiration_ms, self._stored.values())
        expired = [producer.producer_id for producer in silent]
        for producer_id in expired:
            del self._stored[producer_id]
        return len(expired)

    def describe(self) -> Iterator[ProducerDescription]:
        for row in self._stored.values():
            yield ProducerDescription(row.producer_id, row.epoch, row.last_sequence, row.last_timestamp)

    def snapshot(self) -> ProducerSnapshot:
        """A value: another thread may encode and write it."""
        return ProducerSnapshot(self._exact_until, tuple(self._stored.values()))

    def _place(self, producer_id: int) -> tuple[int, int] | None:
        """The producer's epoch and the sequence to go on with, after all that is stored or on its way."""
        if queue := self._in_flight.get(producer_id):
            return queue[-1].header.producer_epoch, queue[-1].next_sequence
        if (stored := self._stored.get(producer_id)) is not None:
            return stored.epoch, stored.next_sequence
        return None

    def _next_sequence(self, header: BatchHeader) -> int:
        """What its producer must go on with after this batch."""
        if _has_sequence(header):
            return header.base_sequence + header.last_offset_delta + 1 & MAX_SEQUENCE
        epoch, next_sequence = self._place(header.producer_id) or (header.producer_epoch, 0)
        return next_sequence if header.producer_epoch == epoch else 0

    def _repetition(self, header: BatchHeader) -> Repeated | RepeatedInFlight | None:
        """The batch of the same epoch with exactly these sequences."""
        wanted = _sequences(header)
        for submission in self._in_flight.get(header.producer_id, ()):
            if _sequences(submission.header) == wanted:
                return RepeatedInFlight(submission)
        if (stored := self._stored.get(header.producer_id)) is not None:
            for batch in stored.batches:
                if (stored.epoch, batch.base_sequence, batch.last_sequence) == wanted:
                    return Repeated(batch)
        return None

    def _leave_flight(self, submission: Submission, *, is_first: bool) -> None:
        producer_id = submission.header.producer_id
        queue = self._in_flight.get(producer_id)
        if queue is None or submission not in queue:
            raise RuntimeError(f"a batch of producer {producer_id} is {submission.state.value} already")
        if is_first and queue[0] is not submission:
            raise RuntimeError(f"producer {producer_id} has an earlier batch in flight")
        queue.remove(submission)
        if not queue:
            del self._in_flight[producer_id]

    def _apply(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """The log has this batch. The only change of what is stored, live and in replay."""
        before = self._stored.pop(header.producer_id, None)
        batches = () if before is None or before.epoch != header.producer_epoch else before.batches
        if _has_sequence(header):
            batch = header.base_sequence, header.last_sequence, base_offset, header.max_timestamp
            batches = _extended(batches, new_tuple(StoredBatch, batch))
        producer = header.producer_id, header.producer_epoch, header.max_timestamp, now_ms, batches
        self._stored[header.producer_id] = new_tuple(Producer, producer)
        if len(self._stored) > self._max_producers:
            self._stored.popitem(last=False)
        self.advance(base_offset + header.last_offset_delta + 1)


def _has_sequence(header: BatchHeader) -> bool:
    """A transaction's marker has none: it only says which epoch its producer is in."""
    return header.base_sequence >= 0 and not header.attributes & CONTROL_BIT


def _extended(batches: tuple[StoredBatch, ...], batch: StoredBatch) -> tuple[StoredBatch, ...]:
    """The window with the batch. One that does not go on was stored after its producer was forgotten."""
    if batches and batches[-1].last_sequence + 1 & MAX_SEQUENCE != batch.base_sequence:
        return (batch,)
    return (*batches[1 - MAX_BATCHES :], batch)


def _sequences(header: BatchHeader) -> tuple[int, int, int]:
    return header.producer_epoch, header.base_sequence, header.last_sequence


def _refused(error_code: ErrorCode, header: BatchHeader, reason: str) -> Refused:
    return Refused(error_code, f"producer {header.producer_id}: {reason}")
