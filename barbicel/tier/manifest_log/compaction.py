"""Many small chunk objects into one bundle, with tombstones for what it supersedes.

The order is the promise, and a crash anywhere is resumed by the next run:

    bundle in the store and proved → snapshot and its marker → Tier2DeleteQueued, committed
    → objects deleted → Tier2Deleted, committed

No history is lost: a bundle holds its chunks byte for byte. No object is leaked: whatever lies in a bundle,
and every snapshot but the newest two once there are many, is deleted by whichever run finds it.
"""

from __future__ import annotations

from typing import NamedTuple

from barbicel.codecs.aof2_manifest import CHUNK_MAX_BYTES, NO_SEGMENT, ManifestRecord, decode_chunk
from barbicel.codecs.aof2_payloads import Tier2Deleted, Tier2DeleteQueued
from barbicel.errors import CorruptFile, CorruptManifest
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.layout import bundle_name
from barbicel.tier.manifest_log.local_stream import LocalStream
from barbicel.tier.manifest_log.remote import Bundle, RemoteSource
from barbicel.tier.manifest_log.replay import read_snapshot
from barbicel.tier.manifest_log.retention import KEPT_SNAPSHOTS
from barbicel.tier.manifest_log.uploading import put_once
from barbicel.tier.object_store import ObjectStore

__all__ = ["Compaction", "compact"]

# Tombstones that are committed together.
TOMBSTONES_AT_ONCE = 256
# Old snapshots are deleted once there are so many.
SNAPSHOTS_AT_ONCE = 8


class Compaction(NamedTuple):
    """What a run has done."""

    bundled: list[int]
    deleted: list[str]


def compact(stream: LocalStream, store: ObjectStore, keys: Keys) -> Compaction:
    """Raises StoreError or CorruptManifest; what was begun is finished by the next run."""
    deleted = _finish_deletes(stream, store)
    remote = RemoteSource(store, keys, stream.stream_id)
    bundled = _bundle(stream, store, keys, remote)
    if bundled:
        remote = RemoteSource(store, keys, stream.stream_id)
    superseded = _superseded_chunks(remote)
    if superseded:
        # Replay need not go back to what is about to be deleted.
        stream.snapshot()
    superseded += _superseded_snapshots(stream, remote)
    if superseded:
        _queue_deletes(stream, superseded)
        deleted += _finish_deletes(stream, store)
    return Compaction(bundled, deleted)


def _bundle(stream: LocalStream, store: ObjectStore, keys: Keys, remote: RemoteSource) -> list[int]:
    run = _choose_run(stream, remote)
    if not run:
        return []
    chunks = [remote.read_chunk(index) for index in run]
    for index, chunk in zip(run, chunks, strict=True):
        _check(remote, index, chunk)
    put_once(store, keys.bundle(stream.stream_id, bundle_name(run[0], run[-1])), b"".join(chunks))
    return run


def _choose_run(stream: LocalStream, remote: RemoteSource) -> list[int]:
    """The oldest row of chunks that are in no bundle and that a snapshot covers, if it is long enough."""
    least, most_bytes = stream.settings.bundle_min_chunks, stream.settings.bundle_max_bytes
    if len(remote.chunk_objects) < least and _total_bytes(remote) <= most_bytes:
        return []
    covered = _covered_below(stream, remote)
    run: list[int] = []
    size = 0
    for index, info in sorted(remote.chunk_objects.items()):
        if index >= covered or (run and size + info.size > most_bytes):
            break
        if run and index != run[-1] + 1:  # a chunk is lost, or is in a bundle
            if len(run) >= least:
                break
            run, size = [], 0
        if remote.bundle_of(index) is None:
            run.append(index)
            size += info.size
    # A full one need not be long: chunks may be large.
    is_full = len(run) > 1 and size + CHUNK_MAX_BYTES > most_bytes
    return run if len(run) >= least or is_full else []


def _total_bytes(remote: RemoteSource) -> int:
    return sum(info.size for info in remote.chunk_objects.values())


def _covered_below(stream: LocalStream, remote: RemoteSource) -> int:
    """The chunk in which the newest whole snapshot of the store ends."""
    for snapshot_id in reversed(remote.snapshots):
        try:
            return read_snapshot(remote, snapshot_id, stream.stream_id).chunk_index
        except CorruptFile:
            stream.manifest_crc_error_count += 1
    return 0


def _check(remote: RemoteSource, index: int, chunk: bytes) -> None:
    try:
        header, _ = decode_chunk(chunk, index)
        if header.committed_len != len(chunk) or not header.is_sealed:
            raise CorruptManifest("it is not a sealed chunk and nothing else", chunk_index=index)
    except CorruptFile as error:
        error.path = remote.chunk_name(index)
        raise


def _superseded_chunks(remote: RemoteSource) -> list[tuple[int, str]]:
    """Chunk index and key of every object that a bundle holds too."""
    found: list[tuple[int, str]] = []
    for index, info in sorted(remote.chunk_objects.items()):
        bundle = remote.bundle_of(index)
        if bundle is not None and _is_held(remote, bundle, index):
            found.append((index, info.key))
    return found


def _superseded_snapshots(stream: LocalStream, remote: RemoteSource) -> list[tuple[int, str]]:
    """Many at once, or none: a tombstone is a record too, and a stream at rest must come to rest."""
    if len(remote.snapshots) < SNAPSHOTS_AT_ONCE:
        return []
    whole = [number for number in remote.snapshots if _is_whole(stream, remote, number)]
    oldest_kept = whole[-KEPT_SNAPSHOTS] if len(whole) >= KEPT_SNAPSHOTS else 0
    return [(0, info.key) for number, info in remote.snapshot_objects.items() if number < oldest_kept]


def _is_held(remote: RemoteSource, bundle: Bundle, index: int) -> bool:
    """Whether the bundle has the very bytes of the chunk's object."""
    return remote.read_bundle(bundle)[index] == remote.read_chunk(index)


def _is_whole(stream: LocalStream, remote: RemoteSource, snapshot_id: int) -> bool:
    try:
        read_snapshot(remote, snapshot_id, stream.stream_id)
    except CorruptFile:
        return False
    return True


def _queue_deletes(stream: LocalStream, superseded: list[tuple[int, str]]) -> None:
    for first in range(0, len(superseded), TOMBSTONES_AT_ONCE):
        stream.append(
            *(
                ManifestRecord(Tier2DeleteQueued(key), NO_SEGMENT, chunk_index)
                for chunk_index, key in superseded[first : first + TOMBSTONES_AT_ONCE]
            )
        )
    stream.commit()


def _finish_deletes(stream: LocalStream, store: ObjectStore) -> list[str]:
    """Delete what was queued of the manifest's own objects, by this run or by one that was interrupted."""
    queued = [pending.key for pending in stream.catalogue.pending_deletes if pending.segment_id == NO_SEGMENT]
    for first in range(0, len(queued), TOMBSTONES_AT_ONCE):
        keys = queued[first : first + TOMBSTONES_AT_ONCE]
        for key in keys:
            store.delete(key)
        stream.append(*(ManifestRecord(Tier2Deleted(key)) for key in keys))
        stream.commit()
    return queued
