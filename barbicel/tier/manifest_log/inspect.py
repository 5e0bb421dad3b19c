"""The records of a stream's manifest as values, for people, with what of the object store differs.

Changes nothing. Reads what replay would not need too; damage ends the part in which it lies and is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from barbicel.codecs.aof2_events import Event, decode_event
from barbicel.codecs.aof2_manifest import ManifestRecord, decode_chunk
from barbicel.codecs.aof2_payloads import CustomEvent, Payload, UploadDone
from barbicel.disk import Disk
from barbicel.errors import CorruptFile
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.reconciliation import list_segment_objects, repair_reason
from barbicel.tier.manifest_log.recovery import DirectorySource, steadily, survey
from barbicel.tier.manifest_log.remote import RemoteSource
from barbicel.tier.manifest_log.replay import Source
from barbicel.tier.object_store import ObjectInfo, ObjectStore

__all__ = ["InspectedRecord", "Unreadable", "inspect", "inspect_remote"]


class InspectedRecord(NamedTuple):
    """One record and its place. `said` is its payload, or the event that is in it."""

    chunk_index: int
    position: int
    # Its number in the stream.
    number: int
    record: ManifestRecord
    said: Payload | Event
    # Why the object that the record speaks of is not what it says; None if it is, or nobody looked.
    divergence: str | None = None


class Unreadable(NamedTuple):
    """A chunk that cannot be shown, and why."""

    chunk_index: int
    error: CorruptFile


def inspect(
    directory: str,
    *,
    stream_id: str,
    disk: Disk,
    store: ObjectStore | None = None,
    keys: Keys | None = None,
) -> Iterator[InspectedRecord | Unreadable]:
    """Every committed record in this directory, oldest first.

    With a store, the upload of a segment whose objects are not what the manifest says now is marked.
    """
    divergences: dict[tuple[str, str], str] = {}
    if store is not None and keys is not None:
        divergences = _divergences(directory, stream_id, disk, list_segment_objects(store, keys, stream_id))
    return _inspect(DirectorySource(disk, directory), divergences)


def _divergences(
    directory: str, stream_id: str, disk: Disk, objects: Mapping[str, ObjectInfo]
) -> dict[tuple[str, str], str]:
    """Key and etag of the uploads that count, and what is wrong with their objects."""
    try:
        found = steadily(disk, directory, lambda: survey(disk, directory, stream_id))
    except CorruptFile:
        return {}  # what cannot be read is told where it is met
    return {
        (entry.key, entry.etag): reason.name.lower().replace("_", " ")
        for entry in found.replayed.catalogue.segments
        if entry.is_tiered and (reason := repair_reason(entry, objects))
    }


def inspect_remote(store: ObjectStore, keys: Keys, stream_id: str) -> Iterator[InspectedRecord | Unreadable]:
    """Every record of the stream's whole history that the object store has, bundles included."""
    return _inspect(RemoteSource(store, keys, stream_id), {})


def _inspect(
    source: Source, divergences: Mapping[tuple[str, str], str]
) -> Iterator[InspectedRecord | Unreadable]:
    for index in source.chunks:
        try:
            header, records = decode_chunk(source.read_chunk(index), index)
        except CorruptFile as error:
            error.path = error.path or source.chunk_name(index)
            yield Unreadable(index, error)
            continue
        for number, (position, record) in enumerate(records, header.base_record):
            payload = record.payload
            uploaded = (payload.key, payload.etag) if isinstance(payload, UploadDone) else None
            divergence = divergences.get(uploaded) if uploaded else None
            yield InspectedRecord(index, position, number, record, _said(record), divergence)


def _said(record: ManifestRecord) -> Payload | Event:
    if isinstance(record.payload, CustomEvent):
        try:
            return decode_event(record.payload) or record.payload
        except CorruptFile:
            return record.payload
    return record.payload
