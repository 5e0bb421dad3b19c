"""Data directories from the store alone, also where the store's manifest lags behind its segments."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from barbicel.codecs.aof2_events import SegmentDescribed
from barbicel.codecs.topic_file import ClusterFile, Topic, decode_cluster, encode_cluster, encode_topic
from barbicel.disk import RealDisk
from barbicel.errors import StoreError, StoreRefused
from barbicel.gateway.broker.data_layout import DataLayout, topic_directory
from barbicel.gateway.broker.tiering.restore import RestoredPartition, find_namespaces, restore
from barbicel.tier import transitions
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.stream import ManifestStream
from tests.tier.partitions import ScriptedStore
from tests.tier.segments import batches_of, flipped, object_bytes

KEYS = Keys("ours")
TOPIC = Topic("orders", UUID(int=7), 1, 1)
DIRECTORY = topic_directory(TOPIC)


@pytest.fixture
def store(tmp_path: Path) -> ScriptedStore:
    """With a cluster and a topic, and nothing of it yet."""
    store = ScriptedStore(tmp_path / "objects")
    store.put_new(KEYS.cluster, [encode_cluster(ClusterFile(UUID(int=1), 1, 5))])
    store.put_new(KEYS.topic(DIRECTORY).description, [encode_topic(TOPIC)])
    return store


@pytest.fixture
def stream(tmp_path: Path, store: ScriptedStore) -> Iterator[ManifestStream]:
    """The manifest of the server that is lost."""
    layout = DataLayout(str(tmp_path / "lost"))
    name = layout.stream(TOPIC, 0)
    with ManifestStream.open(str(tmp_path / "lost"), stream_id=name, disk=RealDisk()) as stream:
        yield stream


def put_segment(store: ScriptedStore, base_offset: int) -> tuple[str, str, SegmentDescribed]:
    """100 offsets; its key, its etag and what UploadDone says of it."""
    body, index = object_bytes(batches_of(10, first_offset=base_offset))
    keys = KEYS.topic(DIRECTORY)
    info = store.put_new(keys.segment(0, base_offset), [body])
    store.put_new(keys.index(0, base_offset), [index])
    crc = int.from_bytes(body[-16:-12])
    return (
        info.key,
        info.etag,
        SegmentDescribed(base_offset + 100, 1, 100, len(body), crc, len(index), False),
    )


def begin(stream: ManifestStream, base_offset: int) -> None:
    key = KEYS.topic(DIRECTORY).segment(0, base_offset)
    stream.append(
        transitions.opened(base_offset),
        transitions.sealed(base_offset, base_offset + 100, 1000, 1),
        transitions.uploading(base_offset, key),
    )


def publish(stream: ManifestStream, store: ScriptedStore) -> None:
    stream.seal()
    stream.upload(store, KEYS)


def restored(store: ScriptedStore, target: Path) -> RestoredPartition:
    (found,) = restore(store, KEYS, RealDisk(), str(target))
    return found


def test_what_the_manifest_knows_is_restored(
    tmp_path: Path, store: ScriptedStore, stream: ManifestStream
) -> None:
    begin(stream, 0)
    stream.append(*transitions.uploaded(0, *put_segment(store, 0)))
    publish(stream, store)
    found = restored(store, tmp_path / "data")
    assert (found.start_offset, found.end_offset, found.segments, found.adopted) == (0, 100, 1, 0)
    assert found.problems == []


def test_a_segment_whose_upload_the_manifest_saw_begin_and_not_end_is_not_lost(
    tmp_path: Path, store: ScriptedStore, stream: ManifestStream
) -> None:
    """A chunk of the manifest was sealed and uploaded while the segment was on its way."""
    begin(stream, 0)
    stream.append(*transitions.uploaded(0, *put_segment(store, 0)))
    begin(stream, 100)
    publish(stream, store)
    put_segment(store, 100)
    put_segment(store, 200)
    found = restored(store, tmp_path / "data")
    assert (found.end_offset, found.segments, found.adopted, found.problems) == (300, 3, 2, [])


def test_without_a_manifest_the_segments_tell_of_themselves(tmp_path: Path, store: ScriptedStore) -> None:
    for base_offset in (0, 100, 300):
        put_segment(store, base_offset)
    found = restored(store, tmp_path / "data")
    assert (found.end_offset, found.adopted) == (400, 3)
    (problem,) = found.problems
    assert "missing before" in problem
    assert "200" in problem


def test_half_of_an_upload_and_a_damaged_one_are_left_out_and_told(
    tmp_path: Path, store: ScriptedStore
) -> None:
    keys = KEYS.topic(DIRECTORY)
    put_segment(store, 0)
    body, index = object_bytes(batches_of(10, first_offset=100))
    store.put_new(keys.segment(0, 100), [flipped(body, len(body) // 2)])
    store.put_new(keys.index(0, 100), [index])
    store.put_new(keys.segment(0, 200), [object_bytes(batches_of(10, first_offset=200))[0]])
    found = restored(store, tmp_path / "data")
    assert (found.end_offset, found.segments, len(found.problems)) == (100, 1, 2)


def test_a_damaged_manifest_is_not_used_and_nothing_is_lost(
    tmp_path: Path, store: ScriptedStore, stream: ManifestStream
) -> None:
    begin(stream, 0)
    stream.append(*transitions.uploaded(0, *put_segment(store, 0)))
    publish(stream, store)
    (path,) = (tmp_path / "objects").rglob("*.mlog")
    path.write_bytes(flipped(path.read_bytes(), 100))
    found = restored(store, tmp_path / "data")
    assert (found.end_offset, found.segments, found.adopted) == (100, 1, 1)
    assert "manifest is not used" in found.problems[0]


def test_the_manifest_goes_on_behind_a_damaged_one(
    tmp_path: Path, store: ScriptedStore, stream: ManifestStream
) -> None:
    """Or none of its chunks could be uploaded: those names are taken."""
    begin(stream, 0)
    stream.append(*transitions.uploaded(0, *put_segment(store, 0)))
    publish(stream, store)
    (path,) = (tmp_path / "objects").rglob("*.mlog")
    path.write_bytes(flipped(path.read_bytes(), 100))
    restored(store, tmp_path / "data")
    layout = DataLayout(str(tmp_path / "data"))
    name = layout.stream(TOPIC, 0)
    with ManifestStream.open(layout.manifest(TOPIC, 0), stream_id=name, disk=RealDisk()) as again:
        again.seal()
        assert again.upload(store, KEYS) == 2  # a chunk, and the snapshot before it
        assert again.reconcile(store, KEYS).broken == {}
    found = restored(store, tmp_path / "once-more")
    assert (found.end_offset, found.segments, found.adopted, found.problems) == (100, 1, 0, [])


def test_a_beginning_that_was_deleted_after_the_last_upload_of_the_manifest_keeps_nobody_waiting(
    tmp_path: Path, store: ScriptedStore, stream: ManifestStream
) -> None:
    for base_offset in (0, 100, 200, 300):
        begin(stream, base_offset)
        stream.append(*transitions.uploaded(base_offset, *put_segment(store, base_offset)))
    publish(stream, store)
    for base_offset in (0, 100):
        store.delete(KEYS.topic(DIRECTORY).segment(0, base_offset))
    found = restored(store, tmp_path / "data")
    assert (found.start_offset, found.end_offset, found.segments) == (200, 400, 2)
    (problem,) = found.problems
    assert "the beginning" in problem
    assert "0 to 199" in problem
    store.delete(KEYS.topic(DIRECTORY).segment(0, 300))
    found = restored(store, tmp_path / "other")
    # What is missing further on is damage, and told when it is read.
    assert (found.start_offset, found.end_offset, len(found.problems)) == (200, 400, 2)
    for base_offset in (200, 300):
        store.delete(KEYS.topic(DIRECTORY).segment(0, base_offset))
    found = restored(store, tmp_path / "nothing-left")
    assert (found.start_offset, found.end_offset, found.segments) == (400, 400, 0)


def test_producer_ids_that_a_lost_server_gave_out_are_not_given_out_again(
    tmp_path: Path, store: ScriptedStore
) -> None:
    """Also by the second server that is lost: its producers may live on, and number their batches alike."""
    starts = []
    for now_ms in (1_700_000_000_000, 1_700_000_000_001, 0):
        target = tmp_path / f"data-{now_ms}"
        list(restore(store, KEYS, RealDisk(), str(target), partial(int, now_ms)))
        starts.append(decode_cluster((target / "cluster.json").read_bytes()).next_producer_id)
    first, second, without_a_clock = starts
    assert second - first >= 1 << 20
    assert 5 + (1 << 40) <= without_a_clock < second < 1 << 63


def test_a_namespace_within_another_is_another_clusters(tmp_path: Path, store: ScriptedStore) -> None:
    inner = Keys("ours/inner")
    other = Topic("theirs", UUID(int=8), 3, 1)
    store.put_new(inner.cluster, [encode_cluster(ClusterFile(UUID(int=2), 1, 5))])
    store.put_new(inner.topic(topic_directory(other)).description, [encode_topic(other)])
    assert find_namespaces(store) == ["ours", "ours/inner"]
    assert restored(store, tmp_path / "data").topic == "orders"
    assert {one.topic for one in restore(store, inner, RealDisk(), str(tmp_path / "other"))} == {"theirs"}


def test_a_restore_that_fails_anywhere_leaves_no_target_and_can_be_made_again(
    tmp_path: Path, store: ScriptedStore, stream: ManifestStream
) -> None:
    begin(stream, 0)
    stream.append(*transitions.uploaded(0, *put_segment(store, 0)))
    publish(stream, store)
    put_segment(store, 100)
    store.calls.clear()
    restored(store, tmp_path / "counted")
    for number in range(len(store.calls)):
        store.calls.clear()
        store.strike_at = number
        with pytest.raises(StoreError):
            restored(store, tmp_path / "data")
        assert not (tmp_path / "data").exists()
    store.strike_at = None
    assert restored(store, tmp_path / "data").end_offset == 200
    assert not (tmp_path / "data.restoring").exists()


def test_a_store_without_a_cluster_and_a_directory_that_is_not_empty_are_refused(
    tmp_path: Path, store: ScriptedStore
) -> None:
    with pytest.raises(StoreRefused, match="no cluster has the namespace 'theirs'"):
        list(restore(store, Keys("theirs"), RealDisk(), str(tmp_path / "data")))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_text("!")
    with pytest.raises(StoreRefused, match="not empty"):
        restored(store, tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["mine"]
