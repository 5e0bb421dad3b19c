"""InitProducerId, and the sequences of idempotent producers: repeats, gaps, epochs, the window."""

from __future__ import annotations

from barbicel.codecs.kafka.messages import (
    DescribeProducersRequest,
    InitProducerIdRequest,
    Message,
)
from tests.differential.asking import batch, fetch, new_producer, new_topic, produce, versions
from tests.differential.script import Ask, Steps, conversations_of

__all__ = ["CONVERSATIONS"]

MAX_SEQUENCE = (1 << 31) - 1


def _init(producer_id: int = -1, epoch: int = -1, transactional_id: str | None = None) -> Message:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def producer_ids() -> Steps:
    for version in versions(InitProducerIdRequest):
        yield Ask(f"a new one, version {version}", _init(), version)
    known = yield from new_producer()
    yield Ask("a known one", _init(known, 0), 4)
    yield Ask("an unknown one", _init(123_456_789, 5), 4)
    yield Ask("an epoch alone", _init(-1, 0), 4)
    yield Ask("an id alone", _init(known, -1), 4)
    yield Ask("no transactional id", _init(transactional_id=""), 4)


# (label, epoch, base sequence, count), one after the other.
SEQUENCES = (
    ("the first", 0, 0, 1),
    ("the second", 0, 1, 2),
    ("the second again", 0, 1, 2),
    ("the first again", 0, 0, 1),
    ("one that overlaps", 0, 2, 3),
    ("a part of one", 0, 1, 1),
    ("a gap", 0, 5, 1),
    ("the third", 0, 3, 1),
    ("the fourth", 0, 4, 1),
    ("the fifth", 0, 5, 1),
    ("the sixth", 0, 6, 1),
    ("the first of the window again", 0, 1, 2),
    ("one before the window", 0, 0, 1),
    ("a new epoch in the middle", 1, 7, 1),
    ("a new epoch", 1, 0, 1),
    ("a new epoch again", 1, 0, 1),
    ("the old epoch", 0, 7, 1),
    ("the old epoch from the start", 0, 0, 1),
    ("an epoch further on", 5, 0, 1),
)


def sequences() -> Steps:
    yield from new_topic("sequences")
    # Servers take any id, and one that both know makes equal batches.
    producer = 1_000_300
    for label, epoch, sequence, count in SEQUENCES:
        content = batch(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        yield Ask(label, produce("sequences", content), 9)
    rows = DescribeProducersRequest(
        topics=[DescribeProducersRequest.TopicRequest(name="sequences", partition_indexes=[0])]
    )
    answer = yield Ask("everything", fetch("sequences", {0: 0}), 12)
    assert answer is not None
    yield Ask("its producers", rows, 0)


def sequences_of_an_unknown_producer() -> Steps:
    yield from new_topic("sequences-unknown")
    for label, producer, epoch, sequence in (
        ("from the start", 1_000_001, 0, 0),
        ("from the middle", 1_000_002, 0, 17),
        ("with a later epoch", 1_000_003, 7, 0),
        ("from the middle with a later epoch", 1_000_004, 7, 5),
    ):
        content = batch(1, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        yield Ask(label, produce("sequences-unknown", content), 9)


def sequences_that_wrap() -> Steps:
    yield from new_topic("sequences-wrap")
    for label, sequence, count in (
        ("up to the last but one", MAX_SEQUENCE - 3, 2),
        ("over the end", MAX_SEQUENCE - 1, 4),
        ("after it", 2, 1),
        ("over the end again", MAX_SEQUENCE - 1, 4),
    ):
        content = batch(count, producer_id=1_000_100, producer_epoch=0, base_sequence=sequence)
        yield Ask(label, produce("sequences-wrap", content), 9)


def sequences_with_the_logs_clock() -> Steps:
    yield from new_topic("sequences-append-time", message_timestamp_type="LogAppendTime")
    for label in ("first", "repeated"):
        content = batch(1, producer_id=1_000_200, producer_epoch=0, base_sequence=0)
        yield Ask(label, produce("sequences-append-time", content), 9)


CONVERSATIONS = conversations_of(
    producer_ids,
    sequences,
    sequences_of_an_unknown_producer,
    sequences_that_wrap,
    sequences_with_the_logs_clock,
)
