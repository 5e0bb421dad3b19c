"""Integration matrix, snapshot replay: a snapshot, more chunks, and replay from where the snapshot ends."""

from __future__ import annotations

from random import Random

import pytest

from barbicel.codecs.aof2_manifest import CHUNK_HEADER_BYTES, ManifestRecord
from barbicel.codecs.aof2_payloads import HydrationStarted
from barbicel.codecs.crc64 import crc64_nvme
from barbicel.codecs.manifest_snapshot import (
    ManifestSnapshot,
    decode_manifest_snapshot,
    encode_manifest_snapshot,
)
from barbicel.errors import CorruptManifest, UnknownVersion
from barbicel.tier.manifest_log.layout import chunk_path, snapshot_path
from barbicel.tier.manifest_log.recovery import survey
from tests.support.fault_disk import Call, Fate, FaultDisk
from tests.tier.manifest_log.builders import ROOT, STREAM, begun, fill, opened, tiered


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


def damage(disk: FaultDisk, path: str) -> None:
    data = bytearray(disk.files()[path])
    data[len(data) // 2] ^= 1
    disk.put(path, bytes(data))


@pytest.mark.parametrize("is_within_a_chunk", [True, False])
def test_replay_begins_at_the_offset_of_the_snapshot(disk: FaultDisk, is_within_a_chunk: bool) -> None:
    stream = opened(disk)
    fill(stream, 2)
    stream.append(*begun(900), ManifestRecord(HydrationStarted(2), 900, 900))
    if not is_within_a_chunk:
        stream.seal()
    taken = stream.snapshot()
    assert (taken.chunk_offset > CHUNK_HEADER_BYTES) == is_within_a_chunk
    fill(stream, 2, first=10)
    stream.append(*begun(5000))
    stream.close()
    replayed = survey(disk, ROOT, STREAM).replayed
    assert replayed.snapshot == taken
    # The marker, two filled chunks, and the last two records: nothing that the snapshot holds.
    assert replayed.record_count == 1 + 2 * len(tiered(0)) + 2
    assert replayed.markers == [(taken.chunk_index, 1)]
    again = opened(disk)
    assert again.catalogue.image() == stream.catalogue.image()
    # What was under way is scheduled once, although the snapshot and the log both know of it.
    assert [entry.segment_id for entry in again.catalogue.pending_hydrations] == [900]


def test_chunks_below_the_snapshot_are_not_needed(disk: FaultDisk) -> None:
    stream = opened(disk)
    fill(stream, 4)
    stream.snapshot()
    fill(stream, 1, first=10)
    stream.close()
    for index in (0, 1, 3):
        disk.unlink(chunk_path(ROOT, index))
    damage(disk, chunk_path(ROOT, 2))
    again = opened(disk)
    assert again.catalogue.image() == stream.catalogue.image()
    disk.put(chunk_path(ROOT, 2), bytes(100))
    again = opened(disk)
    assert again.catalogue.image() == stream.catalogue.image()
    assert [error.path for error in again.damage] == [chunk_path(ROOT, 2)]
    assert again.manifest_crc_error_count == 1


def test_a_damaged_newest_snapshot_falls_back_to_an_older_one(disk: FaultDisk) -> None:
    stream = opened(disk)
    fill(stream, 2)
    stream.snapshot()
    fill(stream, 2, first=10)
    stream.snapshot()
    fill(stream, 1, first=20)
    stream.close()
    damage(disk, snapshot_path(ROOT, 2))
    evidence = disk.files()[snapshot_path(ROOT, 2)]
    again = opened(disk)
    assert again.catalogue.image() == stream.catalogue.image()
    assert again.manifest_crc_error_count == 1
    assert again.snapshot_ids() == [1]
    # The next one has a number of its own, and what was damaged stays to be looked at.
    assert again.snapshot().snapshot_id == 3
    again.maintain()
    assert disk.files()[snapshot_path(ROOT, 2)] == evidence
    assert opened(disk).catalogue.image() == stream.catalogue.image()


def test_without_any_whole_snapshot_all_chunks_are_replayed(disk: FaultDisk) -> None:
    stream = opened(disk)
    fill(stream, 2)
    stream.snapshot()
    stream.close()
    damage(disk, snapshot_path(ROOT, 1))
    assert opened(disk).catalogue.image() == stream.catalogue.image()


@pytest.mark.parametrize("chunks_left", [0, 1])
def test_a_damaged_snapshot_without_its_chunks_is_an_error_and_never_empty(
    disk: FaultDisk, chunks_left: int
) -> None:
    stream = opened(disk)
    fill(stream, 3)
    stream.snapshot()
    stream.close()
    damage(disk, snapshot_path(ROOT, 1))
    for index in range(4 - chunks_left):
        disk.unlink(chunk_path(ROOT, index))
    before = disk.files()
    with pytest.raises(CorruptManifest, match="snapshot 1 is of no use") as caught:
        opened(disk)
    assert caught.value.chunk_index == 0
    assert disk.files() == before


def test_an_older_snapshot_without_the_chunks_behind_it_is_an_error(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.snapshot()
    fill(stream, 3)
    stream.snapshot()
    stream.close()
    damage(disk, snapshot_path(ROOT, 2))
    for index in range(5):
        if disk.exists(chunk_path(ROOT, index)):
            disk.unlink(chunk_path(ROOT, index))
    with pytest.raises(CorruptManifest, match="the chunk is missing"):
        opened(disk)


def rewrite(disk: FaultDisk, **changes: int | str) -> None:
    taken = decode_manifest_snapshot(disk.files()[snapshot_path(ROOT, 1)])
    fields = {**taken._asdict(), **changes}
    disk.put(snapshot_path(ROOT, 1), encode_manifest_snapshot(ManifestSnapshot(**fields)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chunk_offset": 65}, "begins no record"),
        ({"chunk_offset": 1 << 20}, "begins no record"),
        ({"next_record": 3}, "expected was 3"),
        ({"chunk_index": 9}, "chunk 9: the chunk is missing"),
    ],
)
def test_a_snapshot_that_does_not_fit_its_log_is_refused(
    disk: FaultDisk, changes: dict[str, int], message: str
) -> None:
    stream = opened(disk)
    stream.append(*begun(0))
    stream.snapshot()
    stream.close()
    rewrite(disk, **changes)
    with pytest.raises(CorruptManifest, match=message):
        opened(disk)


def test_the_snapshot_of_another_stream_is_of_no_use(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.append(*begun(0))
    stream.snapshot()
    stream.close()
    rewrite(disk, stream_id="another-0")
    again = opened(disk)  # from the chunks
    assert again.catalogue.image() == stream.catalogue.image()
    assert "another-0" in str(again.damage[0])


def test_a_snapshot_of_a_newer_program_is_not_passed_over(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.append(*begun(0))
    stream.snapshot()
    stream.close()
    data = bytearray(disk.files()[snapshot_path(ROOT, 1)])
    data[8] = 2
    data[16:24] = crc64_nvme(data[24:], crc64_nvme(data[:16])).to_bytes(8, "little")
    disk.put(snapshot_path(ROOT, 1), bytes(data))
    with pytest.raises(UnknownVersion):
        opened(disk)


def test_a_crash_at_every_call_of_a_snapshot(disk: FaultDisk) -> None:
    stream = opened(disk)
    fill(stream, 1)
    stream.append(*begun(900))
    stream.commit()
    image = stream.catalogue.image()
    seen: set[str] = set()

    def cut(call: Call) -> None:
        seen.add(call.operation)
        for seed in range(10):
            for fate in Fate:
                again = opened(disk.crash(fate, Random(seed)))
                assert again.catalogue.image() == image
                again.append(*begun(950))
                again.snapshot()

    disk.observer = cut
    stream.snapshot()
    assert seen >= {"create", "write", "fdatasync", "rename", "fsync"}
