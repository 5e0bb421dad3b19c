"""A look at a stream's files and objects that changes nothing: what is wrong, as values.

Every chunk and every snapshot is read whole, also those that replay would not need.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from barbicel.codecs.aof2_manifest import ChunkHeader, decode_chunk
from barbicel.disk import Disk
from barbicel.errors import BarbicelError, CorruptFile
from barbicel.tier.catalogue import Catalogue
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.reconciliation import (
    compare,
    find_gaps,
    list_segment_objects,
    repair_reason,
    unknown_objects,
)
from barbicel.tier.manifest_log.recovery import DirectorySource, steadily, survey
from barbicel.tier.manifest_log.remote import RemoteSource
from barbicel.tier.manifest_log.replay import Source, read_snapshot
from barbicel.tier.manifest_log.retention import evictable_chunks
from barbicel.tier.object_store import ObjectStore

__all__ = ["Finding", "Severity", "verify"]


class Severity(Enum):
    """How bad it is."""

    DAMAGE = "damage"  # something cannot be read
    REPAIRABLE = "repairable"  # the next start, upload or reconciliation mends it
    NOTE = "note"  # as it should be, worth knowing


class Finding(NamedTuple):
    """One thing that was found, and where: a path or a key."""

    severity: Severity
    place: str
    message: str
    position: int | None = None


def verify(
    directory: str, *, stream_id: str, disk: Disk, store: ObjectStore | None = None, keys: Keys | None = None
) -> list[Finding]:
    """Everything that is not as it should be. Raises DiskError and StoreError, and nothing else."""
    headers, catalogue, findings = steadily(
        disk, directory, lambda: _verify_directory(disk, directory, stream_id)
    )
    if store is not None and keys is not None:
        findings += _verify_store(store, keys, stream_id, headers, catalogue)
    # What two looks at one thing have both seen is told once.
    return list(dict.fromkeys(findings))


def _verify_directory(
    disk: Disk, directory: str, stream_id: str
) -> tuple[dict[int, ChunkHeader], Catalogue | None, list[Finding]]:
    local = DirectorySource(disk, directory)
    headers, findings = _verify_source(local, stream_id)
    findings += _verify_rows(local, headers)
    catalogue, replay_findings = _verify_replay(disk, directory, stream_id)
    return headers, catalogue, findings + replay_findings


def _finding(error: BarbicelError, place: str) -> Finding:
    return Finding(Severity.DAMAGE, error.path or place, error.message, error.position)


def _verify_source(source: Source, stream_id: str) -> tuple[dict[int, ChunkHeader], list[Finding]]:
    headers: dict[int, ChunkHeader] = {}
    findings: list[Finding] = []
    for index in source.chunks:
        try:
            headers[index] = decode_chunk(source.read_chunk(index), index)[0]
        except CorruptFile as error:
            findings.append(_finding(error, source.chunk_name(index)))
    for snapshot_id in source.snapshots:
        try:
            read_snapshot(source, snapshot_id, stream_id)
        except CorruptFile as error:
            findings.append(_finding(error, source.snapshot_name(snapshot_id)))
    return headers, findings


def _verify_rows(local: DirectorySource, headers: dict[int, ChunkHeader]) -> Iterator[Finding]:
    """Chunks that are there are one row, and all but the last are sealed."""
    for before, index in pairwise(local.chunks):
        place = local.chunk_name(before)
        if index != before + 1:
            yield Finding(Severity.NOTE, place, f"chunks {before + 1} to {index - 1} do not follow")
        if before in headers and not headers[before].is_sealed:
            yield Finding(Severity.DAMAGE, place, "it is not sealed, and chunks follow", 56)


def _verify_replay(disk: Disk, directory: str, stream_id: str) -> tuple[Catalogue | None, list[Finding]]:
    try:
        found = survey(disk, directory, stream_id)
    except CorruptFile as error:
        return None, [_finding(error, directory)]
    findings = [Finding(Severity.REPAIRABLE, path, "left by a crash, to be swept") for path in found.sweeps]
    findings += [
        Finding(
            Severity.REPAIRABLE, trim.path, "bytes that were never committed, to be cut", trim.committed_len
        )
        for trim in found.trims
        # Preallocated zeros are no tail: the chunk may be open right now.
        if not _is_blank(disk, trim.path, trim.committed_len, trim.size)
    ]
    newest = found.replayed.snapshot
    idle = evictable_chunks(found.sealed, 0 if newest is None else newest.chunk_index)
    if idle:
        message = f"chunks {idle[0]} to {idle[-1]} are uploaded and covered, to be forgotten"
        findings.append(Finding(Severity.NOTE, directory, message))
    return found.replayed.catalogue, findings


def _is_blank(disk: Disk, path: str, start: int, end: int) -> bool:
    file = disk.open(path, "read")
    try:
        return not any(file.pread(end - start, start))
    finally:
        file.close()


def _verify_store(
    store: ObjectStore,
    keys: Keys,
    stream_id: str,
    headers: dict[int, ChunkHeader],
    catalogue: Catalogue | None,
) -> Iterator[Finding]:
    remote = RemoteSource(store, keys, stream_id)
    yield from _verify_source(remote, stream_id)[1]
    sealed = {index: header for index, header in headers.items() if header.is_sealed}
    for key in (*compare(store, remote, sealed), *remote.unbelievable):
        yield Finding(Severity.DAMAGE, key, "it is not what this disk has")
    there = set(remote.chunks)
    for index, header in sealed.items():
        if index not in there and header.is_uploaded:
            yield Finding(Severity.REPAIRABLE, keys.chunk(stream_id, index), "uploaded, and not there")
    for first, last in find_gaps(sorted(there | set(headers))):
        yield Finding(Severity.DAMAGE, keys.manifest(stream_id), f"chunks {first} to {last} are nowhere")
    if catalogue is not None:
        yield from _verify_segments(store, keys, stream_id, catalogue)


def _verify_segments(
    store: ObjectStore, keys: Keys, stream_id: str, catalogue: Catalogue
) -> Iterator[Finding]:
    objects = list_segment_objects(store, keys, stream_id)
    for entry in catalogue.segments:
        if entry.is_tiered and (reason := repair_reason(entry, objects)):
            name = reason.name.lower().replace("_", " ")
            yield Finding(Severity.DAMAGE, entry.key, f"segment {entry.segment_id}: {name}")
    for key in unknown_objects(catalogue, objects):
        # Beside a running server one may have come since the manifest was read.
        yield Finding(Severity.NOTE, key, "no record of the manifest speaks of it")
