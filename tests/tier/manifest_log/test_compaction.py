"""Chunk objects into bundles: nothing lost, nothing leaked, whatever stops it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from barbicel.codecs.aof2_manifest import NO_SEGMENT, ManifestRecord
from barbicel.codecs.aof2_payloads import CustomEvent, SnapshotMarker, Tier2Deleted, Tier2DeleteQueued
from barbicel.errors import CorruptManifest, StoreError
from barbicel.tier.manifest_log.inspect import InspectedRecord, inspect_remote
from barbicel.tier.manifest_log.layout import bundle_name
from barbicel.tier.manifest_log.remote import RemoteSource, replay_remote, split_bundle
from barbicel.tier.manifest_log.stream import ManifestStream
from tests.support.fault_disk import Call, Fate, FaultDisk, PowerCut
from tests.tier.manifest_log.builders import (
    KEYS,
    QUIET,
    STREAM,
    FlakyStore,
    a_store,
    fill,
    opened,
)

BUNDLING = replace(QUIET, bundle_min_chunks=4)


@pytest.fixture
def store() -> FlakyStore:
    return a_store()


def prepared(disk: FaultDisk, store: FlakyStore, chunks: int = 5) -> ManifestStream:
    """A stream whose chunks are uploaded and covered by a snapshot in the store."""
    stream = opened(disk, settings=BUNDLING)
    fill(stream, chunks)
    stream.snapshot()
    stream.seal()
    stream.upload(store, KEYS)
    return stream


def settle(stream: ManifestStream, store: FlakyStore) -> None:
    """What goes on anyway: seal, upload, compact."""
    stream.seal()
    stream.upload(store, KEYS)
    stream.compact(store, KEYS)


def history(store: FlakyStore) -> list[InspectedRecord]:
    found = list(inspect_remote(store, KEYS, STREAM))
    assert all(isinstance(each, InspectedRecord) for each in found)
    return [each for each in found if isinstance(each, InspectedRecord)]


def test_chunks_become_a_bundle_with_tombstones_and_a_marker(store: FlakyStore) -> None:
    stream = prepared(FaultDisk(), store)
    chunks = [store.get(KEYS.chunk(STREAM, index)) for index in range(5)]
    before = history(store)
    done = stream.compact(store, KEYS)
    bundle = KEYS.bundle(STREAM, bundle_name(0, 4))
    assert done.bundled == [0, 1, 2, 3, 4]
    assert done.deleted == [KEYS.chunk(STREAM, index) for index in range(5)]
    assert store.get(bundle) == b"".join(chunks)
    assert dict(split_bundle(store.get(bundle), 0, 4)) == dict(enumerate(chunks))
    assert not store.present() & set(done.deleted)
    assert stream.catalogue.pending_deletes == []
    stream.seal()
    stream.upload(store, KEYS)
    # History is whole: everything from before, then the marker and the tombstones in pairs.
    after = history(store)
    assert after[: len(before)] == before
    assert [each.number for each in after] == list(range(len(after)))
    said = [each.record.payload for each in after[len(before) :]]
    assert isinstance(said[0], SnapshotMarker)
    assert said[1:6] == [Tier2DeleteQueued(key) for key in done.deleted]
    assert said[6:11] == [Tier2Deleted(key) for key in done.deleted]
    assert {each.record.segment_id for each in after[len(before) :]} == {NO_SEGMENT}
    assert replay_remote(store, KEYS, STREAM).catalogue.image() == stream.catalogue.image()


def test_the_whole_history_is_replayed_from_a_bundle_without_any_snapshot(store: FlakyStore) -> None:
    stream = prepared(FaultDisk(), store)
    settle(stream, store)
    stream.seal()
    stream.upload(store, KEYS)
    for info in list(store.list(KEYS.manifest(STREAM))):
        if "snapshot_" in info.key:
            store.delete(info.key)
    replayed = replay_remote(store, KEYS, STREAM)
    assert replayed.snapshot is None
    assert replayed.catalogue.image() == stream.catalogue.image()


def test_few_chunks_and_chunks_that_no_snapshot_covers_stay(store: FlakyStore) -> None:
    few = prepared(FaultDisk(), store, chunks=3)
    assert few.compact(store, KEYS) == ([], [])
    other = a_store()
    stream = opened(FaultDisk(), settings=BUNDLING)
    fill(stream, 8)
    stream.upload(other, KEYS)
    assert stream.compact(other, KEYS) == ([], [])


def test_large_chunks_make_a_bundle_before_they_are_many(store: FlakyStore) -> None:
    settings = replace(QUIET, bundle_min_chunks=64, bundle_max_bytes=1 << 20)
    stream = opened(FaultDisk(), settings=settings)
    for _ in range(5):
        stream.append(*[ManifestRecord(CustomEvent(500, bytes(60_000)))] * 5)
        stream.seal()
    stream.snapshot()
    stream.upload(store, KEYS)
    assert stream.compact(store, KEYS).bundled == [0, 1, 2]
    (bundle,) = RemoteSource(store, KEYS, STREAM).bundles
    assert bundle.info.size <= 1 << 20


def test_a_chunk_that_is_lost_does_not_keep_the_others_from_being_bundled(store: FlakyStore) -> None:
    stream = prepared(FaultDisk(), store, chunks=9)
    store.delete(KEYS.chunk(STREAM, 2))
    assert stream.compact(store, KEYS).bundled == [3, 4, 5, 6, 7, 8]
    assert {KEYS.chunk(STREAM, 0), KEYS.chunk(STREAM, 1)} <= store.present()


def test_compacting_comes_to_rest(store: FlakyStore) -> None:
    stream = prepared(FaultDisk(), store, chunks=9)
    for _ in range(6):
        settle(stream, store)
        stream.maintain()
    present, end = store.present(), stream.end
    for _ in range(5):
        settle(stream, store)
        stream.maintain()
    assert (store.present(), stream.end) == (present, end)


def test_bundle_follows_bundle_and_old_snapshots_go(store: FlakyStore) -> None:
    stream = prepared(FaultDisk(), store)
    for number in range(1, 12):
        fill(stream, 4, first=10 * number)
        stream.snapshot()
        settle(stream, store)
        stream.maintain()
    stream.seal()
    stream.upload(store, KEYS)
    remote = RemoteSource(store, KEYS, STREAM)
    assert len(remote.bundles) > 5
    assert len(remote.snapshots) < 8
    assert remote.chunks == list(range(remote.chunks[-1] + 1))
    assert replay_remote(store, KEYS, STREAM).catalogue.image() == stream.catalogue.image()
    numbers = [each.number for each in history(store)]
    assert numbers == list(range(len(numbers)))
    assert stream.reconcile(store, KEYS).missing == []


def test_a_damaged_chunk_object_is_not_bundled(store: FlakyStore) -> None:
    stream = prepared(FaultDisk(), store)
    key = KEYS.chunk(STREAM, 2)
    store.replace(key, [store.get(key)[:-1] + b"\xff"], store.head(key).etag)
    with pytest.raises(CorruptManifest) as caught:
        stream.compact(store, KEYS)
    assert caught.value.path == key
    assert store.present() >= {KEYS.chunk(STREAM, index) for index in range(5)}


def test_a_chunk_object_that_differs_from_the_bundle_is_not_deleted(store: FlakyStore) -> None:
    stream = prepared(FaultDisk(), store)
    chunk = store.get(KEYS.chunk(STREAM, 0))
    stream.compact(store, KEYS)
    changed = bytearray(chunk)
    changed[70] ^= 1
    store.put_new(KEYS.chunk(STREAM, 0), [bytes(changed)])
    assert stream.compact(store, KEYS).deleted == []
    assert KEYS.chunk(STREAM, 0) in store.present()


@pytest.mark.parametrize("size", [0, 64, 1000])
def test_a_name_does_not_make_a_row_of_chunks_out_of_nothing(store: FlakyStore, size: int) -> None:
    stream = prepared(FaultDisk(), store)
    key = KEYS.bundle(STREAM, bundle_name(0, 10**19))
    store.put_new(key, [bytes(size)])
    assert RemoteSource(store, KEYS, STREAM).chunks == list(range(6))
    assert stream.reconcile(store, KEYS).damaged == [key]


def test_bundles_that_are_cut_or_too_long_are_refused() -> None:
    store = a_store()
    prepared(FaultDisk(), store)
    data = b"".join(store.get(KEYS.chunk(STREAM, index)) for index in range(3))
    for wrong in (data[:-1], data + b"\0", data[1:], b""):
        with pytest.raises(CorruptManifest):
            dict(split_bundle(wrong, 0, 2))
    with pytest.raises(CorruptManifest):
        dict(split_bundle(data, 1, 3))


# Interruptions


def expect_settled(stream: ManifestStream, store: FlakyStore) -> None:
    """After all: one bundle, no chunk twice, nothing pending, and the catalogue is in the store."""
    for _ in range(3):
        settle(stream, store)
    stream.seal()
    stream.upload(store, KEYS)
    remote = RemoteSource(store, KEYS, STREAM)
    assert all(remote.bundle_of(index) is None for index in remote.chunk_objects)
    assert remote.chunks == list(range(remote.chunks[-1] + 1))
    assert [(each.first_index, each.last_index) for each in remote.bundles] == [(0, 4)]
    assert stream.catalogue.pending_deletes == []
    assert replay_remote(store, KEYS, STREAM).catalogue.image() == stream.catalogue.image()


@pytest.mark.parametrize("is_done_all_the_same", [False, True])
@pytest.mark.parametrize(
    ("operation", "part"),
    [
        ("list", "manifest"),
        ("get", "000.mlog"),
        ("get", "snapshot"),
        ("put", "bundle"),
        ("get", "bundle"),
        ("delete", "000.mlog"),
        ("delete", "003.mlog"),
    ],
)
def test_a_store_that_fails_at_any_step(
    store: FlakyStore, operation: str, part: str, is_done_all_the_same: bool
) -> None:
    stream = prepared(FaultDisk(), store)
    store.failing[operation, part] = 1
    store.is_done_all_the_same = is_done_all_the_same
    with pytest.raises(StoreError):
        stream.compact(store, KEYS)
    expect_settled(stream, store)


@pytest.mark.parametrize("fate", list(Fate))
def test_a_crash_at_every_call_of_a_compaction_is_resumed(fate: Fate) -> None:
    calls = 0
    while True:
        disk, store = FaultDisk(), a_store()
        stream = prepared(disk, store)
        end = disk.calls + calls + 1

        def cut(call: Call, end: int = end) -> None:
            if call.number == end:
                raise PowerCut

        disk.observer = cut
        try:
            stream.compact(store, KEYS)
            break
        except PowerCut:
            left = disk.crash(fate, Random(calls))
        again = opened(left, settings=BUNDLING)
        expect_settled(again, store)
        assert [entry.segment_id for entry in again.catalogue.segments] == [0, 100, 200, 300, 400]
        calls += 1
    assert calls > 10
