"""Reading ahead by itself: when it begins, what it holds, and who gets it. Logs are lists of batches."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.broker.read_ahead import (
    ENDS_MAX,
    READS_MAX,
    STRETCH_BYTES_MAX,
    STRETCH_BYTES_MIN,
    ReadAhead,
)
from barbicel.gateway.broker.stored import RECORD_FRAME_BYTES


def batch(offset: int) -> memoryview:
    return memoryview(build_batch([NewRecord(0, None, b"x" * 30_000)], base_offset=offset, leader_epoch=0))


BATCH_BYTES = len(batch(0))
LIMIT = 3 * BATCH_BYTES
# What a stretch holds, and one for two fetches: the buffer that it is read into.
HELD = LIMIT + RECORD_FRAME_BYTES
HELD_FOR_TWO = 2 * LIMIT + RECORD_FRAME_BYTES


class Log:
    """A partition with a batch for each offset, nothing of it in memory."""

    def __init__(self, end_offset: int = 1000, batch_bytes: int = BATCH_BYTES) -> None:
        self._batch_bytes = batch_bytes
        self.start_offset, self.end_offset, self.tail_start = 0, end_offset, end_offset
        self.remote_below = 0
        self.stored = SimpleNamespace(read=self.read, is_remote=lambda offset: offset < self.remote_below)

    def is_in_tail(self, offset: int) -> bool:
        return self.tail_start <= offset

    def read(self, offset: int, end_offset: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview]:
        assert not at_least_one
        end = min(end_offset, offset + max_bytes // self._batch_bytes)
        return [batch(number) for number in range(offset, end)]


class Rig:
    def __init__(self, budget_bytes: int = 4 * HELD) -> None:
        self.clock = Clock()
        self.reads: list[tuple[Callable[[], list[memoryview]], Deferred[list[memoryview]]]] = []
        self.ahead = ReadAhead(cast(Any, self.clock), self._read, budget_bytes)

    def _read(self, function: Callable[[], list[memoryview]]) -> Deferred[list[memoryview]]:
        done: Deferred[list[memoryview]] = Deferred()
        self.reads.append((function, done))
        return done

    def answer(self, log: Log, offset: int, max_bytes: int = LIMIT) -> None:
        """As a fetch that has read the disk itself."""
        pieces = log.read(offset, log.end_offset, max_bytes, at_least_one=False)
        self.ahead.follow(cast(Partition, log), offset, pieces, max_bytes)
        self.clock.advance(0)

    def finish_reads(self) -> int:
        reads, self.reads = self.reads, []
        for function, done in reads:
            done.callback(function())
        return len(reads)

    def take(self, log: Log, offset: int, max_bytes: int = LIMIT, *, at_least_one: bool = True) -> list[int]:
        pieces = self.ahead.take(cast(Partition, log), offset, max_bytes, at_least_one=at_least_one)
        return [int.from_bytes(piece[:8], "big") for piece in pieces]


def test_it_begins_with_the_second_fetch_that_goes_on_where_one_ended() -> None:
    rig, log = Rig(), Log()
    rig.answer(log, 0)
    assert rig.finish_reads() == 0
    rig.answer(log, 3)
    assert rig.finish_reads() == 1
    assert rig.take(log, 6) == [6, 7, 8]
    # It is had once.
    assert rig.take(log, 6) == []


def test_a_read_is_for_two_fetches_and_the_next_begins_with_the_second() -> None:
    rig, log = Rig(), Log()
    for offset in (0, 3):
        rig.answer(log, offset)
    assert rig.finish_reads() == 1
    assert rig.take(log, 6) == [6, 7, 8]
    # As long as a part of it is held, so is the whole buffer.
    assert rig.ahead.held_bytes == HELD_FOR_TWO
    rig.answer(log, 6)
    assert rig.finish_reads() == 1
    assert rig.take(log, 9) == [9, 10, 11]
    # What is there is enough for one more.
    rig.answer(log, 9)
    assert rig.finish_reads() == 0
    assert rig.take(log, 12) == [12, 13, 14]
    assert rig.take(log, 15) == [15, 16, 17]
    assert rig.ahead.held_bytes == 0


def test_what_two_fetches_leave_goes_with_what_was_read_behind_it() -> None:
    """An answer with one batch takes a client as long as one with many."""
    rig, log = Rig(budget_bytes=100 * HELD), Log()
    # A read for two fetches has one batch more than the two take.
    max_bytes = LIMIT + BATCH_BYTES // 2
    for offset in (0, 3):
        rig.answer(log, offset, max_bytes)
    assert rig.finish_reads() == 1
    assert rig.take(log, 6, max_bytes) == [6, 7, 8]
    # Of what was read, 9 to 12 is there, more than one fetch: the next read begins all the same.
    rig.answer(log, 6, max_bytes)
    assert rig.finish_reads() == 1
    assert rig.take(log, 9, max_bytes) == [9, 10, 11]
    assert rig.take(log, 12, max_bytes) == [12, 13, 14]
    assert rig.take(log, 15, max_bytes) == [15, 16, 17]
    assert rig.take(log, 18, max_bytes) == [18, 19]
    assert rig.ahead.held_bytes == 0


def test_what_is_left_is_not_kept_back_for_what_is_still_being_read() -> None:
    rig, log = Rig(budget_bytes=100 * HELD), Log()
    max_bytes = LIMIT + BATCH_BYTES // 2
    for offset in (0, 3):
        rig.answer(log, offset, max_bytes)
    assert rig.finish_reads() == 1
    rig.take(log, 6, max_bytes)
    rig.answer(log, 6, max_bytes)
    rig.take(log, 9, max_bytes)
    assert rig.take(log, 12, max_bytes) == [12]
    assert rig.ahead.is_coming(cast(Partition, log), 13)
    rig.finish_reads()
    assert rig.take(log, 13, max_bytes) == [13, 14, 15]


@pytest.mark.parametrize("max_bytes", [1, BATCH_BYTES - 1])
def test_a_batch_that_is_larger_than_a_fetch_may_have_is_had_alone(max_bytes: int) -> None:
    """Of the last one of a read nothing is left, and nothing is held for that."""
    rig, log = Rig(), Log()
    for offset in (0, 3):
        rig.answer(log, offset)
    assert rig.finish_reads() == 1
    assert [rig.take(log, offset, max_bytes) for offset in range(6, 13)] == [
        [6],
        [7],
        [8],
        [9],
        [10],
        [11],
        [],
    ]
    assert rig.ahead.held_bytes == 0
    rig.answer(log, 11)
    rig.answer(log, 14)
    assert rig.finish_reads() == 1


@pytest.mark.parametrize("is_there", [False, True])
def test_what_one_reader_leaves_does_not_take_the_place_of_what_another_waits_for(is_there: bool) -> None:
    rig, log = Rig(budget_bytes=100 * HELD), Log()
    for offset in (0, 3, 1, 4):
        rig.answer(log, offset)
    (first, first_done), (second, second_done) = rig.reads
    first_done.callback(first())
    came: list[None] = []
    rig.ahead.coming(cast(Partition, log), 7).addCallback(came.append)
    if is_there:
        second_done.callback(second())
    # Of 6 to 11, this leaves what begins where the other one's does.
    assert rig.take(log, 6, BATCH_BYTES) == [6]
    if not is_there:
        assert (rig.ahead.is_coming(cast(Partition, log), 7), came) == (True, [])
        second_done.callback(second())
    assert came == [None]
    assert rig.take(log, 7, 2 * LIMIT) == [7, 8, 9, 10, 11, 12]
    assert rig.ahead.held_bytes == 0


def test_a_stretch_of_which_nothing_may_be_had_stays() -> None:
    rig, log = Rig(), Log()
    for offset in (0, 3):
        rig.answer(log, offset)
    rig.finish_reads()
    assert rig.take(log, 6, BATCH_BYTES - 1, at_least_one=False) == []
    assert rig.take(log, 6) == [6, 7, 8]


def test_a_read_is_for_one_fetch_where_something_would_have_to_give_way() -> None:
    rig = Rig(budget_bytes=HELD_FOR_TWO + HELD)
    first, second = Log(), Log()
    for log in (first, second):
        for offset in (0, 3):
            rig.answer(log, offset)
        rig.finish_reads()
    assert rig.ahead.held_bytes == HELD_FOR_TWO + HELD
    assert [rig.take(first, 6), rig.take(second, 6)] == [[6, 7, 8], [6, 7, 8]]
    assert [rig.take(first, 9), rig.take(second, 9)] == [[9, 10, 11], []]


def test_somebody_who_jumps_about_gets_nothing_read_ahead() -> None:
    rig, log = Rig(), Log()
    for offset in (0, 100, 5, 40, 10):
        rig.answer(log, offset)
    assert rig.finish_reads() == 0


def test_another_partition_is_another_place() -> None:
    rig, log, other = Rig(), Log(), Log()
    rig.answer(log, 0)
    rig.answer(other, 3)
    assert rig.finish_reads() == 0
    rig.answer(log, 3)
    rig.finish_reads()
    assert rig.take(other, 6) == []


def test_what_is_asked_for_while_it_is_read_is_waited_for() -> None:
    rig, log = Rig(), Log()
    partition = cast(Partition, log)
    for offset in (0, 3):
        rig.answer(log, offset)
    told: list[str] = []
    for name in ("first", "second"):
        assert rig.ahead.is_coming(partition, 6)

        def tell(_: None, name: str = name) -> None:
            told.append(name)

        rig.ahead.coming(partition, 6).addCallback(tell)
    assert rig.take(log, 6) == []
    assert told == []
    rig.finish_reads()
    assert told == ["first", "second"]
    assert not rig.ahead.is_coming(partition, 6)
    assert rig.take(log, 6) == [6, 7, 8]


def test_a_read_that_fails_is_told_to_nobody_but_ends_the_wait() -> None:
    rig, log = Rig(), Log()
    for offset in (0, 3):
        rig.answer(log, offset)
    coming = rig.ahead.coming(cast(Partition, log), 6)
    ((_, done),) = rig.reads
    done.errback(BarbicelError("damaged"))
    assert coming.called
    assert rig.take(log, 6) == []
    assert rig.ahead.held_bytes == 0


@pytest.mark.parametrize(
    ("max_bytes", "at_least_one", "expected"),
    [
        (2 * BATCH_BYTES, True, [6, 7]),
        (2 * BATCH_BYTES, False, [6, 7]),
        (1, True, [6]),
        (1, False, []),
        (-1, True, [6]),
    ],
)
def test_whoever_may_have_less_gets_whole_batches(
    max_bytes: int, at_least_one: bool, expected: list[int]
) -> None:
    rig, log = Rig(), Log()
    for offset in (0, 3):
        rig.answer(log, offset)
    rig.finish_reads()
    assert rig.take(log, 6, max_bytes, at_least_one=at_least_one) == expected


@pytest.mark.parametrize("max_bytes", [-1, 0, STRETCH_BYTES_MIN - 1, STRETCH_BYTES_MAX + 1])
def test_who_asks_for_next_to_nothing_or_very_much_is_left_alone(max_bytes: int) -> None:
    rig, log = Rig(), Log()
    partition = cast(Partition, log)
    for offset in (0, 1, 2):
        rig.ahead.follow(partition, offset, [batch(offset)], max_bytes)
    rig.clock.advance(0)
    assert rig.finish_reads() == 0


def at_the_end(log: Log) -> None:
    log.end_offset = 6


def in_memory(log: Log) -> None:
    log.tail_start = 6


def deleted(log: Log) -> None:
    log.start_offset = 7


def in_the_store(log: Log) -> None:
    log.remote_below = 7


@pytest.mark.parametrize("change", [at_the_end, in_memory, deleted, in_the_store])
def test_only_what_is_on_the_disk_is_read(change: Callable[[Log], None]) -> None:
    rig, log = Rig(), Log()
    change(log)
    for offset in (0, 3):
        rig.answer(log, offset)
    assert rig.finish_reads() == 0


def test_a_stretch_that_no_batch_fits_in_is_not_held() -> None:
    rig, log = Rig(), Log(batch_bytes=2 * STRETCH_BYTES_MIN + 1)
    partition = cast(Partition, log)
    for offset in (0, 1):
        rig.ahead.follow(partition, offset, [batch(offset)], STRETCH_BYTES_MIN)
    rig.clock.advance(0)
    assert rig.finish_reads() == 1
    assert (rig.take(log, 2), rig.ahead.held_bytes) == ([], 0)


def test_what_nobody_comes_for_gives_way() -> None:
    rig = Rig(budget_bytes=2 * HELD)
    logs = [Log() for _ in range(3)]
    for log in logs:
        for offset in (0, 3):
            rig.answer(log, offset)
        rig.finish_reads()
        assert rig.ahead.held_bytes <= 2 * HELD
    assert [rig.take(log, 6) for log in logs] == [[], [6, 7, 8], [6, 7, 8]]


def test_what_is_being_read_counts_and_does_not_give_way() -> None:
    rig = Rig(budget_bytes=HELD)
    for log in (Log(), Log()):
        for offset in (0, 3):
            rig.answer(log, offset)
    assert rig.ahead.held_bytes == HELD
    assert rig.finish_reads() == 1


def test_only_a_few_reads_are_under_way() -> None:
    """Others read the disk in the same threads."""
    rig = Rig(budget_bytes=100 * HELD)
    logs = [Log() for _ in range(READS_MAX + 3)]
    for log in logs:
        for offset in (0, 3):
            rig.answer(log, offset)
    assert rig.finish_reads() == READS_MAX
    rig.answer(logs[-1], 6)
    assert rig.finish_reads() == 1


def test_a_stretch_counts_as_the_buffer_that_it_keeps() -> None:
    """Little of it may be batches: at the end of a segment, say."""
    rig, log = Rig(), Log(7)
    for offset in (0, 3):
        rig.answer(log, offset)
    rig.finish_reads()
    assert rig.ahead.held_bytes == HELD_FOR_TWO
    assert rig.take(log, 6) == [6]
    assert rig.ahead.held_bytes == 0


def test_two_who_read_the_same_are_read_for_once() -> None:
    rig, log = Rig(), Log()
    for offset in (0, 3):
        rig.answer(log, offset)
    rig.answer(log, 0)
    rig.answer(log, 3)
    assert rig.finish_reads() == 1


def test_what_it_remembers_of_fetches_is_bounded() -> None:
    rig, log = Rig(), Log(10 * ENDS_MAX)
    rig.answer(log, 0)
    for offset in range(10, 10 + 2 * ENDS_MAX, 2):
        rig.answer(log, offset, BATCH_BYTES)
    rig.answer(log, 3)
    assert rig.finish_reads() == 0
