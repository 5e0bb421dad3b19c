"""One read of a segment: what a scan finds there, or less. test_every_byte.py damages it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from barbicel.codecs.keratin_record import Record
from barbicel.errors import CorruptLog, DiskError
from barbicel.keratin import Ack, Log
from barbicel.keratin.index import IndexHit
from barbicel.keratin.reader import Reader
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
        found = log.read(offset, log.end_offset, max_bytes)
        same = scanned(log, offset)[: len(found.views)]
        assert found.views == [record.payload for record in same]
        assert found.size == sum(record.size for record in same) <= max_bytes
        if same:
            assert found.next_offset == same[-1].end_offset
        if max_bytes == 1 << 20:
            assert same[0].offset <= offset < same[0].end_offset
            assert found.next_offset in ends


def test_it_goes_no_further_than_it_is_told(log: Log) -> None:
    """Not even where there is more: what nobody has synced is not for everybody."""
    for end_offset in range(0, 10 * SPAN, SPAN):
        found = log.read(0, end_offset, 1 << 20)
        assert (found.next_offset, len(found.views)) == (end_offset, end_offset // SPAN)


def test_how_large_the_next_one_is_it_says_where_its_head_was_read(log: Log) -> None:
    first, second, *_ = scanned(log, 0)
    for more_bytes in range(second.size + 1):
        found = log.read(0, log.end_offset, first.size + more_bytes)
        is_cut = 36 <= more_bytes < second.size
        assert found.cut_bytes == (len(second.payload) if is_cut else 0)
        assert len(found.views) == 1 + (more_bytes == second.size)


def test_whoever_goes_on_need_not_be_searched_for(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    end = log.read(0, log.end_offset, 300).next_offset
    follow = scanned(log, end)
    log.read(0, log.end_offset, 300)  # again: the scan has had other files opened
    monkeypatch.setattr(Reader, "_seek", None)
    found = log.read(end, log.end_offset, 300)
    assert found.views == [record.payload for record in follow[: len(found.views)]] != []


@pytest.mark.parametrize("position", [0, 68, 69, 150, 1 << 40])
def test_where_somebody_went_on_is_only_a_hint(log: Log, position: int) -> None:
    offset = 5 * SPAN
    stretch = log._view.stretch_at(offset)
    with log._reader.open(stretch, offset) as handle:
        handle.went_on_at = IndexHit(offset, position)
        with suppress(DiskError, ValueError):
            assert log.read(offset, log.end_offset, 1 << 20).views == []
    assert bytes(next(log.scan(offset)).payload) == bytes(log.fetch(offset).payload)


def test_whoever_goes_on_where_a_read_has_ended_finds_what_follows(log: Log, disk: FaultDisk) -> None:
    """Without a search; what two readers at different places are told of each other's ends harms neither."""
    ends = [0, 50 * SPAN]
    for _ in range(40):
        for reader in (0, 1):
            found = log.read(ends[reader], log.end_offset, 300)
            expected = scanned(log, ends[reader])[: len(found.views)]
            assert found.views == [record.payload for record in expected] != []
            ends[reader] = found.next_offset
            if ends[reader] == log.end_offset:
                ends[reader] = 0


@pytest.mark.parametrize("offset", [-1, COUNT * SPAN, 1 << 40])
def test_there_is_nothing_outside_of_the_log(log: Log, offset: int) -> None:
    assert log.read(offset, 1 << 41, 1 << 20) == ([], offset, 0, 0)
