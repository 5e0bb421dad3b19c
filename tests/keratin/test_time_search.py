"""Finding records by time: the answer is that of a search through all records, whatever the index says."""

from __future__ import annotations

import pytest

from barbicel.codecs.keratin_format import INDEX_HEADER_BYTES, TIME_ENTRY
from barbicel.keratin import Log, NewRecord
from barbicel.keratin.layout import Layout
from barbicel.keratin.retention import RetentionRules
from barbicel.keratin.time_index import TimeHit
from tests.keratin.builders import ROOT, new_record, open_log
from tests.support.fault_disk import Call, FaultDisk

RISING = [10 * number for number in range(40)]
EQUAL = [500] * 40
FALLING = RISING[::-1]
EARLY_MAX = [100, 9000, *range(101, 139)]
ZIGZAG = [1000 + number * 7 % 40 * 10 for number in range(40)]
STAIRS = [number // 8 * 100 for number in range(40)]

SHAPES = {
    "rising": RISING,
    "equal": EQUAL,
    "falling": FALLING,
    "early max": EARLY_MAX,
    "zigzag": ZIGZAG,
    "stairs": STAIRS,
}


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


def filled(disk: FaultDisk, timestamps: list[int], *, roll_each: int | None = 8, span: int = 1) -> Log:
    """A log with these, some of them in the active segment."""
    log = open_log(disk)
    for number, timestamp_ms in enumerate(timestamps):
        if roll_each is not None and number % roll_each == 0:
            log.roll()
        log.append([new_record(number, timestamp_ms=timestamp_ms, span=span)])
    return log


def by_hand(log: Log, timestamp_ms: int) -> TimeHit | None:
    for record in log.scan(log.start_offset):
        if record.timestamp_ms >= timestamp_ms:
            return TimeHit(record.timestamp_ms, record.offset)
    return None


def check(log: Log, timestamps: list[int]) -> None:
    wanted = {0, 1 << 63, *(near for time in timestamps for near in (max(0, time - 1), time, time + 1))}
    for timestamp_ms in wanted:
        assert log.offset_for_time(timestamp_ms) == by_hand(log, timestamp_ms), timestamp_ms


@pytest.mark.parametrize("roll_each", [None, 1, 8, 25])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_record_that_is_late_enough(disk: FaultDisk, shape: str, roll_each: int | None) -> None:
    with filled(disk, SHAPES[shape], roll_each=roll_each) as log:
        check(log, SHAPES[shape])
    check(open_log(disk), SHAPES[shape])


def test_known_answers(disk: FaultDisk) -> None:
    """Not only what a scan says: these are right by eye."""
    log = filled(disk, [100, 300, 200, 300, 50, 400, 400, 10], roll_each=3)
    answers = {time: log.offset_for_time(time) for time in (0, 100, 101, 300, 301, 400, 401)}
    assert answers == {
        0: (100, 0),
        100: (100, 0),
        101: (300, 1),
        300: (300, 1),
        301: (400, 5),
        400: (400, 5),
        401: None,
    }


def test_an_empty_log_has_no_answer(disk: FaultDisk) -> None:
    log = open_log(disk)
    assert log.offset_for_time(0) is None
    log.append([new_record(0, timestamp_ms=5)])
    log.truncate_before(1)
    assert log.offset_for_time(0) is None


def test_a_span_is_found_by_its_first_offset(disk: FaultDisk) -> None:
    log = filled(disk, RISING, span=5)
    assert log.offset_for_time(125) == (130, 65)


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_before_the_start_of_the_log_is_found(disk: FaultDisk, shape: str) -> None:
    log = filled(disk, SHAPES[shape])
    for start in (1, 7, 8, 9, 30, 33, 39):
        log.truncate_before(start)
        check(log, SHAPES[shape])


def test_the_answer_can_be_read_when_the_log_starts_inside_a_span(disk: FaultDisk) -> None:
    log = filled(disk, RISING, span=5)
    log.truncate_before(7)
    hit = log.offset_for_time(0)
    assert hit is not None
    assert next(log.scan(hit.offset)).timestamp_ms == hit.timestamp_ms == 10


@pytest.mark.parametrize("shape", SHAPES)
def test_a_missing_time_index_changes_no_answer(disk: FaultDisk, shape: str) -> None:
    log = filled(disk, SHAPES[shape])
    for segment in log.segments:
        disk.unlink(Layout(ROOT).time_index(segment.base_offset))
    check(log, SHAPES[shape])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_short_time_index_changes_no_answer(disk: FaultDisk, shape: str) -> None:
    filled(disk, SHAPES[shape], roll_each=20).close()
    path = Layout(ROOT).time_index(0)
    whole = disk.files()[path]
    for size in {0, 10, INDEX_HEADER_BYTES, *range(INDEX_HEADER_BYTES, len(whole), 5)}:
        log = open_log(disk)
        disk.put(path, whole[:size])
        check(log, SHAPES[shape])
        disk.put(path, whole)
        log.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_flipped_bit_in_a_time_index_changes_no_answer(disk: FaultDisk, shape: str) -> None:
    timestamps = SHAPES[shape][:12]
    filled(disk, timestamps, roll_each=10).close()
    path = Layout(ROOT).time_index(0)
    whole = disk.files()[path]
    assert len(whole) >= INDEX_HEADER_BYTES + TIME_ENTRY.size
    sound = open_log(disk)
    answers = {wanted: by_hand(sound, wanted) for time in timestamps for wanted in (time, time + 1)}
    sound.close()
    for bit in range(8 * INDEX_HEADER_BYTES, 8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        disk.put(path, bytes(flipped))
        with open_log(disk) as log:
            assert {wanted: log.offset_for_time(wanted) for wanted in answers} == answers, bit


def test_an_entry_that_moved_to_a_later_record_of_its_time_changes_no_answer(disk: FaultDisk) -> None:
    timestamps = [100, 150, 100]
    filled(disk, timestamps, roll_each=None).close()
    log = open_log(disk)
    log.roll()
    log.close()
    path = Layout(ROOT).time_index(0)
    whole = bytearray(disk.files()[path])
    (time, rel_offset, _) = TIME_ENTRY.unpack_from(whole, INDEX_HEADER_BYTES)
    assert (time, rel_offset, len(whole)) == (100, 0, INDEX_HEADER_BYTES + TIME_ENTRY.size)
    TIME_ENTRY.pack_into(whole, INDEX_HEADER_BYTES, 100, 2, 0)  # one bit
    disk.put(path, bytes(whole))
    log = open_log(disk)
    assert log.offset_for_time(120) == (150, 1)


def test_a_trim_during_a_search_only_moves_the_answer(disk: FaultDisk) -> None:
    filled(disk, RISING).close()
    log = open_log(disk)
    path = Layout(ROOT).time_index(0)

    def trim(call: Call) -> None:
        if (call.operation, call.path) == ("open", path):
            disk.observer = None
            log.truncate_before(20)

    disk.observe_reads, disk.observer = True, trim
    assert log.offset_for_time(300) == (300, 30)


def test_what_retention_took_away_is_not_found(disk: FaultDisk) -> None:
    log = filled(disk, ZIGZAG)
    log.retain(RetentionRules(max_bytes=1000))
    assert log.start_offset > 0
    check(log, ZIGZAG)


def test_the_highest_timestamp_of_all_segments_is_found(disk: FaultDisk) -> None:
    log = open_log(disk)
    assert log.latest_time() is None
    times = [5, 900, 7, 900, 3] * 20
    for timestamp_ms in times:
        log.append([NewRecord(b"x" * 100, timestamp_ms=timestamp_ms)])
    assert len(log.segments) > 1
    assert log.latest_time() == (900, 1)
    log.truncate_before(2)
    assert log.latest_time() == (900, 3)


def test_a_timestamp_that_was_trimmed_away_is_not_the_highest(disk: FaultDisk) -> None:
    log = open_log(disk)
    for timestamp_ms in (900, 3, 5, 4):
        log.append([NewRecord(b"", timestamp_ms=timestamp_ms)])
    log.truncate_before(1)
    assert log.latest_time() == (5, 2)


def test_a_scan_may_begin_at_a_time(disk: FaultDisk) -> None:
    log = open_log(disk)
    for timestamp_ms in (1, 2, 5, 4, 6):
        log.append([NewRecord(b"", timestamp_ms=timestamp_ms)])
    assert [record.offset for record in log.scan_from_time(3)] == [2, 3, 4]
    assert list(log.scan_from_time(7)) == []
