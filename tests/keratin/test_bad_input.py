"""Whatever is wrong with a directory or its disk: an error that names file and position, nothing lost."""

from __future__ import annotations

from random import Random

import pytest
from crc32c import crc32c

from barbicel.errors import (
    BarbicelError,
    CorruptLog,
    DiskError,
    LogLocked,
    LogStopped,
    NotALog,
    UnknownVersion,
)
from barbicel.keratin import Log, LogSettings, NewRecord
from tests.support.fault_disk import Fate, FaultDisk

ROOT = "/log"
SEGMENTS = f"{ROOT}/segments"
LOG_0 = f"{SEGMENTS}/00000000000000000000.log"
SETTINGS = LogSettings(preallocate_min_bytes=4096, preallocate_max_bytes=4096)


def open_log(disk: FaultDisk) -> Log:
    return Log.open(ROOT, disk=disk, settings=SETTINGS, clock=lambda: 1000)


@pytest.fixture
def disk() -> FaultDisk:
    """A closed log: offsets 0 to 2 in a sealed segment, 3 and 4 in the active one."""
    disk = FaultDisk()
    with open_log(disk) as log:
        log.append([NewRecord(b"zero"), NewRecord(b"one"), NewRecord(b"two")])
        log.roll()
        log.append([NewRecord(b"three"), NewRecord(b"four")])
    return disk


def change(disk: FaultDisk, path: str, position: int, data: bytes) -> None:
    content = bytearray(disk.files()[path])
    content[position : position + len(data)] = data
    disk.put(path, bytes(content))


def with_header_crc(data: bytes) -> bytes:
    return data[:64] + crc32c(data[:64]).to_bytes(4, "big") + data[68:]


def test_a_wrong_magic_names_the_file_and_the_rest_stays_readable(disk: FaultDisk) -> None:
    change(disk, LOG_0, 0, b"JUNK")
    log = open_log(disk)
    with pytest.raises(CorruptLog, match="magic b'JUNK.*offsets 0 to 2 cannot be read") as caught:
        log.fetch(1)
    assert (caught.value.path, caught.value.position) == (LOG_0, 0)
    assert bytes(log.fetch(4).payload) == b"four"


def test_an_unknown_version_is_not_touched(disk: FaultDisk) -> None:
    """A newer program wrote it: neither damage nor anything to repair."""
    path = f"{SEGMENTS}/00000000000000000003.log"
    change(disk, path, 8, b"\0\2")
    disk.put(path, with_header_crc(disk.files()[path]))
    before = disk.files()
    with pytest.raises(UnknownVersion, match=r"version 2, only 1 is known") as caught:
        open_log(disk)
    assert (caught.value.path, caught.value.position) == (path, 8)
    assert {name: data for name, data in disk.files().items() if name in before} == before
    with pytest.raises(UnknownVersion):  # and the lock was let go
        open_log(disk)


def test_a_base_offset_that_is_not_the_names(disk: FaultDisk) -> None:
    change(disk, LOG_0, 16, (77).to_bytes(8, "big"))
    disk.put(LOG_0, with_header_crc(disk.files()[LOG_0]))
    log = open_log(disk)
    with pytest.raises(CorruptLog, match="the header says base offset 77, the name 0") as caught:
        list(log.scan(0))
    assert (caught.value.path, caught.value.position) == (LOG_0, 16)


@pytest.mark.parametrize("length", [0xFFFF_FFFF, 10_000_000, 200])
def test_a_record_length_beyond_the_file(disk: FaultDisk, length: int) -> None:
    with open_log(disk) as log:
        record = log.fetch(1)
    change(disk, LOG_0, record.position + 12, length.to_bytes(4, "big"))
    log = open_log(disk)
    with pytest.raises(CorruptLog, match="needs .* bytes and .* are left|offsets 1 to 1") as caught:
        log.fetch(1)
    assert (caught.value.path, caught.value.position) == (LOG_0, record.position)
    assert (caught.value.first_offset, caught.value.end_offset) == (1, 2)
    assert bytes(log.fetch(2).payload) == b"two"


def test_foreign_files_are_reported_and_left_alone(disk: FaultDisk) -> None:
    names = [".gitignore", "notes.txt", "0.log", "00000000000000000001.log.bak", "0000000000000000000x.idx"]
    for name in names:
        disk.put(f"{SEGMENTS}/{name}", b"not ours")
    disk.put(f"{SEGMENTS}/00000000000000000001.log", b"looks like a segment, overlaps one")
    disk.make_directory(f"{SEGMENTS}/00000000000000000009.log")
    log = open_log(disk)
    assert not log.damage
    assert [bytes(record.payload) for record in log.scan(0)] == [b"zero", b"one", b"two", b"three", b"four"]
    assert {path.rsplit("/", 1)[1] for path in log.found.foreign} == {
        *names,
        "00000000000000000001.log",
        "00000000000000000009.log",
    }
    log.append([NewRecord(b"five")])
    log.close()
    assert all(disk.files()[f"{SEGMENTS}/{name}"] == b"not ours" for name in names)


def test_a_directory_that_holds_something_else_is_not_a_log() -> None:
    disk = FaultDisk()
    disk.put("/home/letter.txt", b"dear")
    with pytest.raises(NotALog, match="there is no log"):
        Log.open("/home", disk=disk, read_only=True)
    assert list(disk.files()) == ["/home/letter.txt"]


def test_a_read_only_disk(disk: FaultDisk) -> None:
    disk.read_only = True
    with pytest.raises(DiskError, match="Read-only file system.*mounted read-only") as caught:
        open_log(disk)
    assert caught.value.path == f"{ROOT}/LOCK"
    log = Log.open(ROOT, disk=disk, read_only=True)
    assert bytes(log.fetch(4).payload) == b"four"


def test_a_disk_that_becomes_read_only(disk: FaultDisk) -> None:
    log = open_log(disk)
    disk.read_only = True
    with pytest.raises(DiskError, match="Read-only file system"):
        log.append([NewRecord(b"five")])
    with pytest.raises(LogStopped, match="takes no writes since this failed"):
        log.append([NewRecord(b"five")])
    assert bytes(log.fetch(4).payload) == b"four"
    log.close()
    disk.read_only = False
    log = open_log(disk)
    assert log.append([NewRecord(b"five")]).base_offset == 5


@pytest.mark.parametrize("is_freed", [False, True])
def test_a_full_disk_loses_nothing_that_was_answered(is_freed: bool) -> None:
    for capacity in range(600, 9000, 97):
        disk = FaultDisk()
        disk.capacity_bytes = capacity
        answered: list[bytes] = []
        error = fill(disk, answered, is_freed=is_freed)
        assert "No space left on device (the disk is full" in str(error)
        for found in (disk.crash(Fate.KEEP, Random(0)), disk.crash(Fate.DROP, Random(0))):
            log = open_log(found)
            assert not log.damage
            assert [bytes(record.payload) for record in log.scan(0)] == answered
            assert log.append([NewRecord(b"room again")]).base_offset == len(answered)


def fill(disk: FaultDisk, answered: list[bytes], *, is_freed: bool) -> BarbicelError:
    """Append until the disk is full, and once more when there is room again."""
    settings = LogSettings(
        segment_max_bytes=2000,
        checkpoint_bytes=700,
        preallocate_min_bytes=512,
        preallocate_max_bytes=512,
    )
    log = None
    try:
        log = Log.open(ROOT, disk=disk, settings=settings)
        while True:
            content = b"%d" % len(answered) + b"x" * 150
            log.append([NewRecord(content)])
            answered.append(content)
    except DiskError as error:
        if log is not None:
            if is_freed:
                disk.capacity_bytes = None
                answered.append(b"more")
                log.append([NewRecord(b"more")])
            assert [bytes(record.payload) for record in log.scan(0)] == answered
            log.close()
        return error


def test_a_second_opener_is_told_who_has_the_log(disk: FaultDisk) -> None:
    log = open_log(disk)
    with pytest.raises(LogLocked, match="already open by process") as caught:
        open_log(disk)
    assert caught.value.path == f"{ROOT}/LOCK"
    assert log.append([NewRecord(b"five")]).base_offset == 5
    log.close()
    assert open_log(disk).end_offset == 6


def test_settings_out_of_range_are_named() -> None:
    with pytest.raises(ValueError, match="segment_max_bytes is 0, allowed is 1 to"):
        LogSettings(segment_max_bytes=0)
    with pytest.raises(ValueError, match="max_open_segments is 70000, allowed is 1 to 65535"):
        LogSettings(max_open_segments=70_000)
    with pytest.raises(ValueError, match="segment_max_age_ms is 0"):
        LogSettings(segment_max_age_ms=0)
