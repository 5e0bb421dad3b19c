"""Sealed chunks and snapshots into the object store, each of them once.

Its invariants: what is uploaded was checked on this disk first; a chunk is marked only after the store has
proved that it holds these very bytes; a snapshot follows the chunk into which it points, so that whoever
finds it in the store can use it. Doing any of it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import md5

from barbicel.codecs.aof2_manifest import CHUNK_HEADER_BYTES, decode_chunk
from barbicel.codecs.manifest_snapshot import decode_manifest_snapshot
from barbicel.errors import (
    CorruptFile,
    CorruptManifest,
    ForeignManifest,
    ObjectExists,
    ObjectMissing,
    StoreError,
)
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.layout import chunk_path, snapshot_path
from barbicel.tier.manifest_log.local_stream import LocalStream
from barbicel.tier.manifest_log.remote import as_object
from barbicel.tier.object_store import ObjectStore

__all__ = ["chunk_metadata", "foreign_chunk", "put_once", "upload_all", "upload_chunk"]


def put_once(store: ObjectStore, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> bool:
    """Have an object with this content; False if it was there. Raises ObjectExists if it has another one.

    A put that failed may have been done all the same, and then this finds it.
    """
    try:
        info = store.put_new(key, [data], metadata)
    except ObjectExists:
        if not _is_there(store, key, data):
            raise
        return False
    proof = md5(data, usedforsecurity=False).hexdigest()
    if not store.proves(info, proof) and not _is_there(store, key, data):
        raise StoreError("the object is not what was uploaded", path=key)
    return True


def _is_there(store: ObjectStore, key: str, data: bytes) -> bool:
    return store.head(key).size == len(data) and store.get(key) == data


def chunk_metadata(stream: LocalStream, data: bytes, chunk_index: int) -> dict[str, str]:
    """What helps to check a chunk's object without reading it. Raises CorruptManifest for a damaged one."""
    header, records = decode_chunk(data, chunk_index)
    return {
        "chunk-crc64": f"{header.chunk_crc64:016x}",
        "base-record": str(header.base_record),
        "record-count": str(len(records)),
        "snapshot-id": str(stream.latest_marker(chunk_index)),
    }


def foreign_chunk(key: str) -> ForeignManifest:
    return ForeignManifest(
        "the object store has a chunk of this manifest that is not from this disk",
        path=key,
        hint="this directory is an older copy, or another server uses the namespace: see docs/tiering.md",
    )


def upload_chunk(stream: LocalStream, store: ObjectStore, keys: Keys, chunk_index: int) -> bool:
    """Have a sealed chunk in the store, and mark it. False if it was there already.

    Raises ForeignManifest if another one is there.
    """
    data = stream.read_chunk(chunk_index)
    try:
        metadata = chunk_metadata(stream, data, chunk_index)
    except CorruptManifest as error:
        stream.manifest_crc_error_count += 1
        error.path = chunk_path(stream.directory, chunk_index)
        raise
    key = keys.chunk(stream.stream_id, chunk_index)
    try:
        is_new = put_once(store, key, as_object(data, chunk_index), metadata)
    except ObjectExists:
        raise foreign_chunk(key) from None
    stream.mark_uploaded(chunk_index)
    return is_new


def upload_all(stream: LocalStream, store: ObjectStore, keys: Keys) -> int:
    """Everything that is not in the store yet: how many objects were put."""
    try:
        waiting = [index for index, header in stream.sealed_chunks().items() if not header.is_uploaded]
        uploaded = sum(upload_chunk(stream, store, keys, index) for index in waiting)
        return uploaded + _upload_snapshot(stream, store, keys)
    except StoreError:
        stream.manifest_upload_retry_count += 1
        raise


def _upload_snapshot(stream: LocalStream, store: ObjectStore, keys: Keys) -> bool:
    """The newest snapshot that may go there, unless it did."""
    for snapshot_id in reversed(stream.snapshot_ids()):
        if snapshot_id in stream.remote_snapshots:
            return False
        data = stream.read_snapshot(snapshot_id)
        if _may_go(stream, data, snapshot_id):
            key = keys.snapshot(stream.stream_id, snapshot_id)
            is_new = not _is_known(store, key, len(data)) and put_once(store, key, data)
            stream.remote_snapshots.add(snapshot_id)
            return is_new
    return False


def _may_go(stream: LocalStream, data: bytes, snapshot_id: int) -> bool:
    try:
        snapshot = decode_manifest_snapshot(data)
    except CorruptFile as error:
        stream.manifest_crc_error_count += 1
        error.path = snapshot_path(stream.directory, snapshot_id)
        raise
    if snapshot.chunk_offset == CHUNK_HEADER_BYTES:
        return True
    header = stream.sealed_chunks().get(snapshot.chunk_index)
    # One that is neither sealed nor evicted is still being written.
    return header.is_uploaded if header else snapshot.chunk_index < stream.end.chunk_index


def _is_known(store: ObjectStore, key: str, size: int) -> bool:
    try:
        return store.head(key).size == size
    except ObjectMissing:
        return False
