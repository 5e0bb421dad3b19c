"""Failures that pass: a file that cannot be opened, a disk without room. The log goes on after them."""

from __future__ import annotations

import errno
from random import Random

import pytest

from barbicel.errors import DiskError, EarlierAppendFailed, LogStopped
from barbicel.keratin import Ack, Log, NewRecord
from barbicel.keratin.handles import HandleBudget
from barbicel.keratin.retention import RetentionRules
from barbicel.keratin.writer import Writer
from tests.keratin.builders import SMALL, Answers, ManualClock, log_files, open_log, payloads
from tests.support.fault_disk import Call, Fate, FaultDisk
from tests.support.faults import Operation

FILES_OF_A_SEGMENT = 4
PASSING: list[tuple[Operation, int]] = [
    ("open", errno.EMFILE),
    ("fsync", errno.EMFILE),
    ("open", errno.ENOSPC),
    ("write", errno.ENOSPC),
    ("rename", errno.ENOSPC),
]


def calls_of_a_roll(operation: Operation) -> int:
    """How many calls of a kind a roll makes."""
    disk = FaultDisk()
    log = open_log(disk)
    log.append([NewRecord(b"old")])
    calls: list[Call] = []
    disk.observe_reads = True
    disk.observer = calls.append
    log.roll()
    wanted = ("open", "create") if operation == "open" else (operation,)
    return sum(call.operation in wanted for call in calls)


def check_every_crash(disk: FaultDisk, expected: list[bytes]) -> None:
    for fate in Fate:
        found = open_log(disk.crash(fate, Random(1)))
        assert not found.damage
        assert payloads(found) == expected
        assert found.append([NewRecord(b"after")]).base_offset == len(expected)


@pytest.mark.parametrize(("operation", "error"), PASSING)
def test_a_roll_that_fails_in_passing_fails_the_append_and_the_next_one_tries_again(
    operation: Operation, error: int
) -> None:
    for number in range(calls_of_a_roll(operation)):
        disk = FaultDisk()
        log = open_log(disk)
        log.append([NewRecord(b"a" * 1500)])
        disk.fail(operation, error, after=number)
        with pytest.raises(DiskError):
            log.append([NewRecord(b"b" * 900)])
        assert log.is_writable
        assert log.end_offset == 1
        check_every_crash(disk, [b"a" * 1500])
        # A small one would have had room in the old segment.
        log.append([NewRecord(b"c")])
        log.append([NewRecord(b"d" * 900)])
        expected = [b"a" * 1500, b"c", b"d" * 900]
        assert payloads(log) == expected
        check_every_crash(disk, expected)
        log.close()
        assert payloads(open_log(disk)) == expected


@pytest.mark.parametrize(("operation", "error"), PASSING)
def test_a_log_whose_roll_has_failed_can_be_closed_trimmed_and_checkpointed(
    operation: Operation, error: int
) -> None:
    for number in range(calls_of_a_roll(operation)):
        for step in (Log.close, Log.checkpoint, Log.roll, lambda log: log.truncate_before(1)):
            disk = FaultDisk()
            log = open_log(disk)
            log.append([NewRecord(b"a")])
            log.append([NewRecord(b"b")])
            disk.fail(operation, error, after=number)
            with pytest.raises(DiskError):
                log.roll()
            step(log)
            if step is not Log.close:
                assert log.append([NewRecord(b"c")]).base_offset == 2
                log.close()
            reopened = open_log(disk)
            assert not reopened.damage
            assert bytes(reopened.fetch(1).payload) == b"b"


@pytest.mark.parametrize("partial", [0, 1, 40, 700])
def test_a_full_disk_fails_the_append_and_takes_the_next_when_there_is_room(partial: int) -> None:
    disk = FaultDisk()
    log = open_log(disk)
    log.append([NewRecord(b"safe")])
    log.write([NewRecord(b"under way")])
    disk.fail("write", errno.ENOSPC, path_contains=".log", partial=partial)
    with pytest.raises(DiskError, match="the disk is full"):
        log.append([NewRecord(b"x" * 900)])
    assert log.is_writable
    assert log.append([NewRecord(b"room again")]).base_offset == 2
    expected = [b"safe", b"under way", b"room again"]
    assert payloads(log) == expected
    check_every_crash(disk, expected)


def test_what_cannot_be_cut_off_stops_the_log() -> None:
    disk = FaultDisk()
    log = open_log(disk)
    log.append([NewRecord(b"safe")])
    disk.fail("write", errno.ENOSPC, path_contains=".log", partial=20)
    disk.fail("truncate", errno.EIO)
    with pytest.raises(DiskError):
        log.append([NewRecord(b"doomed")])
    with pytest.raises(LogStopped, match="takes no writes since this failed"):
        log.append([NewRecord(b"never")])
    check_every_crash(disk, [b"safe"])


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_sync_that_finds_no_room_stops_the_log(error: int) -> None:
    disk = FaultDisk()
    log = open_log(disk)
    log.append([NewRecord(b"safe")])
    disk.fail("fdatasync", error, path_contains=".log")
    with pytest.raises(DiskError):
        log.append([NewRecord(b"doomed")])
    with pytest.raises(LogStopped, match="takes no writes since this failed"):
        log.append([NewRecord(b"never")])


def test_an_append_that_fails_between_two_segments_stops_the_log() -> None:
    """Its first records are in the log already, and nobody may count on an answer about them."""
    disk = FaultDisk()
    log = open_log(disk)
    disk.fail("open", errno.EMFILE, path_contains=".idx.new")
    with pytest.raises(DiskError):
        log.append([NewRecord(b"a" * 900), NewRecord(b"b" * 900), NewRecord(b"c" * 900)])
    with pytest.raises(LogStopped):
        log.append([NewRecord(b"never")])


def test_a_checkpoint_that_finds_no_room_is_made_later() -> None:
    disk = FaultDisk()
    log = open_log(disk, checkpoint_bytes=100)
    disk.fail("write", errno.ENOSPC, path_contains="manifest.new")
    log.append([NewRecord(b"a" * 200)])
    log.append([NewRecord(b"b" * 200)])
    assert payloads(open_log(disk.crash(Fate.DROP, Random(0)))) == [b"a" * 200, b"b" * 200]


# --- deleting when the disk is full ---------------------------------------------------------------------


def full_log(clock: ManualClock) -> tuple[FaultDisk, Log]:
    disk = FaultDisk()
    log = open_log(disk, clock=clock)
    for number in range(5):
        log.append([NewRecord(b"%d" % number * 900)])
        log.roll()
    log.append([NewRecord(b"last" * 100)])
    disk.capacity_bytes = sum(len(content) for content in disk.files().values())
    return disk, log


def test_records_can_be_deleted_when_not_a_byte_is_left_on_the_disk() -> None:
    disk, log = full_log(ManualClock())
    assert log.truncate_before(2) == 2
    assert bytes(log.fetch(2).payload) == b"2" * 900
    assert len(log_files(disk)) == 4 * FILES_OF_A_SEGMENT
    log.append([NewRecord(b"room again")])
    assert log.end_offset == 7
    log.close()
    reopened = open_log(disk)
    assert (reopened.start_offset, reopened.end_offset) == (2, 7)


def test_all_can_be_deleted_when_not_a_byte_is_left_on_the_disk() -> None:
    disk, log = full_log(ManualClock())
    assert log.truncate_before(6) == 6
    assert len(log_files(disk)) == FILES_OF_A_SEGMENT
    assert log.append([NewRecord(b"room again")]).base_offset == 6
    assert payloads(open_log(disk.crash(Fate.DROP, Random(0)))) == [b"room again"]


def test_retention_makes_room_on_a_full_disk() -> None:
    clock = ManualClock()
    _, log = full_log(clock)
    clock.now_ms += 10_000
    assert log.retain(RetentionRules(None, 5_000)) >= 5
    assert log.append([NewRecord(b"room again")]).base_offset == 6


def test_a_crash_while_a_full_disk_is_trimmed_loses_nothing_more() -> None:
    disk, log = full_log(ManualClock())
    kept = [bytes(record.payload) for record in log.scan(2)]

    def crash(call: Call) -> None:
        for fate in Fate:
            found = disk.crash(fate, Random(call.number))
            found.capacity_bytes = None
            reopened = open_log(found)
            assert not reopened.damage
            assert reopened.start_offset in (0, 2)
            assert [bytes(record.payload) for record in reopened.scan(2)] == kept

    disk.observer = crash
    log.truncate_before(2)
    assert len(kept) == 4


# --- the order of producers -----------------------------------------------------------------------------


def test_what_must_follow_a_failed_append_fails_with_it() -> None:
    disk = FaultDisk()
    log = open_log(disk)
    answers = Answers()
    disk.fail("write", errno.ENOSPC, path_contains=".log")
    with Writer() as writer:
        for number in range(3):
            writer.submit(log, [NewRecord(b"%d" % number, after_failures=0)], answers.done(number))
            answers.wait_for(number + 1)
        writer.submit(log, [NewRecord(b"anybody's")], answers.done(3))
        writer.submit(
            log, [NewRecord(b"again", after_failures=log.failures)], answers.done(4), Ack.AFTER_WRITE
        )
        answers.wait_for(5)
    assert isinstance(answers.outcomes[0], DiskError)
    assert isinstance(answers.outcomes[1], EarlierAppendFailed)
    assert isinstance(answers.outcomes[2], EarlierAppendFailed)
    assert payloads(log) == [b"anybody's", b"again"]


# --- descriptors ----------------------------------------------------------------------------------------


def test_logs_that_share_a_budget_keep_one_file_each_once_it_is_spent() -> None:
    disk, budget = FaultDisk(), HandleBudget(5)
    logs = [Log.open(f"/log{number}", disk=disk, settings=SMALL, handles=budget) for number in range(4)]
    for log in logs:
        for number in range(4):
            log.append([NewRecord(b"%d" % number)])
            log.roll()
        assert [bytes(log.fetch(number).payload) for number in range(4)] == [b"0", b"1", b"2", b"3"]
    assert [log.open_handles for log in logs] == [4, 1, 1, 1]
    logs[0].close()
    assert [bytes(logs[3].fetch(number).payload) for number in range(2)] == [b"0", b"1"]
    assert logs[3].open_handles == 3
