"""A copy of a stream's manifest on another disk, brought up to date from the object store alone.

For followers, and for a machine that has lost its disk. What is downloaded is checked before it is kept, and
lies in the directory as if it had been written there: sealed, and marked as uploaded.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from barbicel.codecs.aof2_manifest import (
    CHUNK_HEADER_BYTES,
    FLAG_SEALED,
    FLAG_UPLOADED,
    decode_chunk,
    encode_chunk_header,
)
from barbicel.codecs.manifest_snapshot import (
    CatalogueImage,
    ManifestSnapshot,
    SegmentEntry,
    encode_manifest_snapshot,
)
from barbicel.disk import Disk, replace_file
from barbicel.errors import CorruptFile, CorruptManifest
from barbicel.tier.catalogue import Catalogue
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.layout import snapshot_path, temporary_path
from barbicel.tier.manifest_log.recovery import DirectorySource
from barbicel.tier.manifest_log.remote import RemoteSource
from barbicel.tier.manifest_log.replay import Replayed, newest_snapshot, replay
from barbicel.tier.object_store import ObjectStore

__all__ = ["CatchUp", "begin_behind", "catch_up", "hydrations"]


class CatchUp(NamedTuple):
    """What was downloaded, and the catalogue that the directory gives now."""

    chunks: list[int]
    snapshot_id: int | None
    replayed: Replayed


def hydrations(catalogue: Catalogue, held: Container[int] = ()) -> list[SegmentEntry]:
    """The segments that somebody who holds only these has to fetch, each once.

    A segment for which there is a delete record, done or queued, is not among them.
    """
    return [entry for entry in catalogue.segments if entry.is_tiered and entry.segment_id not in held]


def catch_up(directory: str, *, stream_id: str, disk: Disk, store: ObjectStore, keys: Keys) -> CatchUp:
    """Download what the directory lacks. On return it is durable, and replays to what the store knows.

    Raises CorruptManifest if the store's chunks do not continue the directory's, StoreError, DiskError.
    """
    remote = RemoteSource(store, keys, stream_id)
    disk.make_directory(directory)
    local = DirectorySource(disk, directory)
    first = _first_missing(local)
    wanted = [index for index in remote.chunks if index >= first]
    snapshot_id = None
    if not local.chunks or (wanted and wanted[0] != first):
        snapshot_id, first = _download_snapshot(remote, stream_id, disk, directory)
        wanted = [index for index in remote.chunks if index >= first]
    for index in wanted:
        _download_chunk(remote, local, disk, index)
    return CatchUp(wanted, snapshot_id, replay(DirectorySource(disk, directory), stream_id))


def begin_behind(
    directory: str, *, stream_id: str, disk: Disk, store: ObjectStore, keys: Keys, now_ms: int
) -> None:
    """Make the directory of an empty manifest that goes on behind a damaged one in the store.

    A snapshot of nothing says so. None of its chunks will have the name of one that is there.
    """
    remote = RemoteSource(store, keys, stream_id)
    start = ManifestSnapshot(
        stream_id=stream_id,
        snapshot_id=max(remote.snapshots, default=0) + 1,
        created_ms=now_ms,
        chunk_index=max(remote.chunks, default=-1) + 1,
        chunk_offset=CHUNK_HEADER_BYTES,
        next_record=0,
        catalogue=CatalogueImage(0, (), ()),
    )
    disk.make_directory(directory)
    path = snapshot_path(directory, start.snapshot_id)
    replace_file(disk, temporary_path(path), path, [encode_manifest_snapshot(start)])


def _first_missing(local: DirectorySource) -> int:
    """The chunk behind the last sealed one; one that is not sealed is whole in the store, or not there."""
    if not local.chunks:
        return 0
    last = local.chunks[-1]
    return last + 1 if local.read_header(last).is_sealed else last


def _download_snapshot(
    remote: RemoteSource, stream_id: str, disk: Disk, directory: str
) -> tuple[int | None, int]:
    """The snapshot with which replay of the store's objects begins, and the chunk in which it goes on."""
    start, _ = newest_snapshot(remote, stream_id)
    if start is None:
        return None, 0
    path = snapshot_path(directory, start.snapshot_id)
    replace_file(disk, temporary_path(path), path, [remote.read_snapshot(start.snapshot_id)])
    return start.snapshot_id, start.chunk_index


def _download_chunk(remote: RemoteSource, local: DirectorySource, disk: Disk, index: int) -> None:
    data = remote.read_chunk(index)
    path = local.chunk_name(index)
    try:
        header, _ = decode_chunk(data, index)
        if header.committed_len != len(data):
            raise CorruptManifest("bytes behind the end of a sealed chunk", chunk_index=index)
    except CorruptFile as error:
        error.path = remote.chunk_name(index)
        raise
    if index in local.listing.chunks:
        _check_continues(local, index, data)
    marked = encode_chunk_header(header._replace(flags=FLAG_SEALED | FLAG_UPLOADED))
    replace_file(disk, temporary_path(path), path, [marked, data[CHUNK_HEADER_BYTES:]])


def _check_continues(local: DirectorySource, index: int, data: bytes) -> None:
    """The store's chunk must begin with what this directory has of it."""
    mine = local.read_chunk(index)
    committed = mine[CHUNK_HEADER_BYTES : local.read_header(index).committed_len]
    if data[CHUNK_HEADER_BYTES:][: len(committed)] != committed:
        raise CorruptManifest(
            "the object store has another chunk of that number",
            chunk_index=index,
            path=local.chunk_name(index),
        )
