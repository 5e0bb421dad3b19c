"""A data directory made from the object store alone, for a machine that has lost its disk.

What the store has is read from there later, when somebody asks for it: what is made here are the topics,
their manifests, and logs that begin where the store ends. It is made beside the target and takes its name
when all of it is durable. What only the lost disk had is lost: records that were not uploaded, and the
positions of consumers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from barbicel.clock import Clock, wall_clock_ms
from barbicel.codecs.aof2_events import SegmentDescribed
from barbicel.codecs.manifest_snapshot import SegmentEntry
from barbicel.codecs.topic_file import (
    MAX_FILE_BYTES,
    ClusterFile,
    Topic,
    TopicState,
    decode_cluster,
    decode_topic,
    encode_cluster,
    encode_topic,
)
from barbicel.disk import Disk, parent, remove_tree, replace_file
from barbicel.errors import CorruptFile, ObjectMissing, StoreRefused, offsets_text
from barbicel.gateway.broker.data_layout import DataLayout, topic_directory
from barbicel.keratin import Log
from barbicel.tier import transitions
from barbicel.tier.keys import Keys, parse_segment_key
from barbicel.tier.manifest_log.follower import begin_behind, catch_up
from barbicel.tier.manifest_log.reconciliation import index_key
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.object_store import ObjectInfo, ObjectStore
from barbicel.tier.whole_segment import check_whole, read_ends

__all__ = ["RestoredPartition", "find_namespaces", "restore"]

# Ids that a lost server may have given out since the namespace was claimed are not given out again, also if
# this is not the first one that was lost: nobody gives out a million of them in a millisecond.
SKIPPED_PRODUCER_IDS = 1 << 40
PRODUCER_IDS_A_MS_BITS = 20
CLUSTER_FILE = "/cluster.json"


class RestoredPartition(NamedTuple):
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    segments: int
    object_bytes: int
    # Segments of which the store's manifest did not know yet.
    adopted: int
    problems: list[str]


def find_namespaces(store: ObjectStore) -> list[str]:
    """Every namespace that a cluster has claimed in a store."""
    return [info.key.removesuffix(CLUSTER_FILE) for info in store.list("") if info.key.endswith(CLUSTER_FILE)]


def restore(
    store: ObjectStore, keys: Keys, disk: Disk, target: str, clock: Clock = wall_clock_ms
) -> Iterator[RestoredPartition]:
    """Yields each partition when it is there. When it has ended the target is whole, and durable.

    Raises StoreError, DiskError, CorruptFile; then there is no target, and calling it again begins anew.
    """
    if disk.exists(target) and disk.names(target):
        raise StoreRefused("the directory is not empty", path=target, hint="restore into a new one")
    cluster = _read_cluster(store, keys)
    layout = DataLayout(f"{target}.restoring")
    if disk.exists(layout.root):  # of a try that was cut short
        remove_tree(disk, layout.root)
    for path in (layout.root, layout.temporaries, layout.topics, layout.tier):
        disk.make_directory(path)
    topics, objects = _list_all(store, keys)
    for topic in topics:
        yield from _restore_topic(_Restoring(store, keys, disk, layout, clock), topic, objects)
    next_id = max(cluster.next_producer_id + SKIPPED_PRODUCER_IDS, clock() << PRODUCER_IDS_A_MS_BITS)
    fresh = cluster._replace(next_producer_id=next_id)
    replace_file(disk, layout.new_cluster_file, layout.cluster_file, [encode_cluster(fresh)])
    if disk.exists(target):
        disk.remove_directory(target)
    disk.rename(layout.root, target)
    disk.sync_directory(parent(target))


def _read_cluster(store: ObjectStore, keys: Keys) -> ClusterFile:
    try:
        return decode_cluster(store.get(keys.cluster))
    except ObjectMissing:
        raise StoreRefused(
            f"no cluster has the namespace {keys.namespace!r}", path=store.url, hint="see --namespace"
        ) from None


def _list_all(store: ObjectStore, keys: Keys) -> tuple[list[Topic], dict[str, ObjectInfo]]:
    """The topics, and all objects by their keys, from one listing."""
    objects = {info.key: info for info in store.list(keys.prefix)}
    topics = []
    for key, info in objects.items():
        if key.endswith("/topic.json"):
            if info.size > MAX_FILE_BYTES:
                raise CorruptFile(f"{info.size} bytes are too many", path=key)
            topic = decode_topic(store.get(key))
            # Within one namespace there may be another.
            if topic.state is TopicState.LIVE and key == keys.topic(topic_directory(topic)).description:
                topics.append(topic)
    return topics, objects


def _restore_topic(
    restoring: _Restoring, topic: Topic, objects: Mapping[str, ObjectInfo]
) -> Iterator[RestoredPartition]:
    layout, disk = restoring.layout, restoring.disk
    disk.make_directory(layout.directory(topic))
    for number in range(topic.partitions):
        yield restoring.partition(topic, number, objects)
    # A topic is what its file says, so that comes last.
    replace_file(disk, layout.new_topic_file, layout.topic_file(topic), [encode_topic(topic)])


@dataclass(frozen=True)
class _Restoring:
    store: ObjectStore
    keys: Keys
    disk: Disk
    layout: DataLayout
    clock: Clock

    def partition(self, topic: Topic, number: int, objects: Mapping[str, ObjectInfo]) -> RestoredPartition:
        stream_id, directory = self.layout.stream(topic, number), self.layout.manifest(topic, number)
        problems: list[str] = []
        try:
            catch_up(directory, stream_id=stream_id, disk=self.disk, store=self.store, keys=self.keys)
        except CorruptFile as error:
            # Its segments tell of themselves.
            problems.append(f"the manifest is not used: {error}")
            remove_tree(self.disk, directory)
            begin_behind(
                directory,
                stream_id=stream_id,
                disk=self.disk,
                store=self.store,
                keys=self.keys,
                now_ms=self.clock(),
            )
        with ManifestStream.open(directory, stream_id=stream_id, disk=self.disk, clock=self.clock) as stream:
            adopted = self._reconcile(topic, number, stream, objects, problems)
            stream.commit()
            start = stream.catalogue.start_offset
            tiered = [
                entry for entry in stream.catalogue.segments if entry.is_tiered and entry.end_offset > start
            ]
        end_offset = max([start, *(entry.end_offset for entry in tiered)])
        self._begin_log(topic, number, end_offset)
        return RestoredPartition(
            topic=topic.name,
            partition=number,
            start_offset=max(start, tiered[0].base_offset) if tiered else end_offset,
            end_offset=end_offset,
            segments=len(tiered),
            object_bytes=sum(entry.description.object_bytes for entry in tiered if entry.description),
            adopted=adopted,
            problems=problems,
        )

    def _begin_log(self, topic: Topic, number: int, first_offset: int) -> None:
        path = self.layout.partition(topic, number)
        Log.open(path, disk=self.disk, clock=self.clock, first_offset=first_offset).close()

    # --- segments -----------------------------------------------------------------------------------

    def _reconcile(
        self,
        topic: Topic,
        number: int,
        stream: ManifestStream,
        objects: Mapping[str, ObjectInfo],
        problems: list[str],
    ) -> int:
        """Hold the manifest against what there is; how many segments it did not know."""
        known = {entry.key: entry for entry in stream.catalogue.segments if entry.is_tiered}
        gone = self._give_up_beginning(stream, list(known.values()), objects, problems)
        for key, entry in list(known.items())[gone:]:
            self._check(stream, entry, objects.get(key), problems)
        queued = {pending.key for pending in stream.catalogue.pending_deletes}
        prefix = self.keys.topic(topic_directory(topic)).partition(number)
        unknown = [
            info
            for key, info in sorted(objects.items())
            if key.startswith(prefix) and key.endswith(".kfs") and key not in known and key not in queued
        ]
        return sum(self._adopt(stream, info, objects, problems) for info in unknown)

    def _give_up_beginning(
        self,
        stream: ManifestStream,
        known: list[SegmentEntry],
        objects: Mapping[str, ObjectInfo],
        problems: list[str],
    ) -> int:
        """Move the start behind the segments at the beginning that are gone; how many they are.

        Retention has deleted them, most likely, and the manifest that says so was not uploaded any more. Who
        begins at the start must not wait for them.
        """
        gone = list(takewhile(lambda entry: entry.key not in objects, known))
        if gone:
            stream.append(transitions.start_moved(gone[-1].end_offset))
            lost = offsets_text(gone[0].base_offset, gone[-1].end_offset)
            problems.append(f"the beginning is gone from the store, by retention or by hand: {lost}")
        return len(gone)

    def _check(
        self, stream: ManifestStream, entry: SegmentEntry, info: ObjectInfo | None, problems: list[str]
    ) -> None:
        """An object of another etag may be the same one in a copy of the store."""
        described = entry.description
        if info is None or described is None:
            problems.append(f"{entry.key} is gone: {offsets_text(entry.base_offset, entry.end_offset)}")
            return
        if info.etag == entry.etag:
            return
        if self._describes(described, info):
            stream.append(*transitions.uploaded(entry.segment_id, entry.key, info.etag, described))
        else:
            lost = offsets_text(entry.base_offset, entry.end_offset)
            problems.append(f"{entry.key} is not what was uploaded: {lost}")

    def _describes(self, described: SegmentDescribed, info: ObjectInfo) -> bool:
        try:
            _, footer = read_ends(partial(self._read, info.key), info.size)
        except CorruptFile:
            return False
        return (info.size, footer.body_crc32c) == (described.object_bytes, described.object_crc32c)

    def _adopt(
        self,
        stream: ManifestStream,
        info: ObjectInfo,
        objects: Mapping[str, ObjectInfo],
        problems: list[str],
    ) -> bool:
        """A segment that was uploaded, and the manifest that says so was not."""
        place = parse_segment_key(info.key)
        index = objects.get(index_key(info.key))
        if place is None or index is None:
            problems.append(f"{info.key} was not uploaded whole and is left out")
            return False
        # One whose upload the manifest did not see the end of is not among them: it may be this one.
        end_offset = max(
            (entry.end_offset for entry in stream.catalogue.segments if entry.is_tiered), default=0
        )
        start_offset = stream.catalogue.start_offset
        try:
            packed = check_whole(partial(self._read, info.key), info.size, share=1.0)
        except CorruptFile as error:
            problems.append(f"{info.key} is damaged and is left out: {error}")
            return False
        if packed.end_offset <= max(end_offset, start_offset):
            problems.append(f"{info.key} is below what was known, and is left out")
            return False
        if place.base_offset != end_offset and end_offset:
            problems.append(f"missing before {info.key}: {offsets_text(end_offset, place.base_offset)}")
        described = SegmentDescribed(
            end_offset=packed.end_offset,
            max_timestamp_ms=packed.max_timestamp_ms,
            message_count=packed.message_count,
            object_bytes=info.size,
            object_crc32c=packed.body_crc32c,
            index_bytes=index.size,
            is_recompressed=False,
        )
        base_offset = place.base_offset
        stream.append(
            transitions.opened(base_offset),
            transitions.sealed(base_offset, packed.end_offset, info.size, packed.crc64),
            *transitions.uploaded(base_offset, info.key, info.etag, described),
        )
        return True

    def _read(self, key: str, position: int, length: int) -> bytes:
        return self.store.get(key, position, length)
