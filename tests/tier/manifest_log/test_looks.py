"""`verify` and `inspect`: what they tell, and that they change nothing."""

from __future__ import annotations

from random import Random

import pytest

from barbicel.codecs.aof2_events import SegmentDescribed
from barbicel.codecs.aof2_manifest import ManifestRecord
from barbicel.codecs.aof2_payloads import CustomEvent, SegmentOpened, UploadDone
from barbicel.errors import CorruptManifest
from barbicel.tier.manifest_log.inspect import InspectedRecord, Unreadable, inspect, inspect_remote
from barbicel.tier.manifest_log.layout import chunk_path, snapshot_path, temporary_path
from barbicel.tier.manifest_log.reconciliation import index_key
from barbicel.tier.manifest_log.recovery import steadily, survey
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.manifest_log.verify import Finding, Severity, verify
from tests.support.fault_disk import Call, Fate, FaultDisk
from tests.tier.manifest_log.builders import (
    KEYS,
    ROOT,
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


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


@pytest.fixture
def store() -> FlakyStore:
    return a_store()


@pytest.fixture
def stream(disk: FaultDisk, store: FlakyStore) -> ManifestStream:
    stream = opened(disk)
    for segment_id in (0, 100, 200):
        stream.append(*begun(segment_id), *uploaded(segment_id, put_segment(store, segment_id)))
        stream.seal()
    stream.upload(store, KEYS)
    return stream


def findings(disk: FaultDisk, store: FlakyStore | None = None) -> list[Finding]:
    before = disk.files()
    present = None if store is None else store.present()
    found = verify(ROOT, stream_id=STREAM, disk=disk, store=store, keys=KEYS)
    assert disk.files() == before
    assert store is None or store.present() == present
    return found


def records(disk: FaultDisk, store: FlakyStore | None = None) -> list[InspectedRecord | Unreadable]:
    return list(inspect(ROOT, stream_id=STREAM, disk=disk, store=store, keys=KEYS))


def test_nothing_to_say(stream: ManifestStream, disk: FaultDisk, store: FlakyStore) -> None:
    assert findings(disk, store) == []
    stream.append(*begun(300))
    stream.commit()
    assert findings(disk, store) == []  # while a chunk is being written
    assert findings(FaultDisk()) == []


def test_what_a_crash_has_left_is_repairable(stream: ManifestStream, disk: FaultDisk) -> None:
    stream.append(*begun(300))
    stream.commit()
    stream.append(*begun(400))
    left = disk.crash(Fate.KEEP, Random(0))
    left.put(temporary_path(chunk_path(ROOT, 4)), bytes(64))
    found = findings(left)
    assert [(each.severity, each.place) for each in found] == [
        (Severity.REPAIRABLE, temporary_path(chunk_path(ROOT, 4))),
        (Severity.REPAIRABLE, chunk_path(ROOT, 3)),
    ]
    opened(left).close()
    assert findings(left) == []


def test_what_is_wrong_in_the_store(stream: ManifestStream, disk: FaultDisk, store: FlakyStore) -> None:
    key = KEYS.chunk(STREAM, 1)
    store.replace(key, [b"damaged"], store.head(key).etag)
    store.delete(KEYS.chunk(STREAM, 2))
    store.delete(index_key(segment_key(100)))
    found = {(each.severity, each.place, each.message) for each in findings(disk, store)}
    assert found == {
        (Severity.DAMAGE, key, "chunk 1: a chunk has at least 64 bytes, this one 7"),
        (Severity.DAMAGE, key, "it is not what this disk has"),
        (Severity.REPAIRABLE, KEYS.chunk(STREAM, 2), "uploaded, and not there"),
        (Severity.DAMAGE, segment_key(100), "segment 100: index missing"),
    }


def test_an_object_that_no_record_speaks_of_is_told_and_left(
    stream: ManifestStream, disk: FaultDisk, store: FlakyStore
) -> None:
    put_segment(store, 900)
    key = segment_key(900)
    found = [(each.severity, each.place, each.message) for each in findings(disk, store)]
    text = "no record of the manifest speaks of it"
    assert found == [(Severity.NOTE, index_key(key), text), (Severity.NOTE, key, text)]


def test_chunks_that_are_nowhere_and_chunks_that_could_go(
    stream: ManifestStream, disk: FaultDisk, store: FlakyStore
) -> None:
    stream.snapshot()
    stream.close()
    found = findings(disk, store)
    assert [(each.severity, each.message) for each in found] == [
        (Severity.NOTE, "chunks 0 to 0 are uploaded and covered, to be forgotten")
    ]
    disk.unlink(chunk_path(ROOT, 1))
    store.delete(KEYS.chunk(STREAM, 1))
    messages = [(each.severity, each.message) for each in findings(disk, store)]
    assert (Severity.DAMAGE, "chunks 1 to 1 are nowhere") in messages
    assert (Severity.NOTE, "chunks 1 to 1 do not follow") in messages


def test_a_damaged_snapshot_is_told_although_it_prevents_nothing(disk: FaultDisk) -> None:
    stream = opened(disk)
    fill(stream, 1)
    stream.snapshot()
    stream.close()
    path = snapshot_path(ROOT, 1)
    disk.put(path, disk.files()[path][:-1])
    (found,) = findings(disk)
    assert (found.severity, found.place, found.position) == (Severity.DAMAGE, path, 24)


def test_every_record_is_shown_with_its_place(stream: ManifestStream, disk: FaultDisk) -> None:
    found = records(disk)
    assert len(found) == 15
    first = found[0]
    assert isinstance(first, InspectedRecord)
    assert (first.chunk_index, first.position, first.number) == (0, 64, 0)
    assert first.said == SegmentOpened(0, 1)
    said = [type(each.said) for each in found if isinstance(each, InspectedRecord)]
    assert said.count(SegmentDescribed) == 3
    assert [each.number for each in found if isinstance(each, InspectedRecord)] == list(range(15))
    assert stream.end.next_record == 15


def test_objects_that_differ_are_marked_and_those_deleted_on_purpose_are_not(
    stream: ManifestStream, disk: FaultDisk, store: FlakyStore
) -> None:
    store.delete(segment_key(0))
    etag = put_segment(store, 300)
    stream.append(*begun(300), *uploaded(300, "an older one"), *uploaded(300, etag))
    stream.commit()
    marked = [
        (each.record.payload, each.divergence)
        for each in records(disk, store)
        if isinstance(each, InspectedRecord) and each.divergence
    ]
    assert [(type(payload), reason) for payload, reason in marked] == [(UploadDone, "object missing")]
    assert not any(isinstance(each, InspectedRecord) and each.divergence for each in records(disk))


def test_a_chunk_that_cannot_be_read_is_told_and_the_others_are_shown(
    stream: ManifestStream, disk: FaultDisk, store: FlakyStore
) -> None:
    path = chunk_path(ROOT, 1)
    disk.put(path, disk.files()[path][:-1])
    found = records(disk, store)
    (unreadable,) = [each for each in found if isinstance(each, Unreadable)]
    assert (unreadable.chunk_index, unreadable.error.path) == (1, path)
    assert {each.chunk_index for each in found} == {0, 1, 2}
    assert len(list(inspect_remote(store, KEYS, STREAM))) == 15


def test_events_of_somebody_else_are_shown_as_they_are(disk: FaultDisk) -> None:
    stream = opened(disk)
    stream.append(ManifestRecord(CustomEvent(77, b"theirs")))
    stream.close()
    (found,) = records(disk)
    assert isinstance(found, InspectedRecord)
    assert found.said == CustomEvent(77, b"theirs")


def test_a_look_beside_a_writer_is_repeated_until_nothing_moves(disk: FaultDisk) -> None:
    """Between the listing and the read the writer takes a snapshot and forgets chunks."""
    stream = opened(disk)
    fill(stream, 6)
    for index in range(6):
        stream.mark_uploaded(index)
    disk.observe_reads = True
    moved = 0

    def move(call: Call) -> None:
        nonlocal moved
        if call.operation == "read" and moved < 2:
            moved += 1
            disk.observer = None
            fill(stream, 1, first=10 + moved)
            stream.snapshot()
            stream.maintain()
            disk.observer = move

    disk.observer = move
    assert opened(disk, read_only=True).catalogue.image() == stream.catalogue.image()
    assert moved == 2
    moved = 0
    assert [each.severity for each in findings_now(disk) if each.severity is Severity.DAMAGE] == []


def findings_now(disk: FaultDisk) -> list[Finding]:
    return verify(ROOT, stream_id=STREAM, disk=disk)


def test_damage_that_stays_is_told_at_once(stream: ManifestStream, disk: FaultDisk) -> None:
    disk.put(chunk_path(ROOT, 1), b"damaged")
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        survey(disk, ROOT, STREAM)

    with pytest.raises(CorruptManifest):
        steadily(disk, ROOT, look)
    assert looks == 1
    assert stream.end.next_record == 15
