"""Traps that other implementations of this log fell into, a test each."""

from __future__ import annotations

import struct

import pytest

from barbicel.codecs.aof2_manifest import CHUNK_HEADER_BYTES, ManifestRecord, decode_chunk, encode_record
from barbicel.codecs.aof2_payloads import HydrationDone, HydrationStarted
from barbicel.errors import CorruptManifest
from barbicel.tier.manifest_log.layout import chunk_path, temporary_path
from barbicel.tier.manifest_log.settings import ManifestSettings
from tests.support.fault_disk import FaultDisk
from tests.tier.manifest_log.builders import ROOT, Clock, begun, fill, opened, tiered

PAYLOAD_WITH_CRC_0 = 0xADF875066DC6AAD1


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


def chunk_files(disk: FaultDisk) -> dict[str, bytes]:
    return {path: data for path, data in disk.files().items() if ".mlog" in path}


def test_chunk_0_is_not_truncated_at_a_restart(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.append(*tiered(0))
    stream.close()
    for number in range(1, 6):
        stream = opened(disk)
        assert [entry.segment_id for entry in stream.catalogue.segments] == [
            100 * before for before in range(number)
        ]
        stream.append(*tiered(100 * number))
        stream.close()
    assert list(chunk_files(disk)) == [chunk_path(ROOT, 0)]
    assert opened(disk).end.next_record == 6 * len(tiered(0))


def test_sealing_commits(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.append(*begun(0))
    stream.commit()
    stream.append(*begun(100))
    stream.seal()
    data = disk.files()[chunk_path(ROOT, 0)]
    header, placed = decode_chunk(data, 0)
    assert header.is_sealed
    assert header.committed_len == header.tail_offset == len(data)
    assert len(placed) == 4
    assert len(opened(disk).catalogue.segments) == 2


def test_a_payload_crc_of_zero_does_not_disable_verification(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.append(*begun(0), ManifestRecord(HydrationDone(PAYLOAD_WITH_CRC_0), 0, 0))
    stream.close()
    path = chunk_path(ROOT, 0)
    good = disk.files()[path]
    entry = opened(disk, read_only=True).catalogue.segment(0)
    assert entry is not None
    assert entry.resident_bytes == PAYLOAD_WITH_CRC_0
    position = good.index(struct.pack("<Q", PAYLOAD_WITH_CRC_0))
    assert good[position - 8 : position] == bytes(8)
    disk.put(path, good[:position] + struct.pack("<Q", 5) + good[position + 8 :])
    with pytest.raises(CorruptManifest, match="payload_crc64 does not match"):
        opened(disk)


@pytest.mark.parametrize("content", [b"", bytes(64), bytes(16 << 10), b"\xff" * 100])
def test_a_file_left_before_its_first_commit_fails_nothing(disk: FaultDisk, content: bytes) -> None:
    """A crash between the preallocation and the header leaves zeros, or nothing at all."""
    stream = opened(disk)
    fill(stream, 1)
    stream.close()
    disk.put(temporary_path(chunk_path(ROOT, 1)), content)
    assert len(opened(disk, read_only=True).catalogue.segments) == 1
    stream = opened(disk)
    assert list(chunk_files(disk)) == [chunk_path(ROOT, 0)]
    stream.append(*tiered(100))
    stream.close()
    assert len(opened(disk).catalogue.segments) == 2


@pytest.mark.parametrize("missing", range(4))
def test_a_missing_chunk_is_noticed(disk: FaultDisk, missing: int) -> None:
    stream = opened(disk)
    fill(stream, 5)
    stream.close()
    disk.unlink(chunk_path(ROOT, missing))
    before = disk.files()
    with pytest.raises(CorruptManifest, match="the chunk is missing") as caught:
        opened(disk)
    assert caught.value.chunk_index == missing
    assert disk.files() == before


def test_a_chunk_whose_records_do_not_continue_is_noticed(disk: FaultDisk) -> None:
    stream = opened(disk)
    fill(stream, 3)
    stream.close()
    path = chunk_path(ROOT, 1)
    data = disk.files()[path]
    disk.put(path, data[:24] + struct.pack("<Q", 7) + data[32:])
    with pytest.raises(CorruptManifest, match="begin with number 7, expected was 6") as caught:
        opened(disk)
    assert (caught.value.chunk_index, caught.value.path) == (1, path)


def test_time_makes_no_chunk_of_an_idle_stream(disk: FaultDisk) -> None:
    clock = Clock()
    stream = opened(disk, clock, ManifestSettings(rotation_period_ms=250))
    stream.append(*tiered(0))
    stream.commit()
    assert stream.manifest_chunks_active == 1
    clock.now_ms += 250
    stream.maintain()
    assert stream.manifest_chunks_active == 0
    files, calls = disk.files(), disk.calls
    for _ in range(1000):
        clock.now_ms += 250
        stream.maintain()
        stream.commit()
    assert (disk.files(), disk.calls) == (files, calls)
    stream.append(ManifestRecord(HydrationStarted(2), 0))
    stream.close()
    assert list(chunk_files(disk)) == [chunk_path(ROOT, 0), chunk_path(ROOT, 1)]


def test_a_resting_chunk_is_sealed_by_time_after_a_restart(disk: FaultDisk) -> None:
    clock = Clock()
    settings = ManifestSettings(rotation_period_ms=250)
    stream = opened(disk, clock, settings)
    stream.append(*tiered(0))
    stream.close()
    stream = opened(disk, clock, settings)
    stream.maintain()
    assert list(stream.sealed_chunks()) == []
    clock.now_ms += 250
    stream.maintain()
    assert list(stream.sealed_chunks()) == [0]
    assert stream.manifest_chunks_active == 0


def test_nothing_but_the_active_chunks_tail_is_ever_trimmed(disk: FaultDisk) -> None:
    stream = opened(disk)
    fill(stream, 3)
    stream.close()
    path = chunk_path(ROOT, 1)
    disk.put(path, disk.files()[path] + encode_record(ManifestRecord(HydrationStarted(2), 5, 6, 7)))
    before = disk.files()
    with pytest.raises(CorruptManifest, match="behind the end of a sealed chunk"):
        opened(disk)
    assert disk.files() == before


def test_a_first_record_is_not_skipped_without_a_snapshot(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.append(begun(0)[0])
    stream.close()
    again = opened(disk)
    assert again.end.next_record == 1
    assert again.end.chunk_offset > CHUNK_HEADER_BYTES
    assert again.catalogue.segment(0) is not None
