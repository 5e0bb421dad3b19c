"""Appending and fetching, what readers see when, what the disk is asked to do, and where segments end."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from barbicel.codecs.keratin_format import LOG_HEADER_BYTES
from barbicel.codecs.keratin_record import MAX_SPAN, RECORD_OVERHEAD_BYTES
from barbicel.errors import DiskError, LogClosed, OffsetOutOfRange, RecordTooLarge
from barbicel.keratin import Ack, Appended, Log, LogSettings, NewRecord
from tests.keratin.builders import (
    ROOT,
    Changes,
    ManualClock,
    MeteredDisk,
    expected_payload,
    log_files,
    manifest_on,
    new_record,
    new_records,
    open_log,
    payloads,
)
from tests.support.fault_disk import Call, Fate, FaultDisk

PAGE_BYTES = 4096
FIRST_LOG = f"{0:020d}.log"


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


# Appending and fetching


def test_a_record_comes_back_as_it_was_given(disk: FaultDisk) -> None:
    log = open_log(disk)
    assert log.append([NewRecord(b"payload", headers=b"headers", timestamp_ms=77)]) == Appended(0, 1)
    record = log.fetch(0)
    assert (record.offset, record.span, record.timestamp_ms) == (0, 1, 77)
    assert (bytes(record.headers), bytes(record.payload)) == (b"headers", b"payload")


def test_a_record_without_a_timestamp_gets_the_clocks(disk: FaultDisk) -> None:
    log = open_log(disk, clock=ManualClock(123))
    log.append([NewRecord(b"")])
    assert log.fetch(0).timestamp_ms == 123


def test_every_offset_of_a_span_leads_to_its_record(disk: FaultDisk) -> None:
    log = open_log(disk)
    spans = [1, 5, 1, 300, 2]
    records = [NewRecord(b"%d" % number, b"h", span=span) for number, span in enumerate(spans)]
    assert log.append(records) == Appended(0, sum(spans))
    assert log.append([NewRecord(b"behind")]).base_offset == sum(spans)
    offset = 0
    for number, span in enumerate(spans):
        for inside in range(offset, offset + span):
            record = log.fetch(inside)
            assert (record.offset, record.span, record.end_offset) == (offset, span, offset + span)
            assert (bytes(record.payload), bytes(record.headers)) == (b"%d" % number, b"h")
        offset += span
    assert [record.span for record in log.scan(0)] == [*spans, 1]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_new_log_may_begin_at_any_offset_and_stays_there(disk: FaultDisk, is_clean: bool) -> None:
    def opened(disk: FaultDisk, first_offset: int) -> Log:
        return Log.open(ROOT, disk=disk, clock=ManualClock(1), first_offset=first_offset)

    log = opened(disk, 5_000_000_000)
    assert (log.start_offset, log.end_offset) == (5_000_000_000, 5_000_000_000)
    assert log.append([NewRecord(b"first", span=3)]) == Appended(5_000_000_000, 3)
    if is_clean:
        log.close()
    else:
        disk = disk.crash(Fate.DROP, Random(1))
    again = opened(disk, 7)
    assert (again.start_offset, again.end_offset) == (5_000_000_000, 5_000_000_003)
    assert bytes(again.fetch(5_000_000_001).payload) == b"first"
    with pytest.raises(OffsetOutOfRange):
        again.fetch(0)


def test_an_empty_payload_is_a_record(disk: FaultDisk) -> None:
    log = open_log(disk)
    log.append([NewRecord(b""), NewRecord(b"", span=3), NewRecord(b"", headers=b"h")])
    assert payloads(log) == [b"", b"", b""]
    assert [record.size - RECORD_OVERHEAD_BYTES for record in log.scan(0)] == [0, 4, 1]


def test_appending_nothing_is_answered_with_no_offsets(disk: FaultDisk) -> None:
    log = open_log(disk)
    log.append(new_records([0, 1]))
    seen = Changes(disk)
    for ack in Ack:
        assert log.append([], ack) == Appended(2, 0)
    assert (seen.operations(), log.end_offset) == ([], 2)


def test_stamp_gets_the_offset_before_the_payload_is_written(disk: FaultDisk) -> None:
    log = open_log(disk)
    log.append([new_record(0, span=7)])
    events: list[str] = []
    disk.observer = lambda call: events.append(call.operation)

    def stamped(payload: bytearray) -> Callable[[int], None]:
        def stamp(offset: int) -> None:
            events.append(f"stamp {offset}")
            payload[:8] = offset.to_bytes(8, "big")

        return stamp

    sizes = [600, 600, 600]  # the last one goes into the next segment
    buffers = [bytearray(size) for size in sizes]
    log.append([NewRecord(buffer, span=10, stamp=stamped(buffer)) for buffer in buffers])
    assert [event for event in events if "stamp" in event] == ["stamp 7", "stamp 17", "stamp 27"]
    assert events.index("write") > events.index("stamp 17")
    assert len(log.segments) == 1
    for record in log.scan(7):
        assert int.from_bytes(record.payload[:8], "big") == record.offset


@pytest.mark.parametrize("offset", [-1, 2, 3, 1 << 40])
def test_no_record_outside_of_the_log_is_fetched(disk: FaultDisk, offset: int) -> None:
    log = open_log(disk)
    log.append(new_records([0, 1]))
    with pytest.raises(OffsetOutOfRange) as caught:
        log.fetch(offset)
    assert (caught.value.offset, caught.value.start_offset, caught.value.end_offset) == (offset, 0, 2)


TOO_LARGE = NewRecord(bytes(101 - RECORD_OVERHEAD_BYTES))


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (TOO_LARGE, RecordTooLarge),
        (NewRecord(b"", headers=TOO_LARGE.payload), RecordTooLarge),
        (NewRecord(TOO_LARGE.payload[:-4], span=2), RecordTooLarge),
        (NewRecord(b"", span=0), ValueError),
        (NewRecord(b"", span=-1), ValueError),
        (NewRecord(b"", span=MAX_SPAN + 1), ValueError),
        (NewRecord(b"", timestamp_ms=-1), ValueError),
        (NewRecord(b"", timestamp_ms=1 << 64), ValueError),
    ],
)
def test_a_record_that_cannot_be_stored_is_refused_with_all_beside_it(
    disk: FaultDisk, bad: NewRecord, error: type[Exception]
) -> None:
    log = open_log(disk, max_record_bytes=100)
    seen = Changes(disk)
    with pytest.raises(error):
        log.append([NewRecord(b"good"), bad])
    assert (seen.operations(), log.end_offset) == ([], 0)
    largest = NewRecord(TOO_LARGE.payload[:-1], timestamp_ms=(1 << 64) - 1)
    assert log.append([largest]) == Appended(0, 1)


# What readers see, and what the disk is asked to do


def test_after_write_is_one_write_and_after_fsync_one_write_and_one_sync(disk: FaultDisk) -> None:
    log = open_log(disk, segment_max_bytes=1 << 20, preallocate_max_bytes=0)
    for count in (1, 30):
        seen = Changes(disk)
        log.append(new_records(range(count)), Ack.AFTER_WRITE)
        assert (seen.operations(), log.unsynced_offsets) == (["write"], count)
        seen = Changes(disk)
        log.append(new_records(range(count)), Ack.AFTER_FSYNC)
        assert (seen.operations(), log.unsynced_offsets) == (["write", "fdatasync"], 0)
        assert {call.path for call in seen.calls} == {f"{ROOT}/segments/{FIRST_LOG}"}


def test_both_acks_are_visible_and_only_fsync_survives_a_power_cut(disk: FaultDisk) -> None:
    log = open_log(disk)
    log.append(new_records([0]))
    log.append(new_records([1]), Ack.AFTER_WRITE)
    assert payloads(log) == [expected_payload(0), expected_payload(1)]
    assert len(payloads(open_log(disk.crash(Fate.KEEP, Random(0))))) == 2
    assert len(payloads(open_log(disk.crash(Fate.DROP, Random(0))))) == 1


@pytest.mark.parametrize("show", [Log.sync, Log.checkpoint, Log.roll])
def test_what_is_only_written_is_not_seen(disk: FaultDisk, show: Callable[[Log], None]) -> None:
    log = open_log(disk)
    log.append(new_records([0]))
    assert log.write([new_record(1, timestamp_ms=1 << 40)]) == Appended(1, 1)
    assert (log.end_offset, payloads(log), list(log.scan(1))) == (1, [expected_payload(0)], [])
    assert log.offset_for_time(1 << 40) is None
    with pytest.raises(OffsetOutOfRange):
        log.fetch(1)
    show(log)
    assert (log.end_offset, bytes(log.fetch(1).payload)) == (2, expected_payload(1))
    assert log.offset_for_time(1 << 40) == (1 << 40, 1)


def test_what_is_written_to_be_seen_is_seen_with_all_before_it(disk: FaultDisk) -> None:
    log = open_log(disk)
    log.write(new_records([0]))
    assert log.write(new_records([1]), publish=True) == Appended(1, 1)
    assert (log.end_offset, payloads(log)) == (2, [expected_payload(0), expected_payload(1)])
    assert payloads(open_log(disk.crash(Fate.DROP, Random(0)))) == []


# Opening and closing


def test_the_manifest_keeps_the_settings(disk: FaultDisk) -> None:
    open_log(disk, segment_max_bytes=5001, index_stride_bytes=301, max_open_segments=3).close()
    expected = LogSettings(segment_max_bytes=5001, index_stride_bytes=301, max_open_segments=3)
    with Log.open(ROOT, disk=disk) as log:
        assert log.settings == expected
    with open_log(disk, segment_max_bytes=7000) as log:
        log.append(new_records([0]))
    with Log.open(ROOT, disk=disk) as log:
        assert log.settings.segment_max_bytes == 7000


USES: list[Callable[[Log], object]] = [
    lambda log: log.append(new_records([1])),
    lambda log: log.write(new_records([1])),
    lambda log: log.write(new_records([1]), publish=True),
    Log.sync,
    Log.checkpoint,
    Log.roll,
    Log.roll_if_due,
    lambda log: log.truncate_before(1),
    lambda log: log.fetch(0),
    lambda log: list(log.scan(0)),
    lambda log: log.offset_for_time(0),
]


@pytest.mark.parametrize("use", USES)
def test_a_closed_log_takes_and_gives_nothing_any_more(disk: FaultDisk, use: Callable[[Log], object]) -> None:
    with open_log(disk) as log:
        log.append(new_records([0]))
    log.close()
    seen = Changes(disk)
    with pytest.raises(LogClosed):
        use(log)
    assert seen.operations() == []
    assert payloads(open_log(disk)) == [expected_payload(0)]


def test_the_clean_shutdown_flag_is_taken_back_before_the_first_record(disk: FaultDisk) -> None:
    log = open_log(disk)
    assert not manifest_on(disk).clean_shutdown
    log.close()
    assert manifest_on(disk).clean_shutdown
    log = open_log(disk)
    assert manifest_on(disk).clean_shutdown, "nothing was appended yet"
    seen = Changes(disk)
    log.append(new_records([0]))
    assert seen.first("rename", "manifest.bin") < seen.first("write", FIRST_LOG)
    assert not manifest_on(disk).clean_shutdown
    seen = Changes(disk)
    log.append(new_records([1]))
    assert seen.operations("manifest") == [], "once is enough"
    left = disk.crash(Fate.KEEP, Random(0))
    assert not manifest_on(left).clean_shutdown
    log.close()
    assert (manifest_on(disk).clean_shutdown, manifest_on(disk).next_offset) == (True, 2)


def test_reopening_after_a_clean_stop_changes_nothing(disk: FaultDisk) -> None:
    with open_log(disk) as log:
        for number in range(60):
            log.append(new_records([number]), Ack.AFTER_WRITE)
    seen = Changes(disk)
    with open_log(disk) as log:
        assert payloads(log) == [expected_payload(number) for number in range(60)]
    assert (len(log.segments) > 1, seen.operations()) == (True, [])


@pytest.mark.parametrize(
    "habit",
    [
        "none",
        "early maximum",
        "trims",
    ],
)
def test_a_checkpoint_bounds_what_recovery_reads(disk: FaultDisk, habit: str) -> None:
    clock, count = ManualClock(), 1000
    log = open_log(disk, clock=clock, segment_max_bytes=1 << 30, checkpoint_bytes=20_000)
    for number in range(count):
        clock.now_ms += 1
        timestamp_ms = 1 << 50 if habit == "early maximum" and number == 0 else None
        log.append([new_record(number, 1000, timestamp_ms=timestamp_ms)], Ack.AFTER_WRITE)
        if habit == "trims" and number % 10 == 0:
            log.truncate_before(number)
    left = MeteredDisk.holding(disk.crash(Fate.KEEP, Random(0)))
    found = open_log(left, segment_max_bytes=1 << 30, checkpoint_bytes=20_000)
    assert bytes(found.fetch(count - 1).payload) == expected_payload(count - 1, 1000)
    read = left.read_bytes[f"{ROOT}/segments/{FIRST_LOG}"]
    assert read < 200_000, f"{read} bytes of a log of 1 MB"


# Where segments end


def test_a_segment_ends_before_its_size_is_passed(disk: FaultDisk) -> None:
    log = open_log(disk, segment_max_bytes=1000)
    log.append([new_record(number, number % 90) for number in range(100)])
    records = list(log.scan(0))
    assert [bytes(record.payload) for record in records] == [
        expected_payload(number, number % 90) for number in range(100)
    ]
    assert len(log.segments) > 5
    for segment in log.segments:
        assert segment.log_bytes <= 1000 < segment.log_bytes + records[segment.end_offset].size


def test_a_record_larger_than_a_segment_gets_one_of_its_own(disk: FaultDisk) -> None:
    log = open_log(disk, segment_max_bytes=1000)
    sizes = [10, 5000, 10, 5000, 5000]
    log.append([new_record(number, size) for number, size in enumerate(sizes)])
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2, 3]
    assert payloads(log) == [expected_payload(number, size) for number, size in enumerate(sizes)]


def test_a_segment_ends_at_its_age(disk: FaultDisk) -> None:
    clock = ManualClock()
    log = open_log(disk, clock=clock, segment_max_age_ms=1000)
    clock.now_ms += 5000
    log.append(new_records([0]))  # its age counts from here, not from its creation
    clock.now_ms += 999
    log.append(new_records([1]))
    log.roll_if_due()
    assert len(payloads(log)) == 2
    assert [segment.end_offset for segment in log.segments] == []
    clock.now_ms += 1
    log.append(new_records([2]))
    assert [segment.end_offset for segment in log.segments] == [2]
    clock.now_ms += 1000
    log.roll_if_due()
    log.roll_if_due()  # an empty one has no age
    assert [segment.end_offset for segment in log.segments] == [2, 3]


def test_a_segment_ends_where_relative_offsets_do(disk: FaultDisk) -> None:
    log = open_log(disk)
    log.append([new_record(number, span=span) for number, span in enumerate((MAX_SPAN, 1, 1, 3))])
    assert [segment.end_offset for segment in log.segments] == [1 << 32]
    log.append([new_record(4, span=MAX_SPAN - 3), new_record(5)])
    assert [segment.end_offset for segment in log.segments] == [1 << 32, 1 << 33]
    log.close()
    log = open_log(disk)
    assert payloads(log) == [expected_payload(number) for number in range(6)]
    for record in list(log.scan(0)):
        for offset in (record.offset, record.end_offset - 1):
            assert log.fetch(offset).offset == record.offset


def test_preallocation_is_in_pages_and_goes_at_seal_and_at_close(disk: FaultDisk) -> None:
    log = open_log(disk, segment_max_bytes=100_000, preallocate_min_bytes=5000, preallocate_max_bytes=20_000)
    asked: list[int] = []

    def note(call: Call) -> None:
        if call.operation == "preallocate":
            asked.append(call.size)

    disk.observer = note
    end = LOG_HEADER_BYTES
    for number in range(80):
        end += log.check(new_records([number], 1000))
        log.append(new_records([number], 1000), Ack.AFTER_WRITE)
        assert log_files(disk)[FIRST_LOG] == asked[-1] >= end
    assert all(size % PAGE_BYTES == 0 for size in asked)
    assert len(asked) < 10, "it grows with the file"
    log.roll()
    assert log_files(disk)[FIRST_LOG] == end == log.segments[0].log_bytes
    log.append(new_records([80]))
    active = f"{80:020d}.log"
    assert log_files(disk)[active] % PAGE_BYTES == 0
    log.close()
    assert log_files(disk)[active] == LOG_HEADER_BYTES + log.check(new_records([80]))


def test_preallocation_can_be_turned_off(disk: FaultDisk) -> None:
    log = open_log(disk, preallocate_max_bytes=0)
    seen = Changes(disk)
    log.append(new_records([0]))
    assert seen.operations() == ["write", "fdatasync"]
    assert log_files(disk)[FIRST_LOG] == LOG_HEADER_BYTES + log.check(new_records([0]))


def test_an_append_inside_of_an_append_is_refused(disk: FaultDisk) -> None:
    """A signal handler runs in the thread that holds the mutex; the mutex does not keep it out."""
    log = open_log(disk)
    refused: list[str] = []

    def interrupt(_: int) -> None:
        try:
            log.append([NewRecord(b"inner")])
        except RuntimeError as error:
            refused.append(str(error))

    log.append([NewRecord(b"outer", stamp=interrupt)])
    assert refused == ["an append inside of an append, from a signal handler or a stamp"]
    assert payloads(log) == [b"outer"]
    assert log.append([NewRecord(b"next")]).base_offset == 1


def test_a_close_that_fails_lets_go_of_the_lock(disk: FaultDisk) -> None:
    log = open_log(disk)
    log.append([NewRecord(b"safe")])
    disk.fail("close", errno.EIO, path_contains=".log", times=1)
    with pytest.raises(DiskError, match="close failed"):
        log.close()
    with open_log(disk) as log:
        assert payloads(log) == [b"safe"]


def test_a_small_record_that_is_kept_does_not_keep_what_was_read_with_it(disk: FaultDisk) -> None:
    log = open_log(disk, index_stride_bytes=1 << 20, segment_max_bytes=1 << 30)
    log.append([NewRecord(b"x" * 100) for _ in range(500)])
    record = log.fetch(250)
    assert memoryview(record.payload.obj).nbytes < 200


def test_segments_may_get_another_size_while_the_log_is_open(disk: FaultDisk) -> None:
    log = open_log(disk, segment_max_bytes=1 << 20)
    log.append([NewRecord(b"x" * 100) for _ in range(20)])
    log.resize(segment_max_bytes=500, segment_max_age_ms=None)
    log.append([NewRecord(b"x" * 100) for _ in range(20)])
    log.close()
    assert manifest_on(disk).segment_max_bytes == 500
    assert len(manifest_on(disk).segments) > 3


def test_unsynced_bytes_are_those_behind_the_last_sync_over_rolls_too(disk: FaultDisk) -> None:
    log = open_log(disk)
    before = log.size_bytes
    log.append(new_records([1, 2]), Ack.AFTER_WRITE)
    assert log.unsynced_bytes == log.size_bytes - before > 0
    log.sync()
    assert log.unsynced_bytes == 0
    log.append(new_records([3]), Ack.AFTER_WRITE)
    log.roll()
    assert log.unsynced_bytes == 0
    before = log.size_bytes
    log.append(new_records([4]), Ack.AFTER_WRITE)
    assert log.unsynced_bytes == log.size_bytes - before > 0
    log.close()
    log = open_log(disk)
    assert log.unsynced_bytes == 0
    log.close()
