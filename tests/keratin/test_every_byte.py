"""Every byte of a small data directory cut or flipped: a right answer or a clear error, never a wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import NamedTuple

import pytest

from barbicel.codecs.keratin_record import Payloads
from barbicel.errors import BarbicelError, CorruptLog, LogStopped
from barbicel.keratin import Ack, Log, LogSettings, NewRecord
from tests.support.fault_disk import Fate, FaultDisk

ROOT = "/log"
SETTINGS = LogSettings(
    segment_max_bytes=500, index_stride_bytes=120, preallocate_min_bytes=512, preallocate_max_bytes=512
)
# Times go forwards and backwards, and the highest is not the last.
TIMES = [500, 700, 600, 900, 910, 905, 1500, 1400, 1300, 1450, 1460, 1470, 1480]


class Truth:
    """What was put in, by offset."""

    def __init__(self) -> None:
        self.disk = FaultDisk()
        self.contents: dict[int, bytes] = {}
        self.times: list[tuple[int, int]] = []
        self.end = 0

    def build(self, *, clean: bool) -> None:
        log = open_log(self.disk)
        for number, time_ms in enumerate(TIMES):
            span = 3 if number % 4 == 2 else 1
            content = b"number %d " % number + b"x" * (number * 5)
            ack = Ack.AFTER_FSYNC if number % 3 else Ack.AFTER_WRITE
            appended = log.append([NewRecord(content, b"hdr", time_ms, span)], ack)
            self.times.append((time_ms, appended.base_offset))
            for offset in range(appended.base_offset, appended.base_offset + appended.count):
                self.contents[offset] = content
        self.end = log.end_offset
        if clean:
            log.close()
        else:
            self.disk = self.disk.crash(Fate.KEEP, Random(0))

    def first_time(self, wanted: int) -> tuple[int, int] | None:
        return next((found for found in self.times if found[0] >= wanted), None)


class Changed(NamedTuple):
    """Which file is not as it was, and how."""

    path: str
    position: int
    is_cut: bool
    is_unvouched_tail: bool

    @property
    def is_flipped_record(self) -> bool:
        return self.path.endswith(".log") and not self.is_cut and self.position >= 68


def open_log(disk: FaultDisk) -> Log:
    return Log.open(ROOT, disk=disk, settings=SETTINGS, clock=lambda: 5000)


def variants(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Cut at every byte, and every byte with one bit and with all bits flipped."""
    for position in range(len(data.rstrip(b"\0"))):
        yield position, data[:position], True
        for mask in (0x01, 0x80, 0xFF):
            flipped = bytearray(data)
            flipped[position] ^= mask
            yield position, bytes(flipped), False


def check(truth: Truth, disk: FaultDisk, changed: Changed) -> None:
    log = open_log(disk)
    end = log.end_offset
    if end != truth.end:
        # Behind the manifest's word the last segment's tail may be a torn one.
        assert end < truth.end
        assert changed.is_unvouched_tail
        assert changed.is_cut or log.found.segments[-1].torn is not None
    unreadable = set()
    for offset in range(end):
        check_read(truth, log, offset)
        try:
            assert bytes(log.fetch(offset).payload) == truth.contents[offset]
        except CorruptLog as error:
            assert error.path == changed.path
            assert error.first_offset <= offset < error.end_offset
            unreadable.add(truth.contents[offset])
    if changed.is_flipped_record:
        assert len(unreadable) <= 1
    check_scan(truth, log, is_whole=not unreadable)
    if not unreadable and end == truth.end:
        for wanted in (0, 501, 650, 700, 701, 906, 1000, 1455, 1500, 1501):
            assert log.offset_for_time(wanted) == truth.first_time(wanted)
    check_append(log)


def check_read(truth: Truth, log: Log, offset: int) -> None:
    """What one read has: as much as a scan from there, or less."""
    found = Payloads([], offset, 0, 0)
    with suppress(CorruptLog):
        found = log.read(offset, log.end_offset, 1 << 20)
    expected: list[bytes] = []
    at = offset
    while len(expected) < len(found.views):
        expected.append(truth.contents[at])
        at += 1
        while at < found.next_offset and truth.contents[at] is expected[-1]:
            at += 1
    assert found.views == expected
    assert at == found.next_offset or not expected


def check_scan(truth: Truth, log: Log, *, is_whole: bool) -> None:
    seen: list[int] = []
    offset = 0
    while offset < log.end_offset:
        try:
            for record in log.scan(offset):
                assert bytes(record.payload) == truth.contents[record.offset]
                seen.append(record.offset)
                offset = record.end_offset
        except CorruptLog as error:
            assert not is_whole
            assert error.end_offset > offset
            offset = error.end_offset
    assert seen == sorted(set(seen))
    if is_whole:
        assert seen == [found for _, found in truth.times if found < log.end_offset]


def check_append(log: Log) -> None:
    """It goes on at the end, or is refused with the reason."""
    end = log.end_offset
    try:
        assert log.append([NewRecord(b"next")]).base_offset == end
        assert bytes(log.fetch(end).payload) == b"next"
    except LogStopped as error:
        assert log.damage
        assert "damaged" in str(error)
    log.close()


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_no_cut_or_flipped_byte_gives_a_wrong_answer(clean: bool) -> None:
    truth = Truth()
    truth.build(clean=clean)
    files = truth.disk.files()
    assert len([path for path in files if path.endswith(".log")]) >= 3
    active = max(path for path in files if path.endswith(".log"))
    looked_at = errors = 0
    for path, data in files.items():
        for position, variant, is_cut in variants(data):
            disk = truth.disk.crash(Fate.KEEP, Random(0))
            disk.put(path, variant)
            looked_at += 1
            try:
                check(truth, disk, Changed(path, position, is_cut, not clean and path == active))
            except BarbicelError as error:
                assert error.path is not None
                errors += 1
    assert looked_at > 4000
    # Most of it is survived, not just refused politely.
    assert errors < looked_at // 100
