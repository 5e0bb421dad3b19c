"""Integration matrix, rotation boundaries: payloads of all sizes, many rotations, one row of records."""

from __future__ import annotations

from random import Random

import pytest

from barbicel.codecs.aof2_manifest import (
    CHUNK_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    ManifestRecord,
    decode_chunk,
)
from barbicel.codecs.aof2_payloads import CustomEvent
from barbicel.tier.manifest_log.layout import chunk_path, list_files
from barbicel.tier.manifest_log.settings import ManifestSettings
from tests.golden.crc64_bitwise import crc64_nvme as crc64_bitwise
from tests.support.fault_disk import FaultDisk
from tests.tier.manifest_log.builders import QUIET, ROOT, Clock, opened

CAPACITY = QUIET.chunk_capacity_bytes
# What a CustomEvent has besides its blob.
OVERHEAD = RECORD_HEADER_BYTES + 6


def event(number: int, blob_bytes: int) -> ManifestRecord:
    return ManifestRecord(CustomEvent(500, bytes([number % 256]) * blob_bytes), logical_offset=number)


def all_records(disk: FaultDisk) -> list[ManifestRecord]:
    """Every record on the disk, with continuity of chunks, numbers and CRCs checked."""
    found: list[ManifestRecord] = []
    for expected, index in enumerate(list_files(disk, ROOT).chunks):
        data = disk.files()[chunk_path(ROOT, index)]
        header, placed = decode_chunk(data, index)
        assert index == expected
        assert header.base_record == len(found)
        assert placed
        assert header.chunk_crc64 == crc64_bitwise(data[CHUNK_HEADER_BYTES : header.committed_len])
        found += [each.record for each in placed]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_records_of_all_sizes_over_many_chunks(seed: int) -> None:
    disk, random = FaultDisk(), Random(seed)
    stream = opened(disk)
    count = 0
    while stream.end.chunk_index < 6:
        size = random.choice((1, 7, 100, 2000, 7000, CAPACITY - OVERHEAD - CHUNK_HEADER_BYTES, 20_000))
        stream.append(event(count, size))
        count += 1
        if random.random() < 0.3:
            stream.commit()
        if random.random() < 0.1:
            stream.close()
            stream = opened(disk)
    stream.close()
    records = all_records(disk)
    assert [record.logical_offset for record in records] == list(range(count))
    assert opened(disk).end.next_record == count


@pytest.mark.parametrize("off_by", [-1, 0, 1])
def test_a_record_that_just_fits_and_one_that_just_does_not(off_by: int) -> None:
    disk = FaultDisk()
    stream = opened(disk)
    stream.append(event(0, 1000))
    room = CAPACITY - stream.end.chunk_offset
    stream.append(event(1, room - OVERHEAD + off_by))
    assert stream.end.chunk_index == (1 if off_by > 0 else 0)
    assert list(stream.sealed_chunks()) == ([0] if off_by > 0 else [])
    stream.append(event(2, 10))
    stream.close()
    assert [record.logical_offset for record in all_records(disk)] == [0, 1, 2]


def test_a_chunk_rotates_by_time_after_its_last_commit() -> None:
    disk, clock = FaultDisk(), Clock()
    stream = opened(disk, clock, ManifestSettings(rotation_period_ms=250))
    stream.append(event(0, 1))
    for _ in range(5):
        clock.now_ms += 200
        stream.append(event(1, 1))
        stream.commit()
        stream.maintain()
        assert stream.manifest_chunks_active == 1
    clock.now_ms += 249
    stream.maintain()
    assert stream.manifest_chunks_active == 1
    clock.now_ms += 1
    stream.maintain()
    assert stream.manifest_chunks_active == 0
    stream.append(event(2, 1))  # never committed: its first record counts
    clock.now_ms += 250
    stream.maintain()
    assert list(stream.sealed_chunks()) == [0, 1]
    assert len(all_records(disk)) == 7


def test_every_chunk_but_the_last_is_sealed_and_cut_to_its_content() -> None:
    disk = FaultDisk()
    stream = opened(disk)
    for number in range(40):
        stream.append(event(number, 1000))
    stream.commit()
    sizes = list_files(disk, ROOT).chunks
    for index, header in stream.sealed_chunks().items():
        assert header.is_sealed
        assert header.committed_len == header.tail_offset == sizes[index]
    assert len(sizes) == len(stream.sealed_chunks()) + 1
    assert sizes[max(sizes)] == CAPACITY  # preallocated
