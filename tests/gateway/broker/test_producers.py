"""Idempotent producers: what is new, repeated or refused, and that a restart knows what was known before."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.record_batch import CONTROL_BIT, BatchHeader
from barbicel.codecs.producer_snapshot import (
    MAX_SEQUENCE,
    Producer,
    ProducerSnapshot,
    StoredBatch,
    decode_producers,
    encode_producers,
)
from barbicel.gateway.broker.producers import (
    New,
    ProducerDescription,
    ProducerStates,
    Refused,
    Repeated,
    RepeatedInFlight,
    Submission,
    SubmissionState,
)

T = 1_700_000_000_000
PRODUCER = 7


def header(
    sequence: int,
    records: int = 1,
    *,
    producer_id: int = PRODUCER,
    epoch: int = 0,
    attributes: int = 0,
    timestamp: int = T,
) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=records - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        records_count=records,
    )


def marker(epoch: int, *, producer_id: int = PRODUCER, timestamp: int = T) -> BatchHeader:
    """The end of a transaction, which has no sequence."""
    return header(-1, producer_id=producer_id, epoch=epoch, attributes=CONTROL_BIT, timestamp=timestamp)


class Partition:
    """States in front of a log that keeps headers. What is appended is durable once `flush` says so."""

    def __init__(self, states: ProducerStates | None = None) -> None:
        self.states = states or ProducerStates()
        self.log: list[tuple[BatchHeader, int, int]] = []
        self.end_offset = self.states.exact_until
        self.queue: deque[Submission] = deque()

    def submit(self, batch: BatchHeader) -> Submission:
        self.queue.append(self.states.begin(batch))
        return self.queue[-1]

    def flush(self, count: int = 1, now_ms: int = T) -> None:
        for _ in range(min(count, len(self.queue))):
            submission = self.queue.popleft()
            base_offset = self.end_offset
            self.end_offset += submission.header.last_offset_delta + 1
            self.log.append((submission.header, base_offset, now_ms))
            self.states.done(submission, base_offset, now_ms)

    def store(self, batch: BatchHeader, now_ms: int = T) -> int:
        """A batch that must be new, through the whole path; its base offset."""
        assert self.states.check(batch) == New()
        self.submit(batch)
        self.flush(now_ms=now_ms)
        return self.log[-1][1]

    def replayed(self, states: ProducerStates | None = None) -> ProducerStates:
        states = states or ProducerStates()
        for batch, base_offset, now_ms in self.log:
            states.learn(batch, base_offset, now_ms)
        return states


def error_of(verdict: object) -> ErrorCode:
    assert isinstance(verdict, Refused), verdict
    return verdict.error_code


def offset_of(verdict: object) -> int:
    assert isinstance(verdict, Repeated), verdict
    return verdict.batch.base_offset


# --- sequences ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sequence", [0, 1, 5, MAX_SEQUENCE])
def test_an_unknown_producer_may_start_with_any_sequence(sequence: int) -> None:
    partition = Partition()
    partition.store(header(sequence, 3))
    partition.store(header(sequence + 3 & MAX_SEQUENCE))


def test_check_changes_nothing() -> None:
    states = ProducerStates()
    for _ in range(2):
        assert states.check(header(5)) == New()
    assert states.snapshot() == ProducerSnapshot(0)


def test_a_gap_is_out_of_order() -> None:
    partition = Partition()
    partition.store(header(0, 3))
    for sequence in (4, 100, MAX_SEQUENCE):
        verdict = partition.states.check(header(sequence))
        assert error_of(verdict) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert verdict == Refused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "producer 7: sequence 2147483647, expected 3"
    )


def test_producers_do_not_disturb_each_other() -> None:
    partition = Partition()
    partition.store(header(0, 3))
    partition.store(header(40, 2, producer_id=8))
    partition.store(header(3, 3))
    partition.store(header(42, 2, producer_id=8))


def test_a_repetition_gets_the_first_copys_offset_and_timestamp() -> None:
    partition = Partition()
    partition.store(header(0, 10, timestamp=T + 1))
    offset = partition.store(header(10, 5, timestamp=T + 2))
    assert partition.states.check(header(10, 5)) == Repeated(StoredBatch(10, 14, offset, T + 2))
    partition.store(header(15))


@pytest.mark.parametrize(("sequence", "records"), [(0, 9), (1, 9), (0, 11), (5, 10), (9, 1)])
def test_other_bounds_are_no_repetition(sequence: int, records: int) -> None:
    partition = Partition()
    partition.store(header(0, 10))
    verdict = partition.states.check(header(sequence, records))
    assert error_of(verdict) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_last_five_batches_are_remembered_and_no_more() -> None:
    partition = Partition()
    offsets = {sequence: partition.store(header(sequence, 2)) for sequence in range(0, 16, 2)}
    for sequence in (6, 8, 10, 12, 14):
        assert offset_of(partition.states.check(header(sequence, 2))) == offsets[sequence]
    for sequence in (0, 2, 4):
        verdict = partition.states.check(header(sequence, 2))
        assert error_of(verdict) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_between_batches() -> None:
    partition = Partition()
    before = partition.store(header(MAX_SEQUENCE - 1, 2))
    verdict = partition.states.check(header(1))
    assert error_of(verdict) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    after = partition.store(header(0, 2))
    assert offset_of(partition.states.check(header(MAX_SEQUENCE - 1, 2))) == before
    assert offset_of(partition.states.check(header(0, 2))) == after


def test_sequences_wrap_inside_a_batch() -> None:
    partition = Partition()
    partition.store(header(MAX_SEQUENCE - 1, 5))
    assert [row.last_sequence for row in partition.states.describe()] == [2]
    assert offset_of(partition.states.check(header(MAX_SEQUENCE - 1, 5))) == 0
    assert partition.store(header(3)) == 5


# --- epochs ---------------------------------------------------------------------------------------


def test_an_older_epoch_is_refused_even_for_a_repetition() -> None:
    partition = Partition()
    partition.store(header(0, epoch=3))
    partition.store(header(0, epoch=4))
    for sequence in (0, 1):
        verdict = partition.states.check(header(sequence, epoch=3))
        assert verdict == Refused(ErrorCode.INVALID_PRODUCER_EPOCH, "producer 7: epoch 3, but 4 is known")


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_newer_epoch_starts_at_sequence_0(is_stored: bool) -> None:
    partition = Partition()
    partition.submit(header(0, 3))
    partition.flush(int(is_stored))
    for sequence in (3, 1):
        verdict = partition.states.check(header(sequence, epoch=1))
        assert error_of(verdict) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.states.check(header(0, 3, epoch=1)) == New()


def test_a_newer_epoch_forgets_the_batches_of_the_older() -> None:
    partition = Partition()
    for sequence in range(4):
        partition.store(header(sequence))
    offset = partition.store(header(0, epoch=1))
    assert offset_of(partition.states.check(header(0, epoch=1))) == offset
    verdict = partition.states.check(header(2, epoch=1))
    assert error_of(verdict) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition.store(header(1, epoch=1))


def test_a_markers_newer_epoch_fences_and_starts_at_0() -> None:
    partition = Partition()
    partition.store(header(0, 3))
    partition.states.learn(marker(1, timestamp=T + 5), 3, T)
    assert error_of(partition.states.check(header(3))) is ErrorCode.INVALID_PRODUCER_EPOCH
    verdict = partition.states.check(header(3, epoch=1))
    assert error_of(verdict) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.states.check(header(0, epoch=1)) == New()
    assert list(partition.states.describe()) == [ProducerDescription(PRODUCER, 1, -1, T + 5)]


def test_a_marker_of_the_same_epoch_leaves_the_sequences_alone() -> None:
    partition = Partition()
    partition.store(header(0, 3))
    partition.states.learn(marker(0), 3, T)
    assert offset_of(partition.states.check(header(0, 3))) == 0
    assert partition.states.check(header(3)) == New()


def test_a_markers_sequence_is_not_looked_at() -> None:
    partition = Partition()
    partition.store(header(0, 3))
    partition.states.learn(marker(0)._replace(base_sequence=3), 3, T)
    assert partition.states.check(header(3)) == New()


def test_a_marker_may_be_in_flight_too() -> None:
    partition = Partition()
    partition.submit(marker(0))
    assert partition.states.check(header(0)) == New()
    partition.submit(header(0, 3))
    partition.submit(marker(0))
    assert partition.states.check(header(3)) == New()
    partition.submit(marker(1))
    assert error_of(partition.states.check(header(3))) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.states.check(header(0, epoch=1)) == New()
    partition.flush(4)
    assert partition.states.check(header(0, epoch=1)) == New()
    partition.submit(marker(1))
    assert partition.states.check(header(0, epoch=1)) == New()


# --- in flight ------------------------------------------------------------------------------------


def test_batches_follow_each_other_in_flight() -> None:
    partition = Partition()
    for sequence in range(0, 20, 2):
        assert partition.states.check(header(sequence, 2)) == New()
        partition.submit(header(sequence, 2))
    verdict = partition.states.check(header(21))
    assert error_of(verdict) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.states.snapshot().producers == ()
    partition.flush(10)
    assert offset_of(partition.states.check(header(18, 2))) == 18


def test_a_repetition_of_what_is_in_flight_waits_for_the_same_outcome() -> None:
    partition = Partition()
    partition.store(header(0, 4))
    first = partition.submit(header(4, 2))
    partition.submit(header(6))
    assert partition.states.check(header(4, 2)) == RepeatedInFlight(first)
    outcomes: list[int | None] = []
    first.when_settled(outcomes.append)
    first.when_settled(outcomes.append)
    assert outcomes == []
    partition.flush()
    assert outcomes == [4, 4]
    assert first.state is SubmissionState.STORED
    first.when_settled(outcomes.append)
    assert outcomes == [4, 4, 4]
    assert offset_of(partition.states.check(header(4, 2))) == 4


def test_what_is_stored_is_found_while_others_are_in_flight() -> None:
    partition = Partition()
    partition.store(header(0, 4))
    partition.submit(header(4))
    assert offset_of(partition.states.check(header(0, 4))) == 0


def test_the_older_epochs_batches_in_flight_are_no_repetition() -> None:
    partition = Partition()
    partition.submit(header(0))
    partition.submit(header(1))
    partition.submit(header(0, epoch=1))
    verdict = partition.states.check(header(1, epoch=0))
    assert error_of(verdict) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.states.check(header(1, epoch=1)) == New()


def test_a_failed_append_was_never_there() -> None:
    partition = Partition()
    partition.store(header(0, 4))
    before = partition.states.snapshot()
    submission = partition.states.begin(header(4))
    outcomes: list[int | None] = []
    submission.when_settled(outcomes.append)
    partition.states.failed(submission)
    assert outcomes == [None]
    assert submission.state is SubmissionState.FAILED
    submission.when_settled(outcomes.append)
    assert outcomes == [None, None]
    assert partition.states.snapshot() == before
    assert partition.states.check(header(4)) == New()


def test_a_failed_first_batch_leaves_an_unknown_producer() -> None:
    states = ProducerStates()
    states.failed(states.begin(header(0)))
    assert states.check(header(50)) == New()
    assert states.snapshot().producers == ()


def test_all_in_flight_may_fail_in_any_order() -> None:
    states = ProducerStates()
    submissions = [states.begin(header(sequence)) for sequence in range(4)]
    for index in (2, 0, 3, 1):
        states.failed(submissions[index])
    assert states.snapshot() == ProducerSnapshot(0)
    assert states.check(header(50)) == New()


def test_an_outcome_is_told_once_and_in_order() -> None:
    states = ProducerStates()
    first, second = states.begin(header(0)), states.begin(header(1))
    with pytest.raises(RuntimeError, match="producer 7 has an earlier batch in flight"):
        states.done(second, 1, T)
    states.done(first, 0, T)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a batch of producer 7 is stored already"):
            states.done(first, 1, T)
    states.failed(second)
    with pytest.raises(RuntimeError, match="a batch of producer 7 is failed already"):
        states.failed(second)


def test_producers_are_told_of_in_the_logs_order() -> None:
    states = ProducerStates()
    first, second = states.begin(header(0, producer_id=1)), states.begin(header(0, producer_id=2))
    states.done(second, 5, T)
    with pytest.raises(RuntimeError, match="offset 4 is told of after 5"):
        states.done(first, 4, T)


def test_a_batch_without_a_producer_does_not_begin() -> None:
    with pytest.raises(ValueError, match="without a producer id"):
        ProducerStates().begin(header(-1, producer_id=-1, epoch=-1))


# --- expiry and bounds ----------------------------------------------------------------------------


def test_silent_producers_expire() -> None:
    partition = Partition()
    for producer_id in (1, 2, 3):
        partition.store(header(0, producer_id=producer_id), now_ms=T + producer_id)
    partition.store(header(1, producer_id=1), now_ms=T + 10)
    states = partition.states
    assert states.expire(T + 101, 100) == 0
    assert states.expire(T + 102, 100) == 1
    assert states.check(header(77, producer_id=2)) == New()
    assert error_of(states.check(header(77, producer_id=3))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.expire(T + 200, 100) == 2
    assert states.expire(T + 200, 100) == 0
    assert states.snapshot().producers == ()


def test_a_batch_in_flight_outlives_the_expiry_of_its_producer() -> None:
    partition = Partition()
    partition.store(header(0))
    partition.submit(header(1))
    assert partition.states.expire(T + 100, 100) == 1
    assert partition.states.check(header(2)) == New()
    partition.flush()
    assert offset_of(partition.states.check(header(1))) == 1


def test_a_producers_own_clock_does_not_expire_it() -> None:
    partition = Partition()
    partition.store(header(0, timestamp=0), now_ms=T)
    assert partition.states.expire(T + 99, 100) == 0


def test_too_many_producers_push_out_the_one_used_longest_ago() -> None:
    partition = Partition(ProducerStates(max_producers=3))
    for producer_id in (1, 2, 3):
        partition.store(header(0, producer_id=producer_id))
    partition.store(header(1, producer_id=1))
    partition.store(header(0, producer_id=4))
    assert [row.producer_id for row in partition.states.describe()] == [3, 1, 4]
    assert partition.replayed(ProducerStates(max_producers=3)).snapshot() == partition.states.snapshot()


def test_one_producer_must_fit() -> None:
    with pytest.raises(ValueError, match="max_producers is 0"):
        ProducerStates(max_producers=0)


def test_describe_has_what_describe_producers_shows() -> None:
    partition = Partition()
    partition.store(header(0, 10, epoch=2, timestamp=T + 3))
    partition.submit(header(10, epoch=2))
    assert list(partition.states.describe()) == [
        ProducerDescription(
            producer_id=PRODUCER,
            producer_epoch=2,
            last_sequence=9,
            last_timestamp=T + 3,
            coordinator_epoch=-1,
            current_txn_start_offset=-1,
        )
    ]


# --- restarts -------------------------------------------------------------------------------------

SNAPSHOT = ProducerSnapshot(
    end_offset=20,
    producers=(Producer(8, 0, T, T, (StoredBatch(0, 4, 10, T),)), Producer(9, 1, T, T)),
)


@pytest.mark.parametrize(("log_start", "log_end", "exact_until"), [(0, 20, 20), (5, 90, 20), (30, 90, 30)])
def test_a_snapshot_is_taken_up(log_start: int, log_end: int, exact_until: int) -> None:
    states = ProducerStates.restored(SNAPSHOT, log_start=log_start, log_end=log_end)
    assert states.exact_until == exact_until
    assert states.snapshot().producers == SNAPSHOT.producers


def test_a_snapshot_beyond_the_logs_end_counts_for_nothing() -> None:
    states = ProducerStates.restored(SNAPSHOT, log_start=5, log_end=19)
    assert states.snapshot() == ProducerSnapshot(5)


def test_a_snapshot_with_too_many_producers_loses_the_oldest() -> None:
    states = ProducerStates.restored(SNAPSHOT, log_start=0, log_end=20, max_producers=1)
    assert states.snapshot().producers == SNAPSHOT.producers[1:]


def test_what_the_snapshot_has_is_not_learnt_again() -> None:
    states = ProducerStates.restored(SNAPSHOT, log_start=0, log_end=25)
    states.learn(header(0, 5, producer_id=8), 10, T)
    assert states.snapshot() == SNAPSHOT
    states.learn(header(5, 5, producer_id=8), 20, T)
    assert states.exact_until == 25
    assert states.check(header(10, producer_id=8)) == New()


def test_a_batch_that_the_logs_start_cuts_is_learnt() -> None:
    states = ProducerStates(start_offset=12)
    states.learn(header(0, 2), 10, T)
    assert states.snapshot() == ProducerSnapshot(12)
    states = ProducerStates(start_offset=12)
    states.learn(header(0, 5), 10, T)
    assert offset_of(states.check(header(0, 5))) == 10
    assert states.exact_until == 15


def test_batches_without_a_producer_only_move_the_end() -> None:
    states = ProducerStates()
    states.learn(header(-1, 3, producer_id=-1, epoch=-1), 0, T)
    states.learn(header(0, 3, producer_id=5, epoch=-1), 3, T)
    assert states.snapshot() == ProducerSnapshot(6)
    states.advance(10)
    states.advance(9)
    assert states.exact_until == 10


def test_a_producer_that_came_back_after_expiry_replays_as_it_was() -> None:
    partition = Partition()
    for sequence in range(3):
        partition.store(header(sequence))
    partition.states.expire(T + 100, 100)
    partition.store(header(50))
    assert partition.replayed().snapshot() == partition.states.snapshot()
    partition.states.expire(T + 100, 100)
    partition.store(header(9, epoch=0))
    assert partition.replayed().snapshot() == partition.states.snapshot()


# (what the client does, which producer, a number that chooses)
steps = st.tuples(
    st.sampled_from(["send", "send", "send", "repeat", "gap", "bump", "mark", "flush", "flush"]),
    st.integers(1, 3),
    st.integers(0, 10),
)


class Clients:
    """Producers that count their sequences right, repeat at will, and note what they were answered."""

    def __init__(self) -> None:
        self.partition = Partition()
        self.epochs = dict.fromkeys((1, 2, 3), 0)
        self.next_sequences = {1: 0, 2: MAX_SEQUENCE - 7, 3: 0}
        self.sent: dict[int, list[tuple[BatchHeader, Submission]]] = {1: [], 2: [], 3: []}
        self.now_ms = T

    def take(self, step: tuple[str, int, int]) -> None:
        kind, producer_id, number = step
        self.now_ms += number
        getattr(self, kind)(producer_id, number)

    def send(self, producer_id: int, number: int) -> None:
        batch = header(
            self.next_sequences[producer_id],
            number + 1,
            producer_id=producer_id,
            epoch=self.epochs[producer_id],
            timestamp=self.now_ms - 5 * number,
        )
        assert self.partition.states.check(batch) == New()
        self.sent[producer_id].append((batch, self.partition.submit(batch)))
        self.next_sequences[producer_id] = batch.last_sequence + 1 & MAX_SEQUENCE

    def repeat(self, producer_id: int, number: int) -> None:
        sent = self.sent[producer_id]
        if number >= len(sent):
            return
        batch, submission = sent[-1 - number]
        verdict = self.partition.states.check(batch)
        if submission.state is SubmissionState.IN_FLIGHT:
            assert verdict == RepeatedInFlight(submission)
        elif number < 5:
            assert offset_of(verdict) == submission.base_offset
        else:
            assert isinstance(verdict, Refused | Repeated)

    def gap(self, producer_id: int, number: int) -> None:
        sequence = self.next_sequences[producer_id] + number + 1 & MAX_SEQUENCE
        batch = header(sequence, producer_id=producer_id, epoch=self.epochs[producer_id])
        if self.sent[producer_id]:
            assert error_of(self.partition.states.check(batch)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def bump(self, producer_id: int, number: int) -> None:
        self.epochs[producer_id] += number + 1
        self.next_sequences[producer_id] = 0
        self.sent[producer_id] = []

    def mark(self, producer_id: int, number: int) -> None:
        """A marker of this epoch, or of the next one."""
        if number % 2:
            self.bump(producer_id, 0)
        if self.epochs[producer_id]:
            self.partition.submit(marker(self.epochs[producer_id], producer_id=producer_id))

    def flush(self, producer_id: int, number: int) -> None:
        self.partition.flush(number, self.now_ms)


@settings(deadline=None)
@given(before=st.lists(steps, max_size=40), after=st.lists(steps, max_size=40))
def test_a_restart_knows_what_was_known_before(
    before: list[tuple[str, int, int]], after: list[tuple[str, int, int]]
) -> None:
    clients = Clients()
    partition = clients.partition
    for step in before:
        clients.take(step)
    written = encode_producers(partition.states.snapshot())
    for step in after:
        clients.take(step)
    live = partition.states.snapshot()
    assert live.end_offset == partition.end_offset
    assert partition.replayed().snapshot() == live
    restored = ProducerStates.restored(decode_producers(written), log_start=0, log_end=partition.end_offset)
    assert partition.replayed(restored).snapshot() == live
