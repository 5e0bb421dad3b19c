"""The mistakes that public implementations of this design made, each as a test that would catch it.

The numbers are those of the list of traps; 7 and 8 concern consumption, not the log.
"""

from __future__ import annotations

import errno
import threading
from random import Random

import pytest

from barbicel.errors import CorruptLog, DiskError, LogStopped
from barbicel.keratin import Ack, Log, LogSettings, NewRecord, Writer, WriterSettings
from barbicel.keratin import walk as walk_module
from tests.support.fault_disk import Call, Fate, FaultDisk

ROOT = "/log"
LOG_0 = f"{ROOT}/segments/00000000000000000000.log"
IDX_0 = f"{ROOT}/segments/00000000000000000000.idx"
SETTINGS = LogSettings(
    segment_max_bytes=100_000,
    index_stride_bytes=300,
    preallocate_min_bytes=4096,
    preallocate_max_bytes=4096,
)


def open_log(disk: FaultDisk, settings: LogSettings = SETTINGS) -> Log:
    return Log.open(ROOT, disk=disk, settings=settings, clock=lambda: 1000)


def payloads(log: Log) -> list[bytes]:
    return [bytes(record.payload) for record in log.scan(log.start_offset)]


def append(log: Log, *contents: bytes) -> None:
    for content in contents:
        log.append([NewRecord(content)])


def after_power_cut(disk: FaultDisk) -> FaultDisk:
    return disk.crash(Fate.DROP, Random(0))


def test_trap_01_the_boundary_is_right_at_every_byte_and_stays_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More than one read buffer, cut at every byte, then append and recover twice."""
    monkeypatch.setattr(walk_module, "FIRST_CHUNK_BYTES", 100)
    monkeypatch.setattr(walk_module, "CHUNK_BYTES", 150)
    disk = FaultDisk()
    log = open_log(disk)
    contents = [bytes([number]) * (40 + number) for number in range(12)]
    append(log, *contents)
    ends = [record.position + record.size for record in log.scan(0)]
    whole = disk.crash(Fate.KEEP, Random(0)).files()
    for cut in range(68, ends[-1] + 1):
        found = FaultDisk()
        for path, data in whole.items():
            found.put(path, data[:cut] if path == LOG_0 else data)
        expected = contents[: sum(end <= cut for end in ends)]
        reopened = open_log(found)
        assert payloads(reopened) == expected
        more = [b"more-%d" % number for number in range(5)]
        append(reopened, *more)
        again = open_log(after_power_cut(found))
        assert payloads(again) == expected + more
        assert payloads(open_log(after_power_cut(found))) == expected + more


def test_trap_02_the_index_is_cut_with_the_log() -> None:
    disk = FaultDisk()
    with open_log(disk) as log:
        append(log, *[b"x" * 100] * 20)
        keep = log.fetch(4)
    damaged = FaultDisk()
    for path, data in disk.files().items():
        if path == LOG_0:
            damaged.put(path, data[: keep.position + 10])
        elif not path.endswith(("manifest.bin", "LOCK")):
            damaged.put(path, data)
    log = open_log(damaged)
    assert log.end_offset == 4
    append(log, *[b"y" * 250] * 20)
    assert [bytes(log.fetch(offset).payload) for offset in range(24)] == [b"x" * 100] * 4 + [b"y" * 250] * 20
    log.close()
    positions = {record.offset: record.position for record in open_log(damaged).scan(0)}
    entries = damaged.files()[IDX_0][72:]
    for at in range(0, len(entries), 16):
        offset = int.from_bytes(entries[at : at + 4], "big")
        assert int.from_bytes(entries[at + 8 : at + 16], "big") == positions[offset]


def test_trap_03_offsets_that_the_manifest_vouched_for_are_neither_resurrected_nor_reused() -> None:
    disk = FaultDisk()
    with open_log(disk) as log:
        append(log, b"a", b"b", b"c")
        cut_at = log.fetch(1).position
    disk.put(LOG_0, disk.files()[LOG_0][:cut_at])
    log = open_log(disk)
    assert [(item.first_offset, item.end_offset) for item in log.damage] == [(1, 3)]
    assert bytes(log.fetch(0).payload) == b"a"
    with pytest.raises(CorruptLog, match="offsets 1 to 2 cannot be read"):
        log.fetch(2)
    with pytest.raises(LogStopped, match="offsets 1 to 2 are lost"):
        append(log, b"d")


def test_trap_04_the_manifest_is_replaced_by_one_rename_and_a_flipped_flag_is_noticed() -> None:
    disk = FaultDisk()
    log = open_log(disk)
    append(log, b"a")
    calls: list[Call] = []
    disk.observer = calls.append
    log.checkpoint()
    disk.observer = None
    manifest = f"{ROOT}/manifest.bin"
    assert not any(call.operation == "unlink" and call.path == manifest for call in calls)
    assert [call.path for call in calls if call.target == manifest] == [f"{ROOT}/tmp/manifest.new"]
    log.close()
    sound = disk.files()[manifest]
    for bit in range(16):
        flipped = bytearray(sound)
        flipped[10 + bit // 8] ^= 1 << bit % 8
        disk.put(manifest, bytes(flipped))
        reopened = open_log(disk)
        assert reopened.found.manifest_problem is not None
        assert payloads(reopened) == [b"a"]
        reopened.close()


@pytest.mark.parametrize("operation", ["write", "fdatasync"])
def test_trap_05_nothing_is_tried_again_after_a_failure(operation: str) -> None:
    disk = FaultDisk()
    log = open_log(disk)
    append(log, b"safe")
    disk.fail(operation, errno.EIO, path_contains=".log", partial=20)  # type: ignore[arg-type]
    with pytest.raises(DiskError, match=f"{operation} failed: Input/output error"):
        append(log, b"doomed")
    calls: list[Call] = []
    disk.observer = calls.append
    with pytest.raises(LogStopped, match="takes no writes since this failed"):
        append(log, b"never")
    log.close()
    assert not [call for call in calls if call.operation in ("write", "fdatasync")]
    disk.observer = None
    for found in (disk.crash(Fate.KEEP, Random(0)), after_power_cut(disk)):
        reopened = open_log(found)
        assert payloads(reopened) == [b"safe"]
        append(reopened, b"next")
        assert payloads(open_log(after_power_cut(found))) == [b"safe", b"next"]


def test_trap_05_recovery_does_not_trust_the_page_cache_after_a_failed_sync() -> None:
    """Answered AFTER_WRITE, then the sync failed: the bytes are in the cache, clean, and not on the disk."""
    disk = FaultDisk()
    log = open_log(disk)
    append(log, b"safe")
    log.append([NewRecord(b"cached")], Ack.AFTER_WRITE)
    disk.fail("fdatasync", errno.EIO, path_contains=".log")
    with pytest.raises(DiskError):
        log.sync()
    log.close()
    reopened = open_log(disk)
    assert payloads(reopened) == [b"safe", b"cached"]
    assert reopened.end_offset == 2  # vouched for from here on
    assert payloads(open_log(after_power_cut(disk))) == [b"safe", b"cached"]


def test_trap_06_damage_in_a_sealed_segment_destroys_nothing() -> None:
    disk = FaultDisk()
    log = open_log(disk)
    append(log, *[b"%d" % number for number in range(10)])
    hurt = log.fetch(4)
    log.roll()
    append(log, b"10", b"11")
    log.close()
    data = bytearray(disk.files()[LOG_0])
    data[hurt.position + 32] ^= 0x40
    disk.put(LOG_0, bytes(data))
    before = disk.files()
    log = open_log(disk)
    append(log, b"12")
    assert payloads_of(log, range(4)) == [b"0", b"1", b"2", b"3"]
    assert payloads_of(log, range(5, 13)) == [b"%d" % number for number in range(5, 13)]
    with pytest.raises(CorruptLog) as caught:
        log.fetch(4)
    assert (caught.value.first_offset, caught.value.end_offset) == (4, 5)
    assert (caught.value.path, caught.value.position) == (LOG_0, hurt.position)
    scan = log.scan(0)
    assert [next(scan).offset for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(CorruptLog) as caught:
        next(scan)
    assert [record.offset for record in log.scan(caught.value.end_offset)] == list(range(5, 13))
    assert disk.files()[LOG_0] == before[LOG_0]


def payloads_of(log: Log, offsets: range) -> list[bytes]:
    return [bytes(log.fetch(offset).payload) for offset in offsets]


def test_trap_09_after_write_is_answered_after_the_write() -> None:
    disk = FaultDisk()
    log = open_log(disk)
    order: list[str] = []
    disk.observer = lambda call: order.append(call.operation)
    with Writer(WriterSettings(flush_ms=60_000)) as writer:
        answered = threading.Event()

        def done(_: object) -> None:
            order.append("answer")
            answered.set()

        writer.submit(log, [NewRecord(b"a")], done, Ack.AFTER_WRITE)
        assert answered.wait(10)
        assert order[-2:] == ["write", "answer"]
        assert bytes(log.fetch(0).payload) == b"a"


def test_trap_10_one_thread_writes_and_syncs_so_there_are_no_queues_to_deadlock() -> None:
    """A tiny queue, tiny batches, many producers, a slow consumer of answers: everything is answered."""
    disk = FaultDisk()
    log = open_log(disk)
    settings = WriterSettings(max_queue_requests=2, max_queue_bytes=200, max_batch_records=1)
    answers: list[object] = []
    with Writer(settings) as writer:
        before = threading.active_count()

        def produce() -> None:
            for _ in range(50):
                answers.append(writer.append(log, [NewRecord(b"x" * 50)]))

        producers = [threading.Thread(target=produce) for _ in range(8)]
        for producer in producers:
            producer.start()
        for producer in producers:
            producer.join(30)
        assert not any(producer.is_alive() for producer in producers)
        assert threading.active_count() == before
    assert len(answers) == len(set(answers)) == log.end_offset == 400


def test_trap_11_the_first_record_of_every_segment_is_indexed() -> None:
    disk = FaultDisk()
    log = open_log(disk, LogSettings(segment_max_bytes=500, index_stride_bytes=10_000))
    append(log, *[b"x" * 100] * 20)
    assert len(log.segments) > 3
    log.close()
    indexes = {path: data for path, data in disk.files().items() if path.endswith(".idx")}
    filled = [path for path in indexes if len(disk.files()[path[:-3] + "log"]) > 68]
    for path in filled:
        rel_offset, position = indexes[path][72:76], indexes[path][80:88]
        assert (int.from_bytes(rel_offset, "big"), int.from_bytes(position, "big")) == (0, 68)


def test_trap_12_a_new_name_is_made_durable_before_anything_relies_on_it() -> None:
    """Without the syncs of directories, a power cut takes the new segment and the answered records."""
    disk = FaultDisk()
    log = open_log(disk, LogSettings(segment_max_bytes=500, preallocate_max_bytes=0))
    for number in range(20):
        append(log, b"%d" % number + b"x" * 100)
        found = open_log(after_power_cut(disk))
        assert found.end_offset == number + 1
        assert not found.damage
