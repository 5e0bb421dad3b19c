"""One read of a segment: what a scan finds there, or nothing. test_every_byte.py damages it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from barbicel.codecs.keratin_record import Record
from barbicel.errors import CorruptLog
from barbicel.keratin import Ack, Log
from tests.keratin.builders import new_record, open_log
from tests.support.fault_disk import FaultDisk

COUNT = 100
SPAN = 3


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


@pytest.fixture
def log(disk: FaultDisk) -> Log:
    """Several segments, the last of them active, and every record covers three offsets."""
    log = open_log(disk)
    log.append([new_record(number, span=SPAN) for number in range(COUNT)], Ack.AFTER_WRITE)
    assert len(log.segments) > 2
    return log


def told(records: list[Record]) -> list[tuple[int, int, int, bytes, bytes, int]]:
    return [
        (one.offset, one.span, one.timestamp_ms, bytes(one.headers), bytes(one.payload), one.position)
        for one in records
    ]


def scanned(log: Log, offset: int) -> list[Record]:
    """As far as there is no damage."""
    found: list[Record] = []
    with suppress(CorruptLog):
        found.extend(log.scan(offset))
    return found


@pytest.mark.parametrize("max_bytes", [1, 200, 500, 1 << 20])
def test_it_is_what_a_scan_finds(log: Log, max_bytes: int) -> None:
    ends = {segment.last_offset + 1 for segment in log.segments} | {log.end_offset}
    for offset in range(log.end_offset):
        found = log.read(offset, max_bytes)
        assert told(found) == told(scanned(log, offset))[: len(found)]
        assert sum(record.size for record in found) <= max_bytes
        if max_bytes == 1 << 20:
            assert found[0].offset <= offset < found[0].end_offset
            assert found[-1].end_offset in ends


@pytest.mark.parametrize("offset", [-1, COUNT * SPAN, 1 << 40])
def test_there_is_nothing_outside_of_the_log(log: Log, offset: int) -> None:
    assert log.read(offset, 1 << 20) == []
