"""The fault disk's other faults: torn appends, errors on demand, limits, observers."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest

from barbicel.disk import Disk
from barbicel.errors import DiskError, LogLocked
from tests.support.fault_disk import SECTOR_BYTES, Call, Fate, FaultDisk, Operation, PowerCut

RNG = random.Random(0)


@pytest.fixture
def disk() -> FaultDisk:
    disk = FaultDisk()
    disk.put("/d/a", b"synced")
    return disk


def dropped(disk: FaultDisk) -> dict[str, bytes]:
    return disk.crash(Fate.DROP, RNG).files()


def refused(call: Callable[[], object]) -> tuple[str, int | None]:
    with pytest.raises(DiskError) as caught:
        call()
    return caught.value.operation, caught.value.errno


# Crashes


def test_an_append_can_be_torn_at_every_byte(disk: FaultDisk) -> None:
    file = disk.open("/d/a", "write")
    data = bytes(range(1, 21))
    kept: list[bytes] = []
    fates: set[bytes] = set()

    def cut(call: Call) -> None:
        assert (call.operation, call.path, call.data) == ("write", "/d/a", data)
        for k in range(len(data) + 1):
            kept.append(disk.crash(Fate.KEEP, RNG, torn_append=k).files()["/d/a"])
            assert disk.crash(Fate.DROP, RNG, torn_append=k).files() == {"/d/a": b"synced"}
        for seed in range(40):
            after = disk.crash(Fate.TEAR, random.Random(seed), torn_append=5)
            fates.add(after.files()["/d/a"])
        assert disk.files() == {"/d/a": b"synced"}

    disk.observer = cut
    file.append([data[:3], data[3:]])
    assert kept == [b"synced" + data[:k] for k in range(len(data) + 1)]
    assert fates == {b"synced", b"synced" + bytes(5), b"synced" + data[:5]}
    assert disk.files() == {"/d/a": b"synced" + data}


def test_a_torn_append_starts_at_the_end_of_its_handle(disk: FaultDisk) -> None:
    file = disk.open("/d/a", "write")
    file.preallocate(20)
    found: list[bytes] = []
    disk.observer = lambda _: found.append(disk.crash(Fate.KEEP, RNG, torn_append=2).files()["/d/a"])
    file.append([b"1234"])
    assert found == [b"synced12".ljust(20, b"\0")]


def test_only_an_append_can_be_torn(disk: FaultDisk) -> None:
    disk.open("/d/a", "write").append([b"done"])
    with pytest.raises(ValueError, match="no append is under way"):
        disk.crash(Fate.KEEP, RNG, torn_append=1)


def test_a_crash_leaves_the_disk_and_its_program_alone(disk: FaultDisk) -> None:
    lock = disk.lock("/d/LOCK")
    file = disk.open("/d/a", "write")
    file.append([b" and written"])
    for fate in Fate:
        found = disk.crash(fate, RNG)
        other = found.open("/d/a", "write")
        other.truncate(0)
        other.append([b"changed"])
        found.unlink("/d/a")
        found.lock("/d/LOCK").release()  # the lock's holder is dead there
    with pytest.raises(LogLocked):
        disk.lock("/d/LOCK")
    file.append([b", on"])
    assert disk.files()["/d/a"] == b"synced and written, on"
    assert dropped(disk) == {"/d/a": b"synced"}
    lock.release()


def test_a_found_disk_is_synced_unobserved_and_healthy(disk: FaultDisk) -> None:
    disk.open("/d/b", "create").append([b"kept"])
    disk.fail("write", errno.EIO, times=100)
    disk.read_only = True
    disk.capacity_bytes = 0
    disk.observer = lambda call: pytest.fail(f"unexpected {call}")
    found = disk.crash(Fate.KEEP, RNG)
    assert dropped(found) == {"/d/a": b"synced", "/d/b": b"kept"}
    found.open("/d/c", "create").append([b"works"])
    assert found.calls == 2


def test_the_same_seed_finds_the_same_disk(disk: FaultDisk) -> None:
    for number in range(10):
        disk.open(f"/d/{number}", "create").append([bytes([number]) * 2000])
    first = disk.crash(Fate.TEAR, random.Random(5)).files()
    assert first == disk.crash(Fate.TEAR, random.Random(5)).files()
    assert first != disk.crash(Fate.TEAR, random.Random(6)).files()


# Failed syncs


def test_after_a_failed_sync_the_page_cache_lies(disk: FaultDisk) -> None:
    file = disk.open("/d/a", "write")
    file.append([b"lost"])
    disk.fail("fdatasync", errno.EIO)
    assert refused(file.fdatasync) == ("fdatasync", errno.EIO)
    assert file.pread(100, 0) == b"syncedlost"
    file.fdatasync()
    assert file.pread(100, 0) == b"syncedlost"
    assert dropped(disk) == {"/d/a": b"synced"}
    for seed in range(40):
        assert disk.crash(Fate.TEAR, random.Random(seed)).files() == {"/d/a": b"synced"}
    assert disk.crash(Fate.KEEP, RNG).files() == {"/d/a": b"syncedlost"}


def test_bytes_written_again_after_a_failed_sync_are_kept(disk: FaultDisk) -> None:
    file = disk.open("/d/a", "write")
    file.append([b"again"])
    disk.fail("fdatasync", errno.EIO)
    refused(file.fdatasync)
    file.end = 6
    file.append([b"again"])
    file.fdatasync()
    assert dropped(disk) == {"/d/a": b"syncedagain"}


def test_bytes_behind_lost_ones_are_kept_and_the_lost_are_a_hole(disk: FaultDisk) -> None:
    disk.put("/d/a", b"s" * SECTOR_BYTES)
    file = disk.open("/d/a", "write")
    file.append([b"l" * SECTOR_BYTES])
    disk.fail("fdatasync", errno.EIO)
    refused(file.fdatasync)
    file.append([b"k" * SECTOR_BYTES])
    file.fdatasync()
    assert disk.files()["/d/a"] == b"s" * 512 + b"l" * 512 + b"k" * 512
    assert dropped(disk)["/d/a"] == b"s" * 512 + bytes(512) + b"k" * 512


def test_zeros_in_the_place_of_bytes_whose_end_was_lost_are_kept(disk: FaultDisk) -> None:
    file = disk.open("/d/a", "write")
    file.truncate(0)
    disk.fail("fdatasync", errno.EIO)
    refused(file.fdatasync)
    assert dropped(disk) == {"/d/a": b"synced"}
    file.preallocate(6)
    file.fdatasync()
    assert dropped(disk) == {"/d/a": bytes(6)}


def test_a_failed_directory_sync_may_be_tried_again(disk: FaultDisk) -> None:
    disk.open("/d/b", "create").close()
    disk.fail("fsync", errno.EIO)
    assert refused(lambda: disk.sync_directory("/d")) == ("fsync", errno.EIO)
    assert dropped(disk) == {"/d/a": b"synced"}
    disk.sync_directory("/d")
    assert dropped(disk) == {"/d/a": b"synced", "/d/b": b""}


# Errors on demand

FAILING: list[tuple[Operation, str, Callable[[Disk], object]]] = [
    ("create", "open", lambda disk: disk.open("/d/new", "create")),
    ("open", "open", lambda disk: disk.open("/d/new", "create")),
    ("open", "open", lambda disk: disk.open("/d/a", "read")),
    ("write", "write", lambda disk: disk.open("/d/a", "write").append([b"x"])),
    ("preallocate", "preallocate", lambda disk: disk.open("/d/a", "write").preallocate(10)),
    ("truncate", "truncate", lambda disk: disk.open("/d/a", "write").truncate(0)),
    ("fdatasync", "fdatasync", lambda disk: disk.open("/d/a", "write").fdatasync()),
    ("rename", "rename to /d/b", lambda disk: disk.rename("/d/a", "/d/b")),
    ("unlink", "unlink", lambda disk: disk.unlink("/d/a")),
    ("mkdir", "mkdir", lambda disk: disk.make_directory("/e")),
    ("fsync", "fsync", lambda disk: disk.sync_directory("/d")),
    ("lock", "lock", lambda disk: disk.lock("/d/LOCK")),
    ("read", "read", lambda disk: disk.open("/d/a", "read").pread(1, 0)),
    ("stat", "stat", lambda disk: disk.open("/d/a", "read").size()),
    ("list", "list", lambda disk: disk.list("/d")),
    ("close", "close", lambda disk: disk.open("/d/a", "read").close()),
]


@pytest.mark.parametrize(("operation", "name", "call"), FAILING)
def test_every_operation_can_fail_and_then_does_nothing(
    disk: FaultDisk, operation: Operation, name: str, call: Callable[[Disk], object]
) -> None:
    disk.fail(operation, errno.EIO)
    assert refused(lambda: call(disk)) == (name, errno.EIO)
    assert disk.files() == {"/d/a": b"synced"}
    assert not disk.exists("/e")
    call(disk)


def test_a_fault_waits_matches_and_ends(disk: FaultDisk) -> None:
    disk.fail("write", errno.EIO, path_contains="b", after=1, partial=2, times=2)
    other = disk.open("/d/a", "write")
    file = disk.open("/d/b", "create")
    file.append([b"first "])
    other.append([b" too"])
    for _ in range(2):
        assert refused(lambda: file.append([b"second"])) == ("write", errno.EIO)
        assert (file.end, file.size()) == (6, 8)
    file.append([b"third"])
    assert disk.files() == {"/d/a": b"synced too", "/d/b": b"first third"}


def test_a_fault_matches_a_rename_by_its_target(disk: FaultDisk) -> None:
    disk.fail("rename", errno.EACCES, path_contains="target")
    disk.rename("/d/a", "/d/b")
    assert refused(lambda: disk.rename("/d/b", "/d/target"))[1] == errno.EACCES
    assert disk.files() == {"/d/b": b"synced"}


# Limits


def test_a_full_disk_takes_what_fits_and_no_more(disk: FaultDisk) -> None:
    disk.capacity_bytes = 20
    file = disk.open("/d/b", "create")
    file.preallocate(10)
    assert refused(lambda: file.preallocate(15)) == ("preallocate", errno.ENOSPC)
    file.append([b"0123456789"])  # into the room that it has already
    with pytest.raises(DiskError, match="the disk is full: free some space"):
        file.append([b"abcdefgh"])
    assert (file.end, file.pread(100, 0)) == (10, b"0123456789abcd")
    assert refused(lambda: file.append([b"x" * 5])) == ("write", errno.ENOSPC)
    disk.unlink("/d/a")
    file.append([b"ABCDEFGH"])
    assert disk.files() == {"/d/b": b"0123456789ABCDEFGH"}


REFUSED_WHEN_READ_ONLY: list[tuple[str, Callable[[Disk], object]]] = [
    ("open", lambda disk: disk.open("/d/new", "create")),
    ("open", lambda disk: disk.open("/d/a", "write")),
    ("open", lambda disk: disk.lock("/d/a")),
    ("open", lambda disk: disk.lock("/d/LOCK")),
    ("rename to /d/b", lambda disk: disk.rename("/d/a", "/d/b")),
    ("unlink", lambda disk: disk.unlink("/d/a")),
    ("mkdir", lambda disk: disk.make_directory("/d/new")),
]


@pytest.mark.parametrize(("operation", "call"), REFUSED_WHEN_READ_ONLY)
def test_a_read_only_disk_refuses_changes(
    disk: FaultDisk, operation: str, call: Callable[[Disk], object]
) -> None:
    disk.read_only = True
    assert refused(lambda: call(disk)) == (operation, errno.EROFS)
    assert disk.files() == {"/d/a": b"synced"}
    disk.make_directory("/d")
    disk.sync_directory("/d")
    assert disk.open("/d/a", "read").pread(3, 0) == b"syn"


def test_a_disk_that_turns_read_only_stops_open_files(disk: FaultDisk) -> None:
    file = disk.open("/d/a", "write")
    file.append([b" not"])
    disk.open("/d/b", "create").close()
    disk.read_only = True
    assert refused(lambda: file.append([b"x"])) == ("write", errno.EROFS)
    assert refused(lambda: file.preallocate(100)) == ("preallocate", errno.EROFS)
    assert refused(lambda: file.truncate(0)) == ("truncate", errno.EROFS)
    assert refused(file.fdatasync) == ("fdatasync", errno.EROFS)
    assert refused(lambda: disk.sync_directory("/d")) == ("fsync", errno.EROFS)
    assert dropped(disk) == {"/d/a": b"synced"}


# Observers


def program(disk: Disk) -> None:
    disk.make_directory("/d/e")
    file = disk.open("/d/e/x", "create")
    try:
        file.append([b"ab", b"c"])
        file.pread(1, 0)
        file.preallocate(30)
        file.truncate(2)
        file.fdatasync()
    finally:
        file.close()
    disk.rename("/d/e/x", "/d/e/y")
    disk.list("/d/e")
    disk.sync_directory("/d/e")
    disk.unlink("/d/e/y")
    disk.lock("/d/e/LOCK").release()


CALLS = [
    Call(1, "mkdir", "/d/e", b"", 0, ""),
    Call(2, "create", "/d/e/x", b"", 0, ""),
    Call(3, "write", "/d/e/x", b"abc", 0, ""),
    Call(4, "preallocate", "/d/e/x", b"", 30, ""),
    Call(5, "truncate", "/d/e/x", b"", 2, ""),
    Call(6, "fdatasync", "/d/e/x", b"", 0, ""),
    Call(7, "rename", "/d/e/x", b"", 0, "/d/e/y"),
    Call(8, "fsync", "/d/e", b"", 0, ""),
    Call(9, "unlink", "/d/e/y", b"", 0, ""),
    Call(10, "lock", "/d/e/LOCK", b"", 0, ""),
]


def test_an_observer_sees_every_change_before_it_happens(disk: FaultDisk) -> None:
    seen: list[Call] = []
    disk.observer = seen.append
    program(disk)
    assert seen == CALLS
    assert disk.calls == len(CALLS)


def test_reads_are_numbered_on_request(disk: FaultDisk) -> None:
    seen: list[Call] = []
    disk.observer = seen.append
    disk.observe_reads = True
    program(disk)
    changes = [call.operation for call in CALLS]
    operations = [call.operation for call in seen]
    assert [call.number for call in seen] == list(range(1, disk.calls + 1))
    assert operations == [
        *changes[:3], "read", *changes[3:6], "close", changes[6], "list", *changes[7:]
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(1, len(CALLS) + 1))
def test_an_observer_stops_the_program_before_a_call(disk: FaultDisk, number: int) -> None:
    unstopped = disk.crash(Fate.KEEP, RNG)
    states: list[dict[str, bytes]] = []
    unstopped.observer = lambda _: states.append(unstopped.files())
    program(unstopped)

    def stop(call: Call) -> None:
        if call.number >= number:
            raise PowerCut

    disk.observer = stop
    with pytest.raises(PowerCut):
        program(disk)
    assert disk.calls == number
    assert disk.files() == states[number - 1]
