"""Integration matrix, follower catch-up: another disk follows from the store alone, also from bundles."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from barbicel.codecs.aof2_manifest import ManifestRecord
from barbicel.codecs.aof2_payloads import Tier2Deleted, Tier2DeleteQueued
from barbicel.errors import CorruptManifest, StoreError
from barbicel.tier.manifest_log.follower import CatchUp, catch_up, hydrations
from barbicel.tier.manifest_log.remote import replay_remote
from barbicel.tier.manifest_log.stream import ManifestStream
from tests.support.fault_disk import Call, Fate, FaultDisk
from tests.tier.manifest_log.builders import (
    KEYS,
    QUIET,
    ROOT,
    STREAM,
    FlakyStore,
    a_store,
    begun,
    fill,
    opened,
    segment_key,
)

BUNDLING = replace(QUIET, bundle_min_chunks=2)


@pytest.fixture
def store() -> FlakyStore:
    return a_store()


@pytest.fixture
def leader() -> ManifestStream:
    return opened(FaultDisk(), settings=BUNDLING)


def follow(disk: FaultDisk, store: FlakyStore) -> CatchUp:
    return catch_up(ROOT, stream_id=STREAM, disk=disk, store=store, keys=KEYS)


def segment_ids(found: CatchUp) -> list[int]:
    return [entry.segment_id for entry in hydrations(found.replayed.catalogue)]


def test_a_follower_mirrors_chunks_and_queues_hydrations_by_delete_records(
    leader: ManifestStream, store: FlakyStore
) -> None:
    disk = FaultDisk()
    fill(leader, 4)
    leader.upload(store, KEYS)
    found = follow(disk, store)
    assert found.chunks == [0, 1, 2, 3]
    assert segment_ids(found) == [0, 100, 200, 300]
    # Meanwhile segments are deleted, or about to be, and the chunks that said so are dropped into a bundle.
    for segment_id, is_done in ((0, True), (100, False)):
        leader.append(ManifestRecord(Tier2DeleteQueued(segment_key(segment_id)), segment_id, segment_id))
        if is_done:
            leader.append(ManifestRecord(Tier2Deleted(segment_key(segment_id)), segment_id, segment_id))
        leader.seal()
    fill(leader, 1, first=9)
    leader.snapshot()
    leader.seal()
    leader.upload(store, KEYS)
    assert leader.compact(store, KEYS).bundled
    assert KEYS.chunk(STREAM, 5) not in store.present()
    leader.seal()
    leader.upload(store, KEYS)
    found = follow(disk, store)
    assert found.snapshot_id is None  # its own chunks are continued
    assert found.chunks[0] == 4
    assert segment_ids(found) == [200, 300, 900]
    assert found.replayed.catalogue.image() == leader.catalogue.image()
    assert [entry.segment_id for entry in hydrations(found.replayed.catalogue, held={200, 900})] == [300]
    assert follow(disk, store).chunks == []


def test_a_new_follower_begins_with_the_newest_snapshot(leader: ManifestStream, store: FlakyStore) -> None:
    fill(leader, 3)
    leader.snapshot()
    fill(leader, 2, first=10)
    leader.upload(store, KEYS)
    disk = FaultDisk()
    found = follow(disk, store)
    assert (found.snapshot_id, found.chunks) == (1, [3, 4])
    assert found.replayed.catalogue.image() == leader.catalogue.image()
    # And it can be written to: this is how a lost disk is replaced.
    stream = opened(disk)
    assert all(header.is_uploaded for header in stream.sealed_chunks().values())
    fill(stream, 1, first=20)
    stream.upload(store, KEYS)
    assert replay_remote(store, KEYS, STREAM).catalogue.image() == stream.catalogue.image()


def test_a_follower_that_fell_behind_what_the_store_has_begins_anew(
    leader: ManifestStream, store: FlakyStore
) -> None:
    disk = FaultDisk()
    fill(leader, 1)
    leader.upload(store, KEYS)
    follow(disk, store)
    fill(leader, 3, first=5)
    leader.snapshot()
    leader.seal()
    leader.upload(store, KEYS)
    store.delete(KEYS.chunk(STREAM, 1))
    store.delete(KEYS.chunk(STREAM, 2))
    found = follow(disk, store)
    assert found.snapshot_id == 1
    assert found.replayed.catalogue.image() == leader.catalogue.image()
    assert opened(disk).catalogue.image() == leader.catalogue.image()


def test_an_unfinished_chunk_is_replaced_by_the_stores_if_it_continues_it(store: FlakyStore) -> None:
    disk = FaultDisk()
    leader = opened(disk)
    leader.append(*begun(0))
    leader.commit()
    mirror = disk.crash(Fate.DROP, Random(0))  # as it was then
    leader.append(*begun(100))
    leader.seal()
    leader.upload(store, KEYS)
    found = follow(mirror, store)
    assert found.chunks == [0]
    assert found.replayed.catalogue.image() == leader.catalogue.image()
    other = FaultDisk()
    stream = opened(other)
    stream.append(*begun(900))
    stream.close()
    before = other.files()
    with pytest.raises(CorruptManifest, match="has another chunk of that number"):
        follow(other, store)
    assert other.files() == before


def test_nothing_damaged_is_kept(leader: ManifestStream, store: FlakyStore) -> None:
    fill(leader, 2)
    leader.upload(store, KEYS)
    key = KEYS.chunk(STREAM, 1)
    data = bytearray(store.get(key))
    data[70] ^= 1
    store.replace(key, [bytes(data)], store.head(key).etag)
    disk = FaultDisk()
    with pytest.raises(CorruptManifest) as caught:
        follow(disk, store)
    assert caught.value.path == key
    assert len(opened(disk, read_only=True).catalogue.segments) == 1
    store.replace(key, [bytes(data[:10])], store.head(key).etag)
    with pytest.raises(CorruptManifest):
        follow(disk, store)


def test_a_store_that_is_away_leaves_what_was_downloaded(leader: ManifestStream, store: FlakyStore) -> None:
    fill(leader, 3)
    leader.upload(store, KEYS)
    disk = FaultDisk()
    store.failing["get", "002.mlog"] = 1
    with pytest.raises(StoreError):
        follow(disk, store)
    assert follow(disk, store).chunks == [2]


def test_a_crash_at_every_call_of_a_catch_up(leader: ManifestStream, store: FlakyStore) -> None:
    fill(leader, 2)
    leader.snapshot()
    fill(leader, 2, first=5)
    leader.upload(store, KEYS)
    disk = FaultDisk()

    def cut(_: Call) -> None:
        for seed in range(3):
            left = disk.crash(Fate.TEAR, Random(seed))
            assert follow(left, store).replayed.catalogue.image() == leader.catalogue.image()

    disk.observer = cut
    follow(disk, store)


def test_an_empty_store_gives_an_empty_catalogue(store: FlakyStore) -> None:
    found = follow(FaultDisk(), store)
    assert (found.chunks, found.replayed.next_record) == ([], 0)
