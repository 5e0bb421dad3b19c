"""Giving up old records: which segments go, in which order on the disk, and what stays readable."""

from __future__ import annotations

from random import Random

import pytest

from barbicel.codecs.keratin_format import LOG_HEADER_BYTES
from barbicel.errors import OffsetOutOfRange
from barbicel.keratin import Ack, Log
from barbicel.keratin.layout import Layout
from barbicel.keratin.retention import RetentionRules
from tests.keratin.builders import (
    ROOT,
    Changes,
    ManualClock,
    expected_payload,
    log_files,
    manifest_on,
    new_record,
    new_records,
    open_log,
    payloads,
    segment_paths,
)
from tests.support.fault_disk import Call, Fate, FaultDisk, PowerCut

SEGMENT_RECORDS = 10
NOW_MS = 1_000_000


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


def filled(disk: FaultDisk, segments: int, *, clock: ManualClock | None = None) -> Log:
    """So many sealed segments of ten records each, and three records in the active one.

    The records of segment n have the timestamps 1000n to 1000n + 9.
    """
    log = open_log(disk, clock=clock)
    for number in range(segments):
        first = number * SEGMENT_RECORDS
        log.append(
            [
                new_record(first + count, timestamp_ms=number * 1000 + count)
                for count in range(SEGMENT_RECORDS)
            ]
        )
        log.roll()
    end = segments * SEGMENT_RECORDS
    log.append([new_record(end + count, timestamp_ms=segments * 1000 + count) for count in range(3)])
    assert len(log.segments) == segments
    return log


def check_holds(log: Log, start: int, end: int) -> None:
    assert (log.start_offset, log.end_offset) == (start, end)
    assert payloads(log) == [expected_payload(number) for number in range(start, end)]
    for offset in (0, start - 1):
        if offset < start:
            with pytest.raises(OffsetOutOfRange):
                log.fetch(offset)
            with pytest.raises(OffsetOutOfRange):
                log.scan(offset)


# By bytes


def test_by_bytes_at_least_so_many_stay(disk: FaultDisk) -> None:
    """Kafka's rule: a segment goes only if what is left is not smaller than the limit."""
    log = filled(disk, 6)
    segment_bytes = log.segments[0].log_bytes
    active_bytes = LOG_HEADER_BYTES + 3 * log.fetch(60).size
    for kept, limit in [
        (6, 1 << 40),
        (6, 6 * segment_bytes + active_bytes),
        (6, 5 * segment_bytes + active_bytes + 1),
        (5, 5 * segment_bytes + active_bytes),
        (3, 2 * segment_bytes + active_bytes + 1),
        (1, segment_bytes),
        (1, active_bytes + 1),
        (0, active_bytes),
    ]:
        start = log.retain(RetentionRules(max_bytes=limit))
        assert (start, len(log.segments)) == (10 * (6 - kept), kept)
        check_holds(log, start, 63)
    assert log.retain(RetentionRules(max_bytes=0)) == 60, "the active segment is not touched"
    check_holds(log, 60, 63)


def test_no_rule_drops_nothing(disk: FaultDisk) -> None:
    log = filled(disk, 3, clock=ManualClock(1 << 60))
    seen = Changes(disk)
    assert log.retain(RetentionRules()) == 0
    assert (seen.operations(), len(log.segments)) == ([], 3)


# By age


def test_by_age_the_latest_record_of_a_segment_decides(disk: FaultDisk) -> None:
    clock = ManualClock()
    log = filled(disk, 6, clock=clock)
    age = 500_000
    for now_ms, start in [
        (age, 0),
        (age + 9, 0),  # the first segment's last record is just young enough
        (age + 10, 10),
        (age + 1009, 10),
        (age + 3010, 40),
        (age + 6002, 60),
    ]:
        clock.now_ms = now_ms
        assert log.retain(RetentionRules(max_age_ms=age)) == start
        check_holds(log, start, 63)
    clock.now_ms = age + 6003  # now all of the active segment is expired too
    assert log.retain(RetentionRules(max_age_ms=age)) == 63
    check_holds(log, 63, 63)
    assert log.append(new_records([63])).base_offset == 63
    check_holds(log, 63, 64)


def test_a_young_record_keeps_its_segment_and_all_behind_it(disk: FaultDisk) -> None:
    clock = ManualClock(NOW_MS)
    log = open_log(disk, clock=clock)
    for number, timestamp_ms in enumerate([1, 2, NOW_MS, 3, 4, 5, 6]):
        log.append([new_record(number, timestamp_ms=timestamp_ms)])
        if number % 2:
            log.roll()
    assert log.retain(RetentionRules(max_age_ms=1000)) == 2
    check_holds(log, 2, 7)


def test_the_age_is_known_again_after_a_restart(disk: FaultDisk) -> None:
    filled(disk, 4).close()
    clock = ManualClock(500_000 + 2010)
    log = open_log(disk, clock=clock)
    assert log.retain(RetentionRules(max_age_ms=500_000)) == 30
    check_holds(log, 30, 43)


def test_the_stricter_rule_wins(disk: FaultDisk) -> None:
    clock = ManualClock(500_000 + 2010)
    log = filled(disk, 6, clock=clock)
    bytes_of_five = 5 * log.segments[0].log_bytes
    assert log.retain(RetentionRules(max_bytes=bytes_of_five, max_age_ms=500_000)) == 30
    bytes_of_two = 2 * log.segments[0].log_bytes
    assert log.retain(RetentionRules(max_bytes=bytes_of_two, max_age_ms=500_000)) == 40


def test_a_segment_that_cannot_be_read_is_not_expired(disk: FaultDisk) -> None:
    log = open_log(disk, clock=ManualClock(NOW_MS))
    log.append(new_records([0]))  # as young as can be
    log.roll()
    path = Layout(ROOT).log(0)
    data = bytearray(disk.files()[path])
    data[-1] ^= 1
    disk.put(path, bytes(data))
    log.retain(RetentionRules(max_age_ms=1000))
    assert disk.files().get(path) == bytes(data)


# Below an offset


@pytest.mark.parametrize("reopened", [False, True])
def test_below_an_offset_the_start_is_exact_and_whole_segments_go(disk: FaultDisk, reopened: bool) -> None:
    log = filled(disk, 6)
    for offset, kept in [(0, 6), (1, 6), (9, 6), (10, 5), (15, 5), (39, 3), (40, 2), (60, 0), (62, 0)]:
        assert log.truncate_before(offset) == offset
        if reopened:
            log.close()
            log = open_log(disk)
        assert len(log.segments) == kept
        check_holds(log, offset, 63)
        assert min(log_files(disk)) == f"{60 - 10 * kept:020d}.idx"
    assert log.truncate_before(30) == 62, "what is given up does not come back"


def test_inside_a_span(disk: FaultDisk) -> None:
    log = open_log(disk)
    log.append([new_record(number, span=10) for number in range(4)])
    log.truncate_before(15)
    assert [record.offset for record in log.scan(15)] == [10, 20, 30]
    assert log.fetch(15).offset == 10
    with pytest.raises(OffsetOutOfRange):
        log.fetch(14)


def test_beyond_the_end_is_refused(disk: FaultDisk) -> None:
    log = filled(disk, 1)
    with pytest.raises(OffsetOutOfRange):
        log.truncate_before(14)
    check_holds(log, 0, 13)


def test_trimming_everything_gives_the_space_back(disk: FaultDisk) -> None:
    log = filled(disk, 3)
    assert log.truncate_before(33) == 33
    check_holds(log, 33, 33)
    assert log.segments == ()
    names = {f"{33:020d}.{suffix}" for suffix in ("log", "idx", "tidx", "isum")}
    assert log_files(disk).keys() == names
    assert sum(log_files(disk).values()) < 500
    log.append(new_records([33]))
    log.close()
    check_holds(open_log(disk), 33, 34)


# On the disk


def test_the_manifest_forgets_the_segments_before_their_files_go(disk: FaultDisk) -> None:
    log = filled(disk, 4)
    doomed = segment_paths(log)[: 2 * 4]
    seen = Changes(disk)
    log.truncate_before(25)
    calls = seen.calls
    unlinked = [call.path for call in calls if call.operation == "unlink"]
    assert unlinked == doomed, "the oldest first"
    last_of_manifest = max(number for number, call in enumerate(calls) if call.path == ROOT)
    assert seen.first("rename", "manifest.bin") < last_of_manifest < seen.first("unlink", "")
    assert (calls[-1].operation, calls[-1].path) == ("fsync", f"{ROOT}/segments")
    assert manifest_on(disk).log_start_offset == 25


@pytest.mark.parametrize("fate", list(Fate))
def test_an_interrupted_trim_is_finished_at_the_next_opening(disk: FaultDisk, fate: Fate) -> None:
    log = filled(disk, 4)
    doomed = segment_paths(log)[: 3 * 4]
    survivors = log_files(disk).keys() - {path.rsplit("/", 1)[1] for path in doomed}
    left: list[FaultDisk] = []

    def look(call: Call) -> None:
        if call.operation in ("unlink", "fsync") and "/segments" in call.path:
            left.append(disk.crash(fate, Random(len(left))))

    disk.observer = look
    log.truncate_before(35)
    assert len(left) == len(doomed) + 1
    for found in left:
        again = open_log(found)
        check_holds(again, 35, 43)
        assert log_files(found).keys() == survivors
        again.close()
        seen = Changes(found)
        check_holds(open_log(found), 35, 43)
        assert seen.operations() == []


def test_a_trim_that_did_not_reach_the_manifest_did_not_happen(disk: FaultDisk) -> None:
    log = filled(disk, 4)

    def cut(call: Call) -> None:
        if call.operation == "rename" and call.target.endswith("manifest.bin"):
            raise PowerCut

    disk.observer = cut
    with pytest.raises(PowerCut):
        log.truncate_before(35)
    for fate in Fate:
        check_holds(open_log(disk.crash(fate, Random(0))), 0, 43)


def test_a_trim_survives_a_power_cut(disk: FaultDisk) -> None:
    log = filled(disk, 4)
    log.truncate_before(35)
    for fate in Fate:
        check_holds(open_log(disk.crash(fate, Random(0))), 35, 43)


def test_the_log_never_starts_behind_what_is_durable(disk: FaultDisk) -> None:
    log = filled(disk, 1)
    log.append(new_records(range(13, 20)), Ack.AFTER_WRITE)
    log.truncate_before(17)
    found = open_log(disk.crash(Fate.DROP, Random(0)))
    assert found.damage == ()
    check_holds(found, 17, 20)


def test_a_file_that_is_gone_already_keeps_no_other_from_going(disk: FaultDisk) -> None:
    log = filled(disk, 4)
    disk.unlink(Layout(ROOT).time_index(0))
    assert log.truncate_before(40) == 40
    assert len(log_files(disk)) == 4
