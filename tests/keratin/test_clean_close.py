"""What a clean close promises, and what the next opening need not look at because of it."""

from __future__ import annotations

import errno
from collections import Counter
from random import Random

import pytest

from barbicel.codecs.keratin_format import SEGMENT_SUFFIXES
from barbicel.errors import CorruptLog, LogStopped
from barbicel.keratin.layout import Layout
from tests.keratin.builders import (
    ROOT,
    expected_payload,
    manifest_on,
    new_records,
    open_log,
    payloads,
)
from tests.support.fault_disk import Call, Fate, FaultDisk

LAYOUT = Layout(ROOT)


def filled(count: int) -> FaultDisk:
    disk = FaultDisk()
    with open_log(disk) as log:
        for number in range(count):
            log.append(new_records([number]))
    return disk


def sealed_bases(disk: FaultDisk) -> list[int]:
    return [segment.base_offset for segment in manifest_on(disk).segments]


def calls_to_open(disk: FaultDisk) -> Counter[str]:
    """How often each kind of call is made, until the log is open."""
    calls: list[Call] = []
    disk.observe_reads, disk.observer = True, calls.append
    log = open_log(disk)
    disk.observer = None
    log.close()
    return Counter(call.operation for call in calls)


def test_opening_after_a_clean_close_takes_the_same_calls_however_long_the_log_is() -> None:
    short, long = filled(10), filled(1000)
    assert not sealed_bases(short)
    assert len(sealed_bases(long)) > 20
    calls = calls_to_open(short)
    assert calls["open"] > 0
    assert calls["list"] == 0
    assert calls_to_open(long) == calls


def test_an_empty_log_is_not_listed_either() -> None:
    assert calls_to_open(filled(0))["list"] == 0


def test_after_a_crash_the_directory_is_listed() -> None:
    disk = filled(100)
    log = open_log(disk)
    log.append(new_records([100]))
    assert calls_to_open(disk.crash(Fate.KEEP, Random(0)))["list"] == 1


@pytest.mark.parametrize("suffix", SEGMENT_SUFFIXES)
def test_a_file_that_went_since_the_close_is_noticed_at_once(suffix: str) -> None:
    disk = filled(100)
    base = sealed_bases(disk)[1]
    path = f"{LAYOUT.segments}/{base:020d}.{suffix}"
    disk.unlink(path)
    log = open_log(disk)
    assert [item.path for item in log.damage] == ([path] if suffix == "log" else [])
    assert (path in disk.files()) == (suffix in ("idx", "tidx")), "derived anew"
    log.close()
    assert manifest_on(disk).clean_shutdown


def test_a_file_that_came_since_the_close_is_noticed_at_once() -> None:
    disk = filled(100)
    disk.put(f"{LAYOUT.segments}/notes.txt", b"")
    disk.put(f"{LAYOUT.log(0)}.corrupt-7", b"")
    log = open_log(disk)
    assert log.found.foreign == (f"{LAYOUT.segments}/notes.txt",)
    assert log.found.asides == (f"{LAYOUT.log(0)}.corrupt-7",)


def test_a_close_that_misses_a_file_is_not_called_clean() -> None:
    """The directory changed before the manifest was written, so nothing else would tell the next one."""
    disk = filled(100)
    first, second = sealed_bases(disk)[:2]
    log = open_log(disk)
    log.append(new_records([100]))
    disk.unlink(LAYOUT.log(first))
    log.close()
    assert not manifest_on(disk).clean_shutdown
    log = open_log(disk)
    assert [(item.path, item.first_offset, item.end_offset) for item in log.damage] == [
        (LAYOUT.log(first), first, second)
    ]
    assert log.end_offset == 101
    with pytest.raises(LogStopped):
        log.append(new_records([101]))


def test_a_close_that_cannot_look_is_not_called_clean_and_loses_nothing() -> None:
    disk = filled(100)
    log = open_log(disk)
    log.append(new_records([100]))
    disk.fail("list", errno.EIO)
    log.close()
    assert not manifest_on(disk).clean_shutdown
    assert payloads(open_log(disk)) == [expected_payload(number) for number in range(101)]


def test_a_time_stamp_that_lies_hides_a_missing_file_from_nobody_who_reads_it() -> None:
    disk = filled(100)
    first, gone, behind = sealed_bases(disk)[:3]
    directory = disk._tree.directory(LAYOUT.segments)
    changed_at = directory.changed_at
    disk.unlink(LAYOUT.log(gone))
    directory.changed_at = changed_at
    log = open_log(disk)
    assert not log.damage
    for offset in (gone, behind - 1):
        with pytest.raises(CorruptLog, match=f"offsets {gone} to {behind - 1} cannot be read") as caught:
            log.fetch(offset)
        assert caught.value.path == LAYOUT.log(gone)
    assert bytes(log.fetch(first).payload) == expected_payload(first)
    assert bytes(log.fetch(behind).payload) == expected_payload(behind)
    log.append(new_records([100]))
    log.close()
    assert [item.first_offset for item in open_log(disk).damage] == [gone]


@pytest.mark.parametrize("kept", [10, 60, 100])
@pytest.mark.parametrize("is_rolled", [False, True])
def test_an_older_manifest_that_was_put_back_hides_no_segment(kept: int, is_rolled: bool) -> None:
    """It says "clean" and is younger than the directory, and the log went on behind what it knows."""
    disk = filled(kept)
    older = disk.files()[LAYOUT.manifest]
    with open_log(disk) as log:
        if is_rolled:  # the segment that was active is as it was
            log.roll()
        for number in range(kept, 200):
            log.append(new_records([number]))
    disk.put(LAYOUT.manifest, older)
    with open_log(disk) as log:
        assert not log.damage
        assert log.append(new_records([200])).base_offset == 200
        assert payloads(log) == [expected_payload(number) for number in range(201)]
