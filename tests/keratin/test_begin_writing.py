"""A log that was opened for reading only, where a full disk kept it from being recovered, takes appends."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from barbicel.errors import DiskError, LogClosed, LogLocked, LogStopped
from barbicel.keratin import Log, NewRecord
from barbicel.keratin.retention import RetentionRules
from tests.keratin.builders import ROOT, SMALL, ManualClock, log_files, open_log, payloads
from tests.support.fault_disk import Call, Fate, FaultDisk

# Nothing that a full disk could get back.
BARE = replace(SMALL, preallocate_min_bytes=0, preallocate_max_bytes=0)
SEALED = 3


def killed(fate: Fate = Fate.KEEP, *, preallocate_max_bytes: int = 0) -> FaultDisk:
    """What a crash leaves on a disk without a byte to spare."""
    disk = FaultDisk()
    log = open_log(disk, preallocate_min_bytes=0, preallocate_max_bytes=preallocate_max_bytes)
    for number in range(SEALED):
        log.append([NewRecord(b"%d" % number * 900)])
        log.roll()
    log.append([NewRecord(b"last" * 100)])
    found = disk.crash(fate, Random(1))
    found.capacity_bytes = found.used_bytes
    return found


def read_only(disk: FaultDisk) -> Log:
    return Log.open(ROOT, disk=disk, settings=BARE, clock=ManualClock(), read_only=True)


EXPECTED = [b"%d" % number * 900 for number in range(SEALED)] + [b"last" * 100]


def test_what_was_allocated_ahead_is_room_for_recovery() -> None:
    disk = killed(preallocate_max_bytes=4096)
    log = open_log(disk)
    assert log.is_writable
    assert payloads(log) == EXPECTED
    assert log.retain(RetentionRules(max_bytes=0)) == SEALED
    assert log.append([NewRecord(b"room again")]).base_offset == len(EXPECTED)


@pytest.mark.parametrize("fate", Fate)
def test_it_takes_appends_when_there_is_room(fate: Fate) -> None:
    disk = killed(fate)
    with pytest.raises(DiskError, match="the disk is full"):
        open_log(disk)
    log = read_only(disk)
    before = disk.used_bytes
    with pytest.raises(DiskError, match="the disk is full"):
        log.begin_writing()
    assert not log.is_writable
    assert disk.used_bytes == before
    assert payloads(log) == EXPECTED
    disk.capacity_bytes = None
    log.begin_writing()
    assert log.append([NewRecord(b"room again")]).base_offset == len(EXPECTED)
    assert payloads(log) == [*EXPECTED, b"room again"]
    log.begin_writing()
    with pytest.raises(LogLocked):
        open_log(disk)
    assert payloads(open_log(disk.crash(fate, Random(2)))) == [*EXPECTED, b"room again"]
    log.close()
    assert open_log(disk).was_clean


def test_a_manifest_is_all_that_needs_room() -> None:
    """An index may have megabytes, and where there is room for one block its log can be trimmed."""
    disk = killed()
    disk.fail("write", errno.ENOSPC, path_contains=".idx.new", times=9)
    disk.capacity_bytes = None
    log = read_only(disk)
    log.begin_writing()
    assert not any("idx.new" in path for path in disk.files())
    assert log.retain(RetentionRules(max_bytes=0)) == SEALED
    assert payloads(log) == EXPECTED[SEALED:]
    for fate in Fate:
        assert payloads(open_log(disk.crash(fate, Random(3)))) == EXPECTED[SEALED:]


def test_torn_bytes_that_cannot_be_kept_aside_stay_and_leave_no_part_of_a_copy() -> None:
    disk = killed()
    path = f"{ROOT}/segments/{SEALED:020d}.log"
    content = disk.files()[path]
    disk.put(path, content + b"torn" * 50)
    disk.capacity_bytes = disk.used_bytes + 40
    log = read_only(disk)
    for _ in range(3):
        with pytest.raises(DiskError, match="the disk is full"):
            log.begin_writing()
    assert not any(".torn-" in name for name in log_files(disk))
    assert disk.files()[path] == content + b"torn" * 50
    disk.capacity_bytes = None
    log.begin_writing()
    assert [data for name, data in disk.files().items() if ".torn-" in name] == [b"torn" * 50]
    assert payloads(log) == EXPECTED


def test_what_was_cut_off_before_there_was_no_room_is_not_put_back_as_zeros() -> None:
    disk = killed()
    path = f"{ROOT}/segments/{SEALED:020d}.log"
    content = disk.files()[path]
    disk.put(path, content + b"torn" * 50)
    disk.capacity_bytes = None
    disk.fail("write", errno.ENOSPC, path_contains="manifest.new")
    with pytest.raises(DiskError, match="the disk is full"):
        open_log(disk)
    assert disk.files()[path] == content
    assert [data for name, data in disk.files().items() if ".torn-" in name] == [b"torn" * 50]
    assert payloads(open_log(disk)) == EXPECTED


def test_if_what_comes_before_fails_nothing_is_appended_and_it_may_be_tried_again() -> None:
    disk = killed()
    disk.capacity_bytes = None
    log = read_only(disk)

    def fail() -> None:
        assert not log.is_writable
        raise OSError("not now")

    with pytest.raises(OSError, match="not now"):
        log.begin_writing(fail)
    with pytest.raises(LogStopped, match="for reading only"):
        log.append([NewRecord(b"x")])
    log.begin_writing()
    assert log.is_writable


def append_one(disk: FaultDisk) -> None:
    with open_log(disk) as other:
        other.append([NewRecord(b"another's")])


def lose_the_first(disk: FaultDisk) -> None:
    disk.unlink(f"{ROOT}/segments/{0:020d}.log")


@pytest.mark.parametrize(
    ("change", "reason"),
    [(append_one, "is another now"), (lose_the_first, "damaged")],
    ids=["longer", "damaged"],
)
def test_files_that_others_have_changed_are_not_written(
    change: Callable[[FaultDisk], None], reason: str
) -> None:
    disk = killed()
    disk.capacity_bytes = None
    log = read_only(disk)
    change(disk)
    before = disk.files()
    with pytest.raises(LogStopped, match=reason):
        log.begin_writing()
    before.pop(f"{ROOT}/LOCK"), (after := disk.files()).pop(f"{ROOT}/LOCK")
    assert after == before


def test_one_that_was_closed_stays_closed_and_is_not_locked() -> None:
    disk = killed()
    disk.capacity_bytes = None
    log = read_only(disk)
    with pytest.raises(LogClosed):
        log.begin_writing(log.close)
    assert open_log(disk).is_writable


def test_what_follows_a_batch_that_was_refused_is_refused_with_it() -> None:
    """`failures` says so: see NewRecord.after_failures."""
    disk = killed()
    disk.capacity_bytes = None
    log = read_only(disk)
    before = log.failures
    log.begin_writing()
    assert log.failures > before


@pytest.mark.parametrize("fate", Fate)
def test_a_crash_at_any_call_loses_nothing(fate: Fate) -> None:
    disk = killed(fate)
    log = read_only(disk)
    calls: list[Call] = []

    def crash(call: Call) -> None:
        calls.append(call)
        found = disk.crash(fate, Random(call.number))
        found.capacity_bytes = None
        reopened = open_log(found)
        assert not reopened.damage
        assert payloads(reopened) == EXPECTED

    disk.observer = crash
    with pytest.raises(DiskError, match="the disk is full"):
        log.begin_writing()
    disk.capacity_bytes = None
    log.begin_writing()
    assert payloads(log) == EXPECTED
    assert len(calls) > 5
