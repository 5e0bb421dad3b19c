"""Scanning: limits, edges, views that are kept, bounded memory and handles, and change under way."""

from __future__ import annotations

import gc
import os
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from barbicel.disk import RealDisk
from barbicel.errors import CorruptLog, OffsetOutOfRange
from barbicel.keratin import Ack, Log, NewRecord
from tests.keratin.builders import (
    DEADLINE_S,
    ROOT,
    Crew,
    expected_payload,
    new_record,
    new_records,
    open_log,
    payloads,
)
from tests.support.fault_disk import FaultDisk

MIB = 1 << 20


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


def filled(disk: FaultDisk, count: int, *, max_open_segments: int = 4) -> Log:
    log = open_log(disk, max_open_segments=max_open_segments)
    log.append(new_records(range(count)), Ack.AFTER_WRITE)
    return log


def descriptors(path: Path) -> list[str]:
    """The files of a log that this process has open."""
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.lexists(link)]
    return sorted(target for target in targets if target.startswith(str(path)))


# Limits and edges


def test_max_records(disk: FaultDisk) -> None:
    log = filled(disk, 100)
    assert len(log.segments) > 2
    for limit in (1, 2, 60, 100, 1000):
        found = [record.offset for record in log.scan(0, max_records=limit)]
        assert found == list(range(min(limit, 100)))


def test_max_bytes_is_not_passed_but_for_the_first_record(disk: FaultDisk) -> None:
    log = filled(disk, 100)
    size = log.fetch(0).size
    for limit, count in ((0, 1), (1, 1), (size, 1), (2 * size - 1, 1), (2 * size, 2), (70 * size + 1, 70)):
        assert len(list(log.scan(0, max_bytes=limit))) == count
    assert len(list(log.scan(5, max_bytes=10 * size, max_records=4))) == 4
    assert len(list(log.scan(5, max_bytes=4 * size, max_records=10))) == 4


def test_a_large_record_is_not_withheld(disk: FaultDisk) -> None:
    log = open_log(disk, segment_max_bytes=4 * MIB)
    log.append([new_record(0, 10), new_record(1, 3 * MIB), new_record(2, 10)])
    (record,) = log.scan(1, max_bytes=100)
    assert bytes(record.payload) == expected_payload(1, 3 * MIB)


def test_from_inside_a_span_the_whole_record_comes_first(disk: FaultDisk) -> None:
    log = open_log(disk)
    log.append([new_record(number, span=10) for number in range(60)])
    assert log.segments
    for start in range(600):
        first = next(log.scan(start))
        assert (first.offset, bytes(first.payload)) == (start // 10 * 10, expected_payload(start // 10))
    assert len(list(log.scan(305))) == 30


def test_edges(disk: FaultDisk) -> None:
    log = open_log(disk)
    assert list(log.scan(0)) == []
    log.append(new_records(range(100)))
    assert list(log.scan(100)) == []
    log.truncate_before(50)
    assert [record.offset for record in log.scan(50)] == list(range(50, 100))
    for offset in (-1, 0, 49, 101):
        with pytest.raises(OffsetOutOfRange):
            log.scan(offset)  # at once, not at the first record


def test_a_scan_ends_where_the_log_ended_when_it_began(disk: FaultDisk) -> None:
    log = filled(disk, 10)
    scan = log.scan(0)
    log.append(new_records(range(10, 100)))
    assert [record.offset for record in scan] == list(range(10))


def test_damage_behind_the_last_wanted_record_does_not_matter(disk: FaultDisk) -> None:
    log = filled(disk, 10)
    damaged = log.fetch(3)
    path = f"{ROOT}/segments/{0:020d}.log"
    data = bytearray(disk.files()[path])
    data[damaged.position + damaged.size - 1] ^= 1
    disk.put(path, bytes(data))
    with pytest.raises(CorruptLog):
        list(log.scan(0))
    assert [record.offset for record in log.scan(0, max_records=3)] == [0, 1, 2]


# Memory and handles


def test_records_that_are_kept_stay_as_they_were(disk: FaultDisk) -> None:
    log = open_log(disk, segment_max_bytes=MIB * 3 // 2)
    log.append(new_records(range(4000), 1000), Ack.AFTER_WRITE)
    assert log.segments
    kept = list(log.scan(0))
    for number, record in enumerate(kept):
        assert (record.offset, bytes(record.payload)) == (number, expected_payload(number, 1000))


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    total_bytes, size = 64 * MIB, 16 * 1024
    with open_log(RealDisk(), str(tmp_path), segment_max_bytes=24 * MIB) as log:
        for _ in range(total_bytes // size // 64):
            log.append([NewRecord(bytes(size))] * 64, Ack.AFTER_WRITE)
        seen = 0
        tracemalloc.start()
        try:
            for record in log.scan(0):
                seen += len(record.payload)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert seen == total_bytes
    assert peak < 8 * MIB


def test_idle_handles_are_bounded(disk: FaultDisk) -> None:
    log = filled(disk, 400, max_open_segments=2)
    assert len(log.segments) > 10
    scans = [log.scan(segment.base_offset) for segment in log.segments]
    for scan, segment in zip(scans, log.segments, strict=True):
        assert next(scan).offset == segment.base_offset
    # All at once half-way through a segment of their own, most of which the cache has let go of.
    for scan, segment in zip(scans, log.segments, strict=True):
        assert [record.offset for record in scan] == list(range(segment.base_offset + 1, 400))
    assert log.open_handles == 2
    for offset in range(0, 400, 17):
        log.fetch(offset)
        assert log.open_handles <= 2


def test_descriptors_do_not_leak(tmp_path: Path) -> None:
    with open_log(RealDisk(), str(tmp_path), max_open_segments=2) as log:
        log.append(new_records(range(300)), Ack.AFTER_WRITE)
        abandoned = [log.scan(segment.base_offset) for segment in log.segments]
        for scan in abandoned:
            next(scan)
        assert len(descriptors(tmp_path)) > 4
        abandoned.clear()
        del scan
        gc.collect()
        assert len(descriptors(tmp_path)) == 4, "the lock, the active segment, two readers"
        held = log.scan(0)
        next(held)
        log.truncate_before(250)
        assert [path for path in descriptors(tmp_path) if "deleted" in path] == [
            f"{tmp_path}/segments/{0:020d}.log (deleted)"
        ]
        del held
        gc.collect()
        assert not [path for path in descriptors(tmp_path) if "deleted" in path]
    assert descriptors(tmp_path) == []


def test_many_threads_read_many_segments_through_few_handles(tmp_path: Path) -> None:
    count = 400
    with open_log(RealDisk(), str(tmp_path), max_open_segments=2) as log:
        log.append(new_records(range(count)), Ack.AFTER_WRITE)
        assert len(log.segments) > 10

        def fetching(seed: int) -> Callable[[], None]:
            def fetch() -> None:
                random = Random(seed)
                for _ in range(300):
                    offset = random.randrange(count)
                    assert bytes(log.fetch(offset).payload) == expected_payload(offset)

            return fetch

        def scan() -> None:
            for _ in range(5):
                assert payloads(log) == [expected_payload(number) for number in range(count)]

        crew = Crew()
        crew.start_all([*(fetching(seed) for seed in range(4)), scan, scan])
        crew.join()
        assert log.open_handles <= 2
        assert len(descriptors(tmp_path)) <= 4


# While the log changes


def read_on(log: Log, expected: int, max_records: int | None = None) -> int:
    """Read and check from there on; returns where to go on, which is the log's start after a trim."""
    try:
        for record in log.scan(expected, max_records=max_records):
            assert (record.offset, bytes(record.payload)) == (expected, expected_payload(expected))
            expected = record.end_offset
    except OffsetOutOfRange as error:
        start = error.start_offset
    else:
        return expected
    assert expected < start <= log.start_offset
    return start


def test_scanning_while_others_append_roll_and_trim(tmp_path: Path) -> None:
    total, per_append = 1800, 6
    log = open_log(RealDisk(), str(tmp_path), max_open_segments=2)
    grown, done = threading.Condition(), threading.Event()

    def write() -> None:
        for number in range(0, total, per_append):
            log.append(new_records(range(number, number + per_append)), Ack.AFTER_WRITE)
            if number % 97 == 0:
                log.roll()
            if number % 200 == 0:
                log.truncate_before(number // 2)
            with grown:
                grown.notify_all()

    def write_to_the_end() -> None:
        try:
            write()
        finally:
            with grown:
                done.set()
                grown.notify_all()

    def follow() -> None:
        expected = 0
        while not (done.is_set() and expected == log.end_offset):
            expected = read_on(log, expected)
            with grown:
                assert done.is_set() or log.end_offset > expected or grown.wait(DEADLINE_S)

    def trail() -> None:
        """At the very front, where retention is at work."""
        while not done.is_set():
            read_on(log, log.start_offset, max_records=40)
            with grown:
                assert done.is_set() or grown.wait(DEADLINE_S)

    crew = Crew()
    crew.start_all([write_to_the_end, follow, follow, trail])
    crew.join()
    assert payloads(log) == [expected_payload(number) for number in range(log.start_offset, total)]
    log.close()


def test_a_trim_below_a_reader_ends_its_scan(disk: FaultDisk) -> None:
    log = filled(disk, 400)
    scan = log.scan(0)
    first_end = log.segments[0].end_offset
    assert next(scan).offset == 0
    log.truncate_before(300)
    # The segment that it reads is held open; the next one is gone.
    for expected in range(1, first_end):
        assert next(scan).offset == expected
    with pytest.raises(OffsetOutOfRange) as caught:
        next(scan)
    assert (caught.value.offset, caught.value.start_offset) == (first_end, 300)
    assert payloads(log) == [expected_payload(number) for number in range(300, 400)]


def test_a_fetch_waits_for_nobody(disk: FaultDisk) -> None:
    """Readers share no lock with the writer, not even while it syncs."""
    log = filled(disk, 100)
    syncing, may_go_on = threading.Event(), threading.Event()

    def hold(call: object) -> None:
        syncing.set()
        assert may_go_on.wait(DEADLINE_S)

    disk.observer = hold
    crew = Crew()
    crew.start(lambda: log.append(new_records([100])))
    assert syncing.wait(DEADLINE_S)
    assert bytes(log.fetch(50).payload) == expected_payload(50)
    assert len(payloads(log)) == 100
    assert log.offset_for_time(0) is not None
    may_go_on.set()
    crew.join()
    assert len(payloads(log)) == 101
