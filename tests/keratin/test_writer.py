"""The writer: groups, bounds, the order of answers, and failures that stay where they belong."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from random import Random

import pytest

from barbicel.errors import DiskError, LogClosed, LogStopped, QueueFull, RecordTooLarge
from barbicel.keratin import Ack, Appended, Writer, WriterSettings
from barbicel.keratin.writer import _Request, _Turn
from tests.keratin.builders import (
    DEADLINE_S,
    Answers,
    Crew,
    Desk,
    SteppedTime,
    expected_payload,
    new_record,
    new_records,
    open_log,
    payloads,
    wait_until,
)
from tests.support.fault_disk import Fate, FaultDisk, Operation

Seat = Callable[..., Desk]


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


@pytest.fixture
def seat(disk: FaultDisk) -> Iterator[Seat]:
    """Opens desks, and closes them whatever happens."""
    desks: list[Desk] = []

    def take(**settings: int) -> Desk:
        desks.append(Desk(disk, WriterSettings(**settings)))
        return desks[-1]

    yield take
    for desk in desks:
        desk.close()


# Handing over


def test_whoever_hands_over_much_wakes_the_writer_once(disk: FaultDisk) -> None:
    log, answers = open_log(disk), Answers()
    with Writer(deliver=answers.deliver) as writer:
        for number in range(10):
            writer.submit(log, new_records([number]), answers.done(number), wake=False)
        writer.wake()
        answers.wait_for(10)
    assert payloads(log) == [expected_payload(number) for number in range(10)]


def test_a_writer_that_has_enough_for_a_turn_need_not_be_woken(disk: FaultDisk) -> None:
    log, answers = open_log(disk), Answers()
    with Writer(WriterSettings(max_batch_bytes=1), deliver=answers.deliver) as writer:
        writer.submit(log, new_records([0]), answers.done(0), wake=False)
        answers.wait_for(1)


def test_who_waits_for_room_has_woken_the_writer(disk: FaultDisk) -> None:
    log, answers = open_log(disk), Answers()
    with Writer(WriterSettings(max_queue_requests=1), deliver=answers.deliver) as writer:
        for number in range(3):
            writer.submit(log, new_records([number]), answers.done(number), wake=False)
        writer.wake()
        answers.wait_for(3)


def test_who_finds_the_queue_full_has_woken_the_writer(disk: FaultDisk) -> None:
    log, answers = open_log(disk), Answers()
    with Writer(WriterSettings(max_queue_requests=1), deliver=answers.deliver) as writer:
        writer.submit(log, new_records([0]), answers.done(0), wake=False)
        with pytest.raises(QueueFull):
            writer.submit(log, new_records([1]), answers.done(1), wait=False, wake=False)
        answers.wait_for(1)


# Many callers


def test_many_threads_get_contiguous_offsets_and_one_answer_each(disk: FaultDisk) -> None:
    log = open_log(disk)
    taken: list[tuple[Appended, int]] = []

    def appending(thread: int) -> Callable[[], None]:
        def append() -> None:
            random = Random(thread)
            for turn in range(40):
                number = thread * 1000 + turn
                count = random.randint(1, 3)
                ack = random.choice(list(Ack))
                appended = writer.append(log, [new_record(number, span=2) for _ in range(count)], ack)
                assert appended.count == 2 * count
                taken.append((appended, number))

        return append

    with Writer() as writer:
        crew = Crew()
        crew.start_all([appending(thread) for thread in range(8)])
        crew.join()
    end = 0
    for appended, number in sorted(taken):
        assert appended.base_offset == end
        end += appended.count
        for offset in range(appended.base_offset, end):
            assert bytes(log.fetch(offset).payload) == expected_payload(number)
    assert (len(taken), log.end_offset, log.unsynced_offsets) == (8 * 40, end, 0)


def test_a_thousand_logs_need_two_threads(disk: FaultDisk) -> None:
    logs = [open_log(disk, f"/{number}") for number in range(1000)]
    answers = Answers()
    before = threading.active_count()
    with Writer(deliver=answers.deliver) as writer:
        for number, log in enumerate(logs):
            writer.submit(log, new_records([number]), answers.done(number))
        assert threading.active_count() == before + 2
    assert threading.active_count() == before
    assert answers.outcomes == dict.fromkeys(range(1000), Appended(0, 1))
    for number, log in enumerate(logs):
        assert payloads(log) == [expected_payload(number)]


# Groups


def test_what_arrives_during_a_sync_is_one_group(seat: Seat) -> None:
    desk = seat()
    for number in range(1, 51):
        desk.submit(number)
    assert desk.answers.outcomes == {}
    desk.gate.let_pass()
    desk.gate.wait_for_sync()
    assert desk.answers.outcomes == {0: Appended(0, 1)}, "the second group is not synced yet"
    assert desk.log.end_offset == 1, "and nobody sees it"
    desk.gate.let_pass()
    desk.answers.wait_for(51)
    assert desk.gate.operations() == ["write", "fdatasync", "write", "fdatasync"]
    assert desk.answers.deliveries == [1, 50]
    assert desk.answers.outcomes == {number: Appended(number, 1) for number in range(51)}
    assert payloads(desk.log) == [expected_payload(number) for number in range(51)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"max_batch_records": 4}, [1, 4, 4, 2]),
        ({"max_batch_bytes": 3 * 77}, [1, 3, 3, 3, 1]),
        ({"max_batch_bytes": 1}, [1] * 11),
    ],
)
def test_a_group_is_bounded(seat: Seat, settings: dict[str, int], expected: list[int]) -> None:
    desk = seat(**settings)
    for number in range(1, 11):
        desk.submit(number)
    desk.gate.open()
    desk.answers.wait_for(11)
    assert desk.answers.deliveries == expected
    assert desk.gate.operations() == ["write", "fdatasync"] * len(expected)


def test_a_group_may_fill_several_segments(disk: FaultDisk, seat: Seat) -> None:
    desk = seat()
    small = open_log(disk, "/small", segment_max_bytes=700)
    random = Random(5)
    requests = {
        number: [new_record(number, random.randrange(300), span=random.choice((1, 4))) for _ in range(3)]
        for number in range(1, 31)
    }
    for number, records in requests.items():
        desk.writer.submit(small, records, desk.answers.done(number))
    desk.gate.open()
    desk.answers.wait_for(31)
    assert desk.answers.deliveries == [1, 30]
    assert len(small.segments) > 10
    offset = 0
    for number, records in requests.items():
        assert desk.answers.outcomes[number] == Appended(offset, sum(record.span for record in records))
        for record in records:
            assert bytes(small.fetch(offset).payload) == record.payload
            offset += record.span


def test_a_group_lingers_for_more(disk: FaultDisk) -> None:
    log, time, answers = open_log(disk), SteppedTime(), Answers()
    settings = WriterSettings(linger_ms=2, max_batch_records=5)
    with Writer(settings, deliver=answers.deliver, monotonic=time) as writer:
        for number in range(3):
            writer.submit(log, new_records([number]), answers.done(number))
            time.wait_for_looks()
        assert answers.outcomes == {}
        time.now_s += 1
        answers.wait_for(3)
        for number in range(3, 8):  # a full group does not linger
            writer.submit(log, new_records([number]), answers.done(number))
        answers.wait_for(8)
    assert answers.deliveries == [3, 5]


# What is promised when


def test_after_write_is_answered_before_the_sync_of_its_turn(seat: Seat) -> None:
    desk = seat()
    desk.submit(1, Ack.AFTER_WRITE)
    desk.submit(2, Ack.AFTER_FSYNC)
    desk.submit(3, Ack.AFTER_WRITE)
    desk.gate.let_pass()
    desk.gate.wait_for_sync()
    assert desk.answers.outcomes.keys() == {0, 1, 3}
    assert desk.answers.deliveries == [1, 2]
    desk.gate.let_pass()
    desk.answers.wait_for(4)
    assert desk.answers.deliveries == [1, 2, 1]


def test_after_write_alone_is_synced_when_it_is_due(disk: FaultDisk) -> None:
    log, time = open_log(disk), SteppedTime()
    with Writer(WriterSettings(flush_ms=5), monotonic=time) as writer:
        assert writer.append(log, new_records([0]), Ack.AFTER_WRITE) == Appended(0, 1)
        time.wait_for_looks()
        assert log.unsynced_offsets == 1
        assert payloads(open_log(disk.crash(Fate.DROP, Random(0)))) == []
        time.now_s += 1
        wait_until(lambda: log.unsynced_offsets == 0, "the sync that is due")
        assert payloads(open_log(disk.crash(Fate.DROP, Random(0)))) == [expected_payload(0)]


def test_after_write_is_synced_soon_in_real_time(disk: FaultDisk) -> None:
    log = open_log(disk)
    with Writer(WriterSettings(flush_ms=1)) as writer:
        for number in range(20):
            writer.append(log, new_records([number]), Ack.AFTER_WRITE)
            wait_until(lambda: log.unsynced_offsets == 0, "the sync that is due")


def test_what_is_written_beside_a_sync_is_synced_in_time_too(seat: Seat) -> None:
    desk = seat(overlap_bytes=0, flush_ms=0)
    desk.submit(1, Ack.AFTER_WRITE)
    wait_until(lambda: 1 in desk.answers.outcomes, "the answer after the write")
    desk.gate.let_pass()
    desk.gate.wait_for_sync()  # nobody waits for this one
    desk.gate.let_pass()
    wait_until(lambda: desk.log.unsynced_offsets == 0, "the sync that is due")


def test_close_commits_what_waits_and_syncs_what_does_not(disk: FaultDisk, seat: Seat) -> None:
    desk = seat(flush_ms=1 << 30)
    for number in range(1, 20):
        desk.submit(number, Ack.AFTER_WRITE if number % 2 else Ack.AFTER_FSYNC)
    last = open_log(disk, "/last")
    desk.submit(20, Ack.AFTER_WRITE, log=last)
    desk.close()
    assert desk.answers.outcomes == {number: Appended(number, 1) for number in range(20)} | {
        20: Appended(0, 1)
    }
    for log in (desk.log, last):
        assert len(payloads(open_log(disk.crash(Fate.DROP, Random(0)), log.path))) == log.end_offset
    with pytest.raises(LogClosed):
        desk.submit(21)
    with pytest.raises(LogClosed):
        desk.writer.append(desk.log, new_records([21]))


# Bounds


@pytest.mark.parametrize("settings", [{"max_queue_requests": 2}, {"max_queue_bytes": 2 * 77}])
def test_a_full_queue_refuses_or_waits(seat: Seat, settings: dict[str, int]) -> None:
    desk = seat(**settings)
    desk.submit(1)
    desk.submit(2)
    with pytest.raises(QueueFull):
        desk.submit(3)
    crew = Crew()
    waiting = [
        lambda number=number: desk.writer.submit(desk.log, new_records([number]), desk.answers.done(number))
        for number in (4, 5, 6, 7)
    ]
    crew.start_all(waiting)
    assert desk.answers.outcomes == {}
    desk.gate.open()
    crew.join()
    desk.answers.wait_for(7)
    assert 3 not in desk.answers.outcomes
    assert sorted(payloads(desk.log)) == [expected_payload(number) for number in (0, 1, 2, 4, 5, 6, 7)]


def test_a_request_larger_than_the_queue_is_taken_when_nothing_waits(seat: Seat) -> None:
    desk = seat(max_queue_bytes=100)
    desk.writer.submit(desk.log, new_records([1], 5000), desk.answers.done(1), wait=False)
    with pytest.raises(QueueFull):
        desk.writer.submit(desk.log, new_records([2], 1), desk.answers.done(2), wait=False)
    desk.gate.open()
    desk.answers.wait_for(2)
    assert bytes(desk.log.fetch(1).payload) == expected_payload(1, 5000)


def test_closing_tells_those_who_wait_for_room(seat: Seat) -> None:
    desk = seat(max_queue_requests=1)
    desk.submit(1)
    refused = threading.Event()

    def submit() -> None:
        with pytest.raises(LogClosed):
            desk.writer.submit(desk.log, new_records([2]), desk.answers.done(2))
        refused.set()

    crew = Crew()
    crew.start(submit)
    crew.start(desk.writer.close)
    assert refused.wait(DEADLINE_S)
    desk.gate.open()
    crew.join()
    assert desk.answers.outcomes == {0: Appended(0, 1), 1: Appended(1, 1)}


def test_a_callback_may_submit_again(disk: FaultDisk) -> None:
    log, finished = open_log(disk), threading.Event()

    def again(number: int) -> Callable[[Appended | Exception], None]:
        def done(outcome: Appended | Exception) -> None:
            assert outcome == Appended(number, 1)
            if number == 200:
                finished.set()
            else:
                writer.submit(log, new_records([number + 1]), again(number + 1), wait=False)

        return done

    with Writer() as writer:
        writer.submit(log, new_records([0]), again(0))
        assert finished.wait(DEADLINE_S)
    assert len(payloads(log)) == 201


# Failures


def test_a_record_that_is_refused_spoils_nobodys_group(seat: Seat) -> None:
    desk = seat()
    desk.submit(1)
    with pytest.raises(RecordTooLarge):
        desk.writer.submit(desk.log, new_records([2], 1 << 28), desk.answers.done(2))
    with pytest.raises(ValueError, match="span"):
        desk.writer.submit(desk.log, [new_record(2, span=0)], desk.answers.done(2))
    desk.submit(3)
    desk.gate.open()
    desk.answers.wait_for(3)
    assert payloads(desk.log) == [expected_payload(number) for number in (0, 1, 3)]


@pytest.mark.parametrize("operation", ["write", "fdatasync"])
def test_a_log_that_fails_takes_no_other_with_it(disk: FaultDisk, seat: Seat, operation: Operation) -> None:
    desk = seat()
    bad = open_log(disk, "/bad")
    bad.append(new_records([100]))
    disk.fail(operation, errno.EIO, path_contains="/bad/segments/")
    desk.submit(1)
    desk.submit(2, log=bad)
    desk.submit(3)
    desk.submit(4, log=bad)
    desk.gate.open()
    desk.answers.wait_for(5)
    assert [desk.answers.outcomes[number] for number in (0, 1, 3)] == [(0, 1), (1, 1), (2, 1)]
    for number in (2, 4):
        assert isinstance(desk.answers.outcomes[number], DiskError)
    assert payloads(bad) == [expected_payload(100)]
    with pytest.raises(LogStopped):
        desk.writer.append(bad, new_records([5]))
    assert desk.writer.append(desk.log, new_records([6])) == Appended(3, 1)
    bad.close()
    reopened = open_log(disk, "/bad")
    assert payloads(reopened) == [expected_payload(100)]
    assert desk.writer.append(reopened, new_records([7])) == Appended(1, 1)


def test_a_failed_sync_does_not_take_back_what_was_answered_after_write(disk: FaultDisk, seat: Seat) -> None:
    desk = seat()
    bad = open_log(disk, "/bad")
    disk.fail("fdatasync", errno.EIO, path_contains="/bad/segments/")
    desk.submit(1, Ack.AFTER_WRITE, log=bad)
    desk.submit(2, Ack.AFTER_FSYNC, log=bad)
    desk.gate.open()
    desk.answers.wait_for(3)
    assert desk.answers.outcomes[1] == Appended(0, 1)
    assert isinstance(desk.answers.outcomes[2], DiskError)
    assert payloads(open_log(disk.crash(Fate.KEEP, Random(0)), "/bad"))[0] == expected_payload(1)


def test_a_log_that_was_closed_fails_alone(disk: FaultDisk, seat: Seat) -> None:
    desk = seat()
    gone = open_log(disk, "/gone")
    desk.submit(1, log=gone)
    desk.submit(2)
    gone.close()
    desk.gate.open()
    desk.answers.wait_for(3)
    assert isinstance(desk.answers.outcomes[1], LogClosed)
    assert desk.answers.outcomes[2] == Appended(1, 1)


def test_a_callback_that_raises_does_not_end_the_writer(disk: FaultDisk) -> None:
    def fail(outcome: Appended | Exception) -> None:
        raise RuntimeError("a caller's mistake")

    log, answers = open_log(disk), Answers()
    with Writer() as writer:
        writer.submit(log, new_records([0]), fail)
        writer.submit(log, new_records([1]), answers.done(1))
    assert answers.outcomes == {1: Appended(1, 1)}


@pytest.mark.parametrize("name", ["max_queue_bytes", "max_queue_requests", "max_batch_bytes", "linger_ms"])
def test_settings_have_limits(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        WriterSettings(**{name: -1})


def test_a_sync_that_fails_is_no_matter_of_who_does_not_wait_for_it(
    disk: FaultDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large turn the sync may fail before those are answered who only wait for the write."""
    log = open_log(disk)
    written, synced = (
        _Request(log, new_records([number]), 1, ack, Answers().done(number), log.write(new_records([number])))
        for number, ack in enumerate((Ack.AFTER_WRITE, Ack.AFTER_FSYNC))
    )

    def fail() -> None:
        raise OSError(errno.EIO, "no sync")

    monkeypatch.setattr(log, "sync", fail)
    with Writer() as writer:
        writer._sync_turn(_Turn([written, synced]))
    assert written.outcome == Appended(0, 1)
    assert isinstance(synced.outcome, OSError)
