"""Integration matrix, tier-2 retry: uploads that fail and are tried again, of segments and of chunks."""

from __future__ import annotations

import pytest

from barbicel.codecs.aof2_manifest import FLAG_SEALED, ManifestRecord, decode_chunk
from barbicel.codecs.aof2_payloads import UploadDone, UploadFailed, UploadStarted
from barbicel.codecs.manifest_snapshot import Progress, decode_manifest_snapshot
from barbicel.errors import CorruptManifest, ObjectExists, StoreError
from barbicel.tier.manifest_log.layout import chunk_path
from tests.support.fault_disk import FaultDisk
from tests.tier.manifest_log.builders import (
    KEYS,
    ROOT,
    STREAM,
    Clock,
    FlakyStore,
    a_store,
    begun,
    described,
    fill,
    opened,
    put_segment,
    segment_key,
    tiered,
)


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


@pytest.fixture
def store() -> FlakyStore:
    return a_store()


def test_a_failed_upload_of_a_segment_is_retried_under_the_same_key(
    disk: FaultDisk, store: FlakyStore
) -> None:
    key = segment_key(0)
    store.failing["put", ".kfs"] = 1
    stream = opened(disk)
    stream.append(*begun(0), ManifestRecord(UploadStarted(key), 0, 0))
    stream.commit()
    with pytest.raises(StoreError):
        put_segment(store, 0)
    stream.append(ManifestRecord(UploadFailed(key, 503), 0, 0))
    stream.commit()
    stream.seal()
    stream.close()
    # A restart knows what is to be done again, and under which key.
    stream = opened(disk)
    (entry,) = stream.catalogue.pending_uploads
    assert (entry.key, entry.upload, entry.upload_failures) == (key, Progress.FAILED, 1)
    stream.append(ManifestRecord(UploadStarted(entry.key), 0, 0))
    etag = put_segment(store, 0)
    stream.append(described(0), ManifestRecord(UploadDone(entry.key, etag), 0, 0))
    stream.seal()
    said = [
        each.record.payload
        for index in stream.sealed_chunks()
        for each in decode_chunk(stream.read_chunk(index), index)[1]
    ]
    assert UploadFailed(key, 503) in said
    assert UploadDone(key, etag) == said[-1]
    stream.close()
    again = opened(disk)
    assert again.catalogue.pending_uploads == []
    found = again.catalogue.segment(0)
    assert found is not None
    assert found.is_tiered
    # What landed is what reconciliation finds.
    report = again.reconcile(store, KEYS)
    assert (report.broken, report.unknown) == ({}, [])


def test_chunks_that_failed_to_upload_go_the_next_time_and_each_once(
    disk: FaultDisk, store: FlakyStore
) -> None:
    stream = opened(disk)
    fill(stream, 3)
    store.failing["put", "001.mlog"] = 1
    with pytest.raises(StoreError):
        stream.upload(store, KEYS)
    assert stream.manifest_upload_retry_count == 1
    assert [header.is_uploaded for header in stream.sealed_chunks().values()] == [True, False, False]
    assert stream.upload(store, KEYS) == 2
    assert stream.upload(store, KEYS) == 0
    puts = [key for operation, key in store.asked if operation == "put"]
    assert puts.count(KEYS.chunk(STREAM, 0)) == 1
    assert puts.count(KEYS.chunk(STREAM, 1)) == 2
    assert all(header.is_uploaded for header in opened(disk).sealed_chunks().values())


def test_a_put_that_failed_and_was_done_all_the_same_is_found(disk: FaultDisk, store: FlakyStore) -> None:
    stream = opened(disk)
    fill(stream, 1)
    store.failing["put", ".mlog"] = 1
    store.is_done_all_the_same = True
    with pytest.raises(StoreError):
        stream.upload(store, KEYS)
    assert stream.upload(store, KEYS) == 0
    assert stream.sealed_chunks()[0].is_uploaded


def test_an_uploaded_chunk_is_the_sealed_file_without_its_mark(disk: FaultDisk, store: FlakyStore) -> None:
    stream = opened(disk)
    stream.append(*tiered(0))
    stream.snapshot()
    stream.seal()
    before = stream.read_chunk(0)
    assert stream.upload(store, KEYS) == 2
    key = KEYS.chunk(STREAM, 0)
    assert store.get(key) == before
    assert decode_chunk(store.get(key), 0)[0].flags == FLAG_SEALED
    assert decode_chunk(stream.read_chunk(0), 0)[0].is_uploaded
    header, records = decode_chunk(before, 0)
    assert store.metadata(key) == {
        "chunk-crc64": f"{header.chunk_crc64:016x}",
        "base-record": "0",
        "record-count": str(len(records)),
        "snapshot-id": "1",
    }


def test_a_snapshot_follows_the_chunk_into_which_it_points(disk: FaultDisk, store: FlakyStore) -> None:
    stream = opened(disk)
    fill(stream, 1)
    first = stream.snapshot()  # at the beginning of chunk 1
    assert stream.upload(store, KEYS) == 2
    stream.append(*tiered(500))
    second = stream.snapshot()  # within chunk 1, which is being written
    assert second.chunk_offset > first.chunk_offset
    assert stream.upload(store, KEYS) == 0
    stream.seal()
    assert stream.upload(store, KEYS) == 2
    assert decode_manifest_snapshot(store.get(KEYS.snapshot(STREAM, 2))) == second
    asked = len(store.asked)
    assert stream.upload(store, KEYS) == 0
    assert len(store.asked) == asked  # a stream at rest asks nothing
    # After a restart one question is enough.
    stream.close()
    stream = opened(disk, Clock())
    assert stream.upload(store, KEYS) == 0
    assert [operation for operation, _ in store.asked[asked:]] == ["head"]


def test_a_damaged_chunk_is_never_uploaded(disk: FaultDisk, store: FlakyStore) -> None:
    stream = opened(disk)
    fill(stream, 2)
    path = chunk_path(ROOT, 1)
    damaged = bytearray(disk.files()[path])
    damaged[-1] ^= 1
    disk.put(path, bytes(damaged))
    with pytest.raises(CorruptManifest) as caught:
        stream.upload(store, KEYS)
    assert (caught.value.path, caught.value.chunk_index) == (path, 1)
    assert stream.manifest_crc_error_count == 1
    assert store.present() == {KEYS.chunk(STREAM, 0)}


def test_another_writers_object_is_not_taken_for_ones_own(disk: FaultDisk, store: FlakyStore) -> None:
    stream = opened(disk)
    fill(stream, 1)
    store.put_new(KEYS.chunk(STREAM, 0), [b"another's"])
    with pytest.raises(ObjectExists):
        stream.upload(store, KEYS)
    assert not stream.sealed_chunks()[0].is_uploaded
    assert store.get(KEYS.chunk(STREAM, 0)) == b"another's"


def test_a_store_that_keeps_something_else_is_found_out(disk: FaultDisk, store: FlakyStore) -> None:
    stream = opened(disk)
    fill(stream, 1)
    store.lies = True
    with pytest.raises(StoreError, match="not what was uploaded"):
        stream.upload(store, KEYS)
    assert not stream.sealed_chunks()[0].is_uploaded
