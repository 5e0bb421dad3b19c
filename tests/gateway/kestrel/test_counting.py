"""How many items there are: of what was there before, and of what others append."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import maybeDeferred
from twisted.python.failure import Failure

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.codecs.kafka.produced_batch import check_batch
from barbicel.errors import LogClosed
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.kestrel import counting
from barbicel.gateway.kestrel.counting import COUNT_BYTES, Found
from barbicel.gateway.kestrel.session import Session
from barbicel.kestrel_compat.items import FOR_HEADER
from barbicel.stroma.ranges import RangeSet
from tests.gateway.kafka.in_memory import NOW_MS, batch
from tests.gateway.kestrel.in_memory_queues import InMemoryQueues, in_memory_queues
from tests.support.fault_disk import FaultDisk

DATA = Path("/data")
SMALL = {"default_journal_size_bytes": 1 << 20}
MAIN, CHILD = "kestrel", "kestrel+a"


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


@pytest.fixture
def queues(disk: FaultDisk) -> Iterator[InMemoryQueues]:
    with in_memory_queues(DATA, disk) as queues:
        queues.rules(SMALL)
        yield queues


def made(queues: InMemoryQueues, topic: str = "t") -> Any:
    queues.reactor.result(queues.broker.topics.create(topic, 1, {"segment.bytes": str(1 << 20)}))
    return queues.broker.topics.partition(topic, 0)


def count_items(partition: Partition, start: int, end_offset: int, wanted: dict[str, RangeSet]) -> Found:
    """In this thread, and at once."""
    outcomes: list[Any] = []
    counting.count_items(lambda read: maybeDeferred(read), partition, start, end_offset, wanted).addBoth(
        outcomes.append
    )
    (outcome,) = outcomes
    if isinstance(outcome, Failure):
        outcome.raiseException()
    found: Found = outcome
    return found


def produce_only(queues: InMemoryQueues, topic: str, data: bytes) -> None:
    """Until it is appended, and not until it is counted."""
    partition = queues.broker.topics.partition(topic, 0)
    assert partition is not None
    answers: list[Any] = []
    partition.produce(check_batch(memoryview(bytearray(data)), 1 << 20), queues.broker.append, answers.append)
    queues.reactor.until(lambda: answers)


# --- in a log -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(Codec))
def test_items_are_counted_by_group(queues: InMemoryQueues, codec: Codec) -> None:
    partition = made(queues)
    records = [
        NewRecord(NOW_MS, None, b"all"),
        NewRecord(NOW_MS, None, None),
        NewRecord(NOW_MS, None, b"child", ((FOR_HEADER, CHILD.encode()),)),
        NewRecord(NOW_MS, None, b"nobody", ((FOR_HEADER, b""),)),
        NewRecord(NOW_MS, None, b""),
    ]
    queues.produce("t", build_batch(records, codec=codec))
    found = count_items(partition, 0, 5, {MAIN: RangeSet(), CHILD: RangeSet()})
    assert found == {MAIN: (2, 3), CHILD: (3, 8)}


def test_what_is_done_with_and_what_lies_outside_is_not_counted(queues: InMemoryQueues) -> None:
    partition = made(queues)
    queues.produce("t", batch(*[b"x" * number for number in range(10)]))
    found = count_items(partition, 2, 8, {MAIN: RangeSet([(3, 5), (7, 20)]), CHILD: RangeSet()})
    assert found == {MAIN: (3, 2 + 5 + 6), CHILD: (6, 2 + 3 + 4 + 5 + 6 + 7)}


def test_a_long_log_is_counted_a_part_at_a_time(queues: InMemoryQueues) -> None:
    partition = made(queues)
    size = COUNT_BYTES // 3
    for _ in range(7):
        queues.produce("t", batch(b"x" * size, b"y"))
    assert count_items(partition, 1, 14, {MAIN: RangeSet()}) == {MAIN: (13, 6 * size + 7)}


def test_what_retention_has_taken_is_not_counted(queues: InMemoryQueues) -> None:
    partition = made(queues)
    for _ in range(4):
        queues.produce("t", batch(b"a", b"b"))
    partition.log.truncate_before(4)
    assert count_items(partition, 0, 8, {MAIN: RangeSet()}) == {MAIN: (4, 4)}
    partition.log.truncate_before(8)
    assert count_items(partition, 0, 8, {MAIN: RangeSet()}) == {MAIN: (0, 0)}


def test_counting_ends_when_the_log_is_closed(queues: InMemoryQueues) -> None:
    partition = made(queues)
    queues.produce("t", batch(b"a"))
    queues.reactor.result(queues.broker.topics.delete("t"))
    with pytest.raises(LogClosed):
        count_items(partition, 0, 1, {MAIN: RangeSet()})


# --- of a queue in use ------------------------------------------------------------------------------------


def test_a_flush_while_they_are_counted(queues: InMemoryQueues) -> None:
    """What is flushed must not be counted afterwards: the queue would be full for ever."""
    queues.get("q")
    queues.get("q+a")
    produce_only(queues, "q", batch(b"a", b"b"))
    queues.flush("q")
    assert (queues.stats("q").items, queues.stats("q").bytes) == (0, 0)
    assert queues.stats("q+a").items == 2
    queues.produce("q", batch(b"c"))
    assert queues.stats("q").items == 1


def test_a_flush_before_they_are_counted(queues: InMemoryQueues) -> None:
    queues.get("q")
    partition = queues.broker.topics.partition("q", 0)
    assert partition is not None
    told: list[Any] = []

    def flush(_: object) -> None:
        queues.queues.flush("q", told.append)

    partition.produce(check_batch(memoryview(bytearray(batch(b"a"))), 1 << 20), queues.broker.append, flush)
    queues.reactor.until(lambda: told)
    assert queues.stats("q").items == 0
    assert queues.get("q") is None


def test_reading_while_they_are_counted(queues: InMemoryQueues) -> None:
    queues.get("q")
    produce_only(queues, "q", batch(b"a", b"bb", b"ccc"))
    assert queues.get("q", is_open=True) == b"a"
    assert queues.get("q") == b"bb"
    assert (queues.stats("q").items, queues.stats("q").bytes) == (1, 3)
    queues.disconnect()
    assert (queues.stats("q").items, queues.stats("q").bytes) == (2, 4)


def test_reading_before_they_are_counted(queues: InMemoryQueues) -> None:
    """Out of order, so that nothing but the ranges behind the frontier says what was read."""
    queues.put("q", b"first")
    queues.get("q", is_open=True)
    partition = queues.broker.topics.partition("q", 0)
    assert partition is not None
    got: list[Any] = []

    def get(_: object) -> None:
        queues.queues.take(Session(), "q", is_open=False, timeout_ms=None, done=got.append)

    data = memoryview(bytearray(batch(b"a", b"b")))
    partition.produce(check_batch(data, 1 << 20), queues.broker.append, get)
    queues.reactor.until(lambda: got)
    assert queues.stats("q").items == 1


def test_puts_wait_for_the_count_of_a_queue_that_is_limited(disk: FaultDisk) -> None:
    with in_memory_queues(DATA, disk) as queues:
        for _ in range(3):
            queues.put("q", b"x")
    with in_memory_queues(DATA, disk) as queues:
        queues.rules(q={"max_items": 5})
        told: list[Any] = []
        for number in range(4):
            queues.queues.put("q", b"%d" % number, 0, None, told.append)
        queues.reactor.until(lambda: len(told) == 4)
        assert sorted(map(bool, told)) == [False, False, True, True]
        assert queues.get_all("q") == [b"x", b"x", b"x", b"0", b"1"]


def test_puts_do_not_wait_for_what_others_append(queues: InMemoryQueues) -> None:
    """A busy producer is counted all the time, and would keep everybody else out for ever."""
    queues.rules(SMALL, q={"max_items": 100})
    queues.get("q")
    queue = queues.queues.by_master("q")
    assert queue is not None
    queue._counts_under_way += 1
    assert queues.put("q", b"a")


@pytest.mark.parametrize("rules", [{}, {"max_items": 2}, {"max_items": 5}])
def test_a_change_of_limits_while_items_are_put(queues: InMemoryQueues, rules: dict[str, int]) -> None:
    queues.rules(SMALL, q={"max_items": 5})
    queues.get("q")
    told: list[Any] = []
    for _ in range(2):
        queues.queues.put("q", b"x", 0, None, told.append)
    queues.rules(SMALL, q=rules)
    queues.reactor.until(lambda: len(told) == 2)
    queues.rules(SMALL, q={"max_items": 4})
    assert [queues.put("q", b"x") for _ in range(3)] == [True, True, False]


def test_the_surplus_of_kafkas_producers_is_discarded(queues: InMemoryQueues) -> None:
    queues.rules(SMALL, q={"max_items": 2, "discard_old_when_full": True})
    queues.get("q")
    queues.produce("q", batch(*[b"%d" % number for number in range(5)], codec=Codec.ZSTD))
    queues.quiesce()
    assert queues.stats("q").items == 2
    assert queues.get_all("q") == [b"3", b"4"]


def test_a_line_is_counted_from_where_it_begins(disk: FaultDisk) -> None:
    with in_memory_queues(DATA, disk) as queues:
        queues.put("q", b"1")
        queues.get("q+a")
        queues.put("q", b"22")
        queues.put("q+a", b"333")
        queues.get("q", is_open=True)
        queues.get("q")
    with in_memory_queues(DATA, disk) as queues:
        queues.open_all()
        assert (queues.stats("q").items, queues.stats("q").bytes) == (1, 1)
        assert (queues.stats("q+a").items, queues.stats("q+a").bytes) == (2, 5)
