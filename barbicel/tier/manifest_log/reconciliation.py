"""What the object store really has, held against the manifest.

Rebuilds what can be rebuilt from this disk, and writes into the manifest which segments need repair. Nothing
is deleted, and no object that is there is replaced: what differs is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from barbicel.codecs.aof2_events import RepairReason, SegmentNeedsRepair, SegmentRepaired, encode_event
from barbicel.codecs.aof2_manifest import ChunkHeader, ManifestRecord
from barbicel.codecs.manifest_snapshot import Progress, SegmentEntry
from barbicel.errors import ObjectMissing
from barbicel.tier.catalogue import Catalogue
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.local_stream import LocalStream
from barbicel.tier.manifest_log.remote import RemoteSource
from barbicel.tier.manifest_log.uploading import foreign_chunk, upload_chunk
from barbicel.tier.object_store import ObjectInfo, ObjectStore

__all__ = [
    "Reconciliation",
    "compare",
    "differences",
    "find_gaps",
    "index_key",
    "list_segment_objects",
    "reconcile",
    "repair_reason",
    "unknown_objects",
]


class Reconciliation(NamedTuple):
    """What was found; everything empty means that the store has what the manifest says."""

    # Chunks whose objects were gone, and are there again.
    rebuilt: list[int]
    # Objects of chunks that are not what this disk has.
    damaged: list[str]
    # Chunks that neither the store nor this disk has: the first and the last of each gap.
    missing: list[tuple[int, int]]
    # Segments that are marked now and were not before, and the other way round.
    broken: dict[int, RepairReason]
    repaired: list[int]
    # Objects beside the stream's segments that no record speaks of.
    unknown: list[str]


def index_key(segment_key: str) -> str:
    return f"{segment_key.removesuffix('.kfs')}.index"


def list_segment_objects(store: ObjectStore, keys: Keys, stream_id: str) -> dict[str, ObjectInfo]:
    """Every object beside the stream's segments, by its key: one listing instead of a question each."""
    topic_dir, _, partition = stream_id.rpartition("-")
    return {info.key: info for info in store.list(keys.topic(topic_dir).partition(int(partition)))}


def repair_reason(entry: SegmentEntry, objects: Mapping[str, ObjectInfo]) -> RepairReason:
    """What is wrong with the objects of an uploaded segment."""
    info, index = objects.get(entry.key), objects.get(index_key(entry.key))
    described = entry.description
    if info is None:
        return RepairReason.OBJECT_MISSING
    if info.etag != entry.etag or (described and info.size != described.object_bytes):
        return RepairReason.OBJECT_CHANGED
    if index is None:
        return RepairReason.INDEX_MISSING
    if described and index.size != described.index_bytes:
        return RepairReason.INDEX_CHANGED
    return RepairReason.NONE


def compare(store: ObjectStore, remote: RemoteSource, sealed: Mapping[int, ChunkHeader]) -> Iterator[str]:
    """The keys of chunk objects that are not what this disk has."""
    for index, header in sealed.items():
        info = remote.chunk_objects.get(index)
        if info is not None and not _is_same(store, info, header):
            yield info.key


def _is_same(store: ObjectStore, info: ObjectInfo, header: ChunkHeader) -> bool:
    try:
        told = store.metadata(info.key).get("chunk-crc64")
    except ObjectMissing:
        return True  # compacted since it was listed
    return info.size == header.committed_len and told == f"{header.chunk_crc64:016x}"


def find_gaps(indexes: Sequence[int]) -> list[tuple[int, int]]:
    """What is missing from 0 to the last of some ascending numbers."""
    return [(before + 1, index - 1) for before, index in pairwise([-1, *indexes]) if index != before + 1]


def reconcile(stream: LocalStream, store: ObjectStore, keys: Keys) -> Reconciliation:
    """Raises StoreError, and then what was not looked at yet is as it was.

    ForeignManifest if the store goes on where this disk ends: nothing is uploaded that is not sealed here.
    """
    remote = RemoteSource(store, keys, stream.stream_id)
    ahead = [index for index in remote.chunks if index >= stream.end.chunk_index]
    if ahead:
        raise foreign_chunk(remote.chunk_name(ahead[0]))
    sealed = stream.sealed_chunks()
    there = set(remote.chunks)
    lost = [index for index, header in sealed.items() if header.is_uploaded and index not in there]
    for index in lost:
        stream.mark_uploaded(index, is_uploaded=False)
        upload_chunk(stream, store, keys, index)
    gaps = find_gaps(sorted(there | set(sealed)))
    damaged = [*compare(store, remote, sealed), *remote.unbelievable]
    stream.manifest_crc_error_count += len(damaged)
    return Reconciliation(lost, damaged, gaps, *_reconcile_segments(stream, store, keys))


def _reconcile_segments(
    stream: LocalStream, store: ObjectStore, keys: Keys
) -> tuple[dict[int, RepairReason], list[int], list[str]]:
    # The catalogue first: an object that comes in between is known by the time it is listed.
    entries = [entry for entry in stream.catalogue.segments if entry.is_tiered]
    objects = list_segment_objects(store, keys, stream.stream_id)
    reasons = {entry.segment_id: repair_reason(entry, objects) for entry in entries}
    changed = [entry for entry in entries if _is_news(entry, reasons[entry.segment_id])]
    events = []
    for entry in changed:
        reason = reasons[entry.segment_id]
        said = SegmentNeedsRepair(reason) if reason else SegmentRepaired(entry.repair)
        events.append(ManifestRecord(encode_event(said), entry.segment_id, entry.base_offset))
    for event in events:
        stream.append(event)
    if events:
        stream.commit()
    broken = {entry.segment_id: reasons[entry.segment_id] for entry in changed if reasons[entry.segment_id]}
    repaired = [entry.segment_id for entry in changed if not reasons[entry.segment_id]]
    return broken, repaired, unknown_objects(stream.catalogue, objects)


def _is_news(entry: SegmentEntry, reason: RepairReason) -> bool:
    """Damage inside an object, which somebody found by reading it, is not disproved by its size."""
    if entry.repair is RepairReason.OBJECT_CORRUPT and not reason:
        return False
    return reason is not entry.repair


def differences(found: Reconciliation, needing_repair: Sequence[SegmentEntry]) -> Iterator[str]:
    """In words, for whoever keeps a log: how many of each kind, and the first one."""
    if needing_repair:
        first = needing_repair[0]
        reason = first.repair.name.lower().replace("_", " ")
        yield f"{len(needing_repair)} segments in the store need repair, the first is {first.key}: {reason}"
    if found.damaged:
        yield (
            f"{len(found.damaged)} objects of the manifest are not what this disk has,"
            f" the first is {found.damaged[0]}"
        )
    if found.missing:
        first_gone, last_gone = found.missing[0]
        yield f"chunks {first_gone} to {last_gone} of the manifest are neither here nor in the store"
    if found.unknown:
        yield (
            f"{len(found.unknown)} objects are left that no record speaks of, the first is {found.unknown[0]}"
        )


def unknown_objects(catalogue: Catalogue, objects: Mapping[str, ObjectInfo]) -> list[str]:
    """The keys of those that no record speaks of."""
    known = {entry.key for entry in catalogue.segments if entry.upload is not Progress.NONE}
    known |= {pending.key for pending in catalogue.pending_deletes}
    known |= {index_key(key) for key in known}
    return [key for key in objects if key not in known]
