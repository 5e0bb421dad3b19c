"""Appending, committing, snapshots, retention and failures of a stream on one disk."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from barbicel.codecs.aof2_manifest import CHUNK_MAX_BYTES, ManifestRecord, decode_chunk
from barbicel.codecs.aof2_payloads import CustomEvent, HydrationStarted, SnapshotMarker, UploadStarted
from barbicel.codecs.manifest_snapshot import decode_manifest_snapshot
from barbicel.disk import RealDisk
from barbicel.errors import CorruptFile, DiskError, LogClosed, LogStopped, RecordTooLarge
from barbicel.tier.manifest_log.layout import bundle_name, parse_bundle_name
from barbicel.tier.manifest_log.retention import evictable_snapshots
from barbicel.tier.manifest_log.settings import ManifestSettings
from tests.support.fault_disk import FaultDisk
from tests.tier.manifest_log.builders import QUIET, ROOT, STREAM, Clock, begun, fill, opened, tiered

EVENT = CustomEvent(500, bytes(1000))


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


def names(disk: FaultDisk) -> list[str]:
    return [path.removeprefix(f"{ROOT}/") for path in sorted(disk.files()) if path.startswith(ROOT)]


def test_what_was_committed_is_there_again(disk: FaultDisk) -> None:
    with opened(disk) as stream:
        stream.append(*tiered(0))
        stream.commit()
        image = stream.catalogue.image()
        end = stream.end
    stream = opened(disk)
    assert stream.catalogue.image() == image
    assert stream.end == end
    stream.append(*tiered(100))
    stream.commit()
    assert opened(disk, read_only=True).catalogue.image() == stream.catalogue.image()
    assert names(disk) == ["00000000000000000000.mlog"]


def test_the_same_on_a_real_disk(tmp_path: Path) -> None:
    directory = str(tmp_path / "tier" / STREAM)
    with opened(RealDisk(), directory=directory) as stream:
        fill(stream, 3)
        stream.append(*tiered(300))
        stream.snapshot()
        stream.append(*[ManifestRecord(CustomEvent(500, bytes(60_000)))] * 3)  # a chunk that has to grow
        stream.append(*begun(400))
        stream.commit()
        image = stream.catalogue.image()
    with opened(RealDisk(), directory=directory) as stream:
        assert stream.catalogue.image() == image
        stream.append(*begun(500))
        stream.seal()
    assert len(opened(RealDisk(), directory=directory, read_only=True).catalogue.segments) == 6


def test_records_are_stamped_with_the_time_unless_they_have_one(disk: FaultDisk) -> None:
    clock = Clock(5000)
    stream = opened(disk, clock)
    stream.append(ManifestRecord(HydrationStarted(1), 1, 2), ManifestRecord(HydrationStarted(1), 1, 2, 77))
    stream.seal()
    _, placed = decode_chunk(stream.read_chunk(0), 0)
    assert [found.record.timestamp_ms for found in placed] == [5000, 77]


def test_a_stream_that_says_nothing_leaves_nothing(disk: FaultDisk) -> None:
    calls = disk.calls
    stream = opened(disk)
    stream.append()
    stream.commit()
    stream.maintain()
    assert not stream.seal()
    stream.close()
    assert (disk.files(), disk.calls) == ({}, calls)


def test_records_of_one_append_are_committed_together_even_where_a_chunk_ends(disk: FaultDisk) -> None:
    stream = opened(disk)
    big = ManifestRecord(CustomEvent(500, bytes(15_000)))
    stream.append(big)
    stream.append(ManifestRecord(EVENT), ManifestRecord(EVENT))  # one of them would fit
    stream.seal()
    assert [len(decode_chunk(stream.read_chunk(index), index)[1]) for index in (0, 1)] == [1, 2]


def test_a_record_that_fits_no_chunk_is_refused_and_nothing_has_changed(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.append(*begun(0))
    large = ManifestRecord(CustomEvent(500, bytes(60_000)))
    with pytest.raises(RecordTooLarge, match="do not fit a chunk of 1048576"):
        stream.append(*begun(100), *[large] * 20)
    assert stream.end.next_record == 2
    with pytest.raises(ValueError, match="do not fit"):
        stream.append(*begun(100), ManifestRecord(UploadStarted("k" * 70_000)))
    with pytest.raises(CorruptFile):
        stream.append(*begun(100), ManifestRecord(CustomEvent(1, b"short")))
    assert [entry.segment_id for entry in stream.catalogue.segments] == [0]
    stream.append(*begun(100))
    stream.close()
    assert len(opened(disk).catalogue.segments) == 2


def test_a_large_record_makes_an_empty_chunk_grow_in_steps(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.append(*begun(0))
    sizes = []
    disk.observer = lambda call: sizes.append(call.size) if call.operation == "preallocate" else None
    stream.append(ManifestRecord(CustomEvent(500, bytes(60_000))))
    stream.append(*[ManifestRecord(CustomEvent(500, bytes(60_000)))] * 17)
    assert sizes == [(16 << 10) + (64 << 10), CHUNK_MAX_BYTES]
    stream.close()
    disk.observer = None
    again = opened(disk)
    assert again.end.next_record == 20
    again.append(*begun(100))
    again.close()


def test_a_failed_sync_stops_the_stream_and_what_was_committed_is_there(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.append(*begun(0))
    stream.commit()
    stream.append(*begun(100))
    disk.fail("fdatasync", errno.EIO)
    with pytest.raises(DiskError):
        stream.commit()
    assert stream.is_stopped
    for use in (
        stream.commit,
        stream.maintain,
        stream.seal,
        stream.snapshot,
        lambda: stream.append(*begun(0)),
    ):
        with pytest.raises(LogStopped, match="an earlier write failed"):
            use()
    stream.close()
    again = opened(disk)
    assert [entry.segment_id for entry in again.catalogue.segments] == [0]


@pytest.mark.parametrize("operation", ["create", "preallocate"])
def test_a_full_disk_refuses_an_append_and_may_be_tried_again(disk: FaultDisk, operation: str) -> None:
    stream = opened(disk)
    fill(stream, 1)
    disk.fail("open" if operation == "create" else "preallocate", errno.ENOSPC)
    with pytest.raises(DiskError):
        stream.append(*begun(500))
    assert stream.catalogue.segment(500) is None
    stream.append(*begun(500))
    stream.close()
    assert opened(disk).catalogue.segment(500) is not None


def test_closed_and_read_only_streams_refuse_to_write(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.append(*begun(0))
    stream.close()
    stream.close()
    with pytest.raises(LogClosed):
        stream.append(*begun(100))
    reader = opened(disk, read_only=True)
    calls = disk.calls
    for use in (
        reader.maintain,
        reader.commit,
        reader.seal,
        reader.snapshot,
        lambda: reader.mark_uploaded(0),
    ):
        with pytest.raises(LogStopped, match="for reading only"):
            use()
    reader.close()
    assert disk.calls == calls


def test_closing_commits(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.append(*begun(0))
    stream.close()
    assert len(opened(disk).catalogue.segments) == 1


def test_threads_append_and_commit_side_by_side(tmp_path: Path) -> None:
    directory = str(tmp_path / "stream")
    stream = opened(RealDisk(), directory=directory)

    def work(first: int) -> None:
        for number in range(30):
            stream.append(*begun((first * 30 + number) * 100))
            if number % 7 == 0:
                stream.commit()

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream.close()
    assert len(opened(RealDisk(), directory=directory).catalogue.segments) == 120


# Snapshots and retention


def test_a_snapshot_is_due_after_records_and_after_chunks_and_never_for_itself(disk: FaultDisk) -> None:
    clock = Clock()
    settings = ManifestSettings(rotation_period_ms=100, snapshot_records=10, snapshot_chunks=4)
    stream = opened(disk, clock, settings)
    stream.append(*begun(0))
    stream.maintain()
    assert stream.snapshot_ids() == []
    stream.append(*begun(100), *begun(200), *begun(300), *begun(400))
    stream.maintain()
    assert stream.snapshot_ids() == [1]
    assert stream.snapshot_created_ms == clock.now_ms
    for number in range(50):
        clock.now_ms += 1000
        stream.maintain()
        if number == 40:
            calls = disk.calls
    assert stream.snapshot_ids() == [1]
    assert disk.calls == calls  # at rest
    fill(stream, 4, first=10)
    stream.maintain()
    assert stream.snapshot_ids() == [1, 2]


def test_retention_keeps_two_sealed_chunks_and_whatever_is_not_both_uploaded_and_covered(
    disk: FaultDisk,
) -> None:
    stream = opened(disk)
    fill(stream, 6)
    stream.maintain()
    assert list(stream.sealed_chunks()) == [0, 1, 2, 3, 4, 5]
    for index in (0, 1, 2, 4, 5):
        stream.mark_uploaded(index)
    stream.maintain()
    assert list(stream.sealed_chunks()) == [0, 1, 2, 3, 4, 5]  # no snapshot covers them
    stream.snapshot()
    stream.maintain()
    assert list(stream.sealed_chunks()) == [3, 4, 5]  # 3 is not uploaded
    stream.mark_uploaded(3)
    stream.maintain()
    assert list(stream.sealed_chunks()) == [4, 5]
    image = stream.catalogue.image()
    stream.close()
    again = opened(disk)
    assert again.catalogue.image() == image
    assert list(again.sealed_chunks()) == [4, 5]


def test_two_snapshots_are_kept_and_damaged_ones_are_evidence(disk: FaultDisk) -> None:
    stream = opened(disk)
    for number in range(4):
        stream.append(*begun(number * 100))
        stream.snapshot()
        stream.maintain()
    assert stream.snapshot_ids() == [3, 4]
    assert names(disk)[-2:] == ["snapshot_3.bin", "snapshot_4.bin"]
    assert evictable_snapshots([1, 2, 3, 4], {4}) == [1]
    assert evictable_snapshots([3, 4], {3}) == []


def test_a_snapshot_holds_the_logs_end_and_its_marker_repeats_it(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.append(*begun(0))
    end = stream.end
    taken = stream.snapshot()
    assert (taken.chunk_index, taken.chunk_offset, taken.next_record) == end
    assert decode_manifest_snapshot(stream.read_snapshot(1)) == taken
    stream.seal()
    _, placed = decode_chunk(stream.read_chunk(0), 0)
    assert placed[-1].position == end.chunk_offset
    assert placed[-1].record.payload == SnapshotMarker(end.chunk_index, end.chunk_offset, 1)
    assert stream.latest_marker(0) == 1


def test_what_is_wrong_with_settings_and_names() -> None:
    for wrong in (
        {"chunk_capacity_bytes": 100},
        {"chunk_capacity_bytes": 2 << 20},
        {"rotation_period_ms": 0},
    ):
        with pytest.raises(ValueError, match="bytes, not|too small"):
            ManifestSettings(**wrong)
    assert parse_bundle_name(bundle_name(3, 9)) == (3, 9)
    assert parse_bundle_name(bundle_name(9, 3)) is None
    assert parse_bundle_name("00000000000000000003.mlog") is None
    assert QUIET.chunk_capacity_bytes == 16 << 10


def test_other_files_in_the_directory_are_passed_over(disk: FaultDisk) -> None:
    for name in ("segment-00000000000000000000.kfs", "7.mlog", "snapshot_01.bin", "snapshot_x.bin", "LOCK"):
        disk.put(f"{ROOT}/{name}", b"somebody else's")
    stream = opened(disk)
    fill(stream, 1)
    stream.close()
    assert len(names(disk)) == 6
