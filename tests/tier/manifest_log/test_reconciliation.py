"""What the store really has against what the manifest says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barbicel.codecs.aof2_events import RepairReason, SegmentNeedsRepair, encode_event
from barbicel.codecs.aof2_manifest import ManifestRecord
from barbicel.codecs.aof2_payloads import Tier2DeleteQueued, UploadStarted
from barbicel.errors import StoreError
from barbicel.tier.manifest_log.reconciliation import Reconciliation, find_gaps, index_key
from barbicel.tier.manifest_log.stream import ManifestStream
from tests.support.fault_disk import FaultDisk
from tests.tier.manifest_log.builders import (
    KEYS,
    STREAM,
    FlakyStore,
    a_store,
    begun,
    fill,
    opened,
    put_segment,
    segment_key,
    uploaded,
)

NOTHING = Reconciliation([], [], [], {}, [], [])


@pytest.fixture
def store() -> FlakyStore:
    return a_store()


@pytest.fixture
def stream(store: FlakyStore) -> ManifestStream:
    """Three segments whose objects are there, in chunks that are uploaded."""
    stream = opened(FaultDisk())
    for segment_id in (0, 100, 200):
        stream.append(*begun(segment_id), *uploaded(segment_id, put_segment(store, segment_id)))
        stream.seal()
    stream.upload(store, KEYS)
    return stream


def test_a_store_that_has_everything(stream: ManifestStream, store: FlakyStore) -> None:
    end = stream.end
    assert stream.reconcile(store, KEYS) == NOTHING
    assert stream.end == end
    # Two listings, and no question for each segment.
    operations = [operation for operation, _ in store.asked if operation in ("list", "head", "get")]
    assert operations.count("list") == 2


def test_missing_chunk_objects_are_rebuilt_from_this_disk(stream: ManifestStream, store: FlakyStore) -> None:
    before = {index: store.get(KEYS.chunk(STREAM, index)) for index in (0, 2)}
    for index in before:
        store.delete(KEYS.chunk(STREAM, index))
    assert stream.reconcile(store, KEYS) == NOTHING._replace(rebuilt=[0, 2])
    assert {index: store.get(KEYS.chunk(STREAM, index)) for index in before} == before
    assert stream.reconcile(store, KEYS) == NOTHING
    assert all(header.is_uploaded for header in stream.sealed_chunks().values())


def test_a_chunk_that_was_never_uploaded_is_not_missed(stream: ManifestStream, store: FlakyStore) -> None:
    fill(stream, 1, first=90)
    put_segment(store, 9000)
    assert stream.reconcile(store, KEYS).rebuilt == []


def test_damaged_chunk_objects_are_told_and_left(stream: ManifestStream, store: FlakyStore) -> None:
    key = KEYS.chunk(STREAM, 1)
    store.replace(key, [b"damaged"], store.head(key).etag)
    report = stream.reconcile(store, KEYS)
    assert report == NOTHING._replace(damaged=[key])
    assert store.get(key) == b"damaged"
    assert stream.manifest_crc_error_count == 1


def test_chunks_that_are_nowhere_are_told(stream: ManifestStream, store: FlakyStore) -> None:
    stream.snapshot()
    fill(stream, 3, first=90)
    for segment_id in (9000, 9100, 9200):
        put_segment(store, segment_id)
    stream.upload(store, KEYS)
    stream.maintain()
    assert 1 not in stream.sealed_chunks()
    store.delete(KEYS.chunk(STREAM, 1))
    assert stream.reconcile(store, KEYS).missing == [(1, 1)]
    assert find_gaps([]) == []
    assert find_gaps([0, 1, 2]) == []
    assert find_gaps([2, 3, 1 << 63]) == [(0, 1), (4, (1 << 63) - 1)]


def break_object(store: FlakyStore, key: str) -> None:
    store.replace(key, [b"other"], store.head(key).etag)


def break_index(store: FlakyStore, key: str) -> None:
    store.replace(index_key(key), [b"no index"], store.head(index_key(key)).etag)


BREAKS: list[tuple[RepairReason, Callable[[FlakyStore, str], None]]] = [
    (RepairReason.OBJECT_MISSING, lambda store, key: store.delete(key)),
    (RepairReason.OBJECT_CHANGED, break_object),
    (RepairReason.INDEX_MISSING, lambda store, key: store.delete(index_key(key))),
    (RepairReason.INDEX_CHANGED, break_index),
]


@pytest.mark.parametrize(("reason", "break_it"), BREAKS)
def test_a_segment_whose_objects_are_wrong_needs_repair(
    stream: ManifestStream,
    store: FlakyStore,
    reason: RepairReason,
    break_it: Callable[[FlakyStore, str], None],
) -> None:
    break_it(store, segment_key(100))
    assert stream.reconcile(store, KEYS) == NOTHING._replace(broken={100: reason})
    assert [(entry.segment_id, entry.repair) for entry in stream.catalogue.needing_repair] == [(100, reason)]
    end = stream.end
    assert stream.reconcile(store, KEYS) == NOTHING  # told once
    assert stream.end == end
    # Uploaded anew, it has other objects, and is whole.
    for key in (segment_key(100), index_key(segment_key(100))):
        store.delete(key)
    stream.append(*uploaded(100, put_segment(store, 100)))
    assert stream.catalogue.needing_repair == []
    assert stream.reconcile(store, KEYS) == NOTHING


def test_the_mark_goes_when_the_object_is_back(stream: ManifestStream, store: FlakyStore) -> None:
    key = index_key(segment_key(100))
    data = store.get(key)
    store.delete(key)
    stream.reconcile(store, KEYS)
    store.put_new(key, [data])
    assert stream.reconcile(store, KEYS) == NOTHING._replace(repaired=[100])
    assert stream.catalogue.needing_repair == []


def test_damage_that_was_found_by_reading_is_not_disproved_by_a_size(
    stream: ManifestStream, store: FlakyStore
) -> None:
    mark = encode_event(SegmentNeedsRepair(RepairReason.OBJECT_CORRUPT))
    stream.append(ManifestRecord(mark, 100, 100))
    assert stream.reconcile(store, KEYS) == NOTHING
    assert len(stream.catalogue.needing_repair) == 1


def test_marks_survive_a_restart(store: FlakyStore) -> None:
    disk = FaultDisk()
    stream = opened(disk)
    fill(stream, 1)
    assert stream.reconcile(store, KEYS).broken == {0: RepairReason.OBJECT_MISSING}
    again = opened(disk)
    assert [entry.segment_id for entry in again.catalogue.needing_repair] == [0]


def test_objects_that_nobody_speaks_of_are_told(stream: ManifestStream, store: FlakyStore) -> None:
    put_segment(store, 700)
    put_segment(store, 800)
    put_segment(store, 900)
    stream.append(*begun(800), ManifestRecord(UploadStarted(segment_key(800)), 800, 800))
    stream.append(ManifestRecord(Tier2DeleteQueued(segment_key(900)), 900, 900))
    report = stream.reconcile(store, KEYS)
    assert report.unknown == [index_key(segment_key(700)), segment_key(700)]


def test_a_segment_that_is_being_deleted_is_not_missed(stream: ManifestStream, store: FlakyStore) -> None:
    stream.append(ManifestRecord(Tier2DeleteQueued(segment_key(100)), 100, 100))
    store.delete(segment_key(100))
    assert stream.reconcile(store, KEYS).broken == {}


def test_a_store_that_is_away_changes_nothing(stream: ManifestStream, store: FlakyStore) -> None:
    end = stream.end
    store.failing["list", "/3/"] = 1
    store.delete(segment_key(0))
    with pytest.raises(StoreError):
        stream.reconcile(store, KEYS)
    assert stream.end == end
    assert stream.reconcile(store, KEYS).broken == {0: RepairReason.OBJECT_MISSING}
