"""What a stream's manifest says: every segment, where it is, and the jobs that are not done.

Its invariant: it changes by `apply` alone, live and in replay, so that the same records always give the same
catalogue. No record is refused: one that speaks of a segment which was never opened leaves an entry to be
looked into (`unopened`). A segment that is neither local nor in the object store is forgotten.

Any thread may ask; entries are values that do not change.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from barbicel.codecs.aof2_events import (
    Event,
    RepairReason,
    SegmentDescribed,
    SegmentNeedsRepair,
    SegmentRepaired,
    StartOffsetMoved,
    decode_event,
)
from barbicel.codecs.aof2_manifest import NO_SEGMENT, ManifestRecord
from barbicel.codecs.aof2_payloads import (
    CompressionDone,
    CompressionFailed,
    CompressionStarted,
    CustomEvent,
    HydrationDone,
    HydrationFailed,
    HydrationStarted,
    LocalEvicted,
    Payload,
    SealSegment,
    SegmentOpened,
    SnapshotMarker,
    Tier2Deleted,
    Tier2DeleteQueued,
    UploadDone,
    UploadFailed,
    UploadStarted,
)
from barbicel.codecs.manifest_snapshot import CatalogueImage, PendingDelete, Progress, SegmentEntry

__all__ = ["Catalogue"]

Transition: TypeAlias = Callable[[SegmentEntry, Any, ManifestRecord], SegmentEntry]


def _deleted(entry: SegmentEntry, payload: Tier2Deleted, _: ManifestRecord) -> SegmentEntry:
    if payload.key != entry.key:
        return entry
    return entry._replace(
        upload=Progress.NONE,
        key="",
        etag="",
        description=None,
        is_delete_queued=False,
        repair=RepairReason.NONE,
        hydration=Progress.NONE,
    )


# What a record makes of the entry of its segment.
_TRANSITIONS: Mapping[type[Payload | Event], Transition] = {
    SegmentOpened: lambda entry, payload, _: entry._replace(
        is_opened=True, base_offset=payload.base_offset, epoch=payload.epoch
    ),
    SealSegment: lambda entry, payload, record: entry._replace(
        is_sealed=True,
        last_offset=record.logical_offset,
        durable_bytes=payload.durable_bytes,
        segment_crc64=payload.segment_crc64,
    ),
    CompressionStarted: lambda entry, payload, _: entry._replace(
        compression=Progress.STARTED, job_id=payload.job_id
    ),
    CompressionDone: lambda entry, payload, _: entry._replace(
        compression=Progress.DONE,
        compressed_bytes=payload.compressed_bytes,
        dictionary_id=payload.dictionary_id,
    ),
    CompressionFailed: lambda entry, payload, _: entry._replace(
        compression=Progress.FAILED, compression_reason=payload.reason_code
    ),
    UploadStarted: lambda entry, payload, _: entry._replace(upload=Progress.STARTED, key=payload.key),
    UploadDone: lambda entry, payload, _: entry._replace(
        upload=Progress.DONE,
        key=payload.key,
        etag=payload.etag,
        upload_failures=0,
        repair=RepairReason.NONE,
    ),
    UploadFailed: lambda entry, payload, _: entry._replace(
        upload=Progress.FAILED,
        key=payload.key,
        upload_reason=payload.reason_code,
        upload_failures=entry.upload_failures + 1,
    ),
    Tier2DeleteQueued: lambda entry, payload, _: entry._replace(
        is_delete_queued=entry.is_delete_queued or payload.key == entry.key
    ),
    Tier2Deleted: _deleted,
    HydrationStarted: lambda entry, payload, _: entry._replace(
        hydration=Progress.STARTED, source_tier=payload.source_tier
    ),
    HydrationDone: lambda entry, payload, _: entry._replace(
        hydration=Progress.DONE, resident_bytes=payload.resident_bytes
    ),
    HydrationFailed: lambda entry, payload, _: entry._replace(
        hydration=Progress.FAILED, hydration_reason=payload.reason_code
    ),
    LocalEvicted: lambda entry, payload, _: entry._replace(
        is_local=False, reclaimed_bytes=payload.reclaimed_bytes
    ),
    SegmentDescribed: lambda entry, payload, _: entry._replace(description=payload),
    SegmentNeedsRepair: lambda entry, payload, _: entry._replace(repair=payload.reason),
    SegmentRepaired: lambda entry, _, __: entry._replace(repair=RepairReason.NONE),
}

# These come before a segment may be forgotten, so that one of them without an entry is about one that is
# still to be opened. Any other may follow a segment's end, and then says nothing.
_BEGINNINGS = frozenset(
    (
        SegmentOpened,
        SealSegment,
        CompressionStarted,
        CompressionDone,
        CompressionFailed,
        UploadStarted,
        UploadDone,
        UploadFailed,
        SegmentDescribed,
    )
)

# Lists of entries that are asked for often and are short, or empty.
_WATCHED: Mapping[str, Callable[[SegmentEntry], bool]] = {
    "uploads": lambda entry: entry.upload in (Progress.STARTED, Progress.FAILED),
    "hydrations": lambda entry: entry.hydration is Progress.STARTED,
    "repairs": lambda entry: entry.repair is not RepairReason.NONE,
    "unopened": lambda entry: not entry.is_opened,
}


def _is_forgotten(entry: SegmentEntry) -> bool:
    return not entry.is_local and entry.upload is Progress.NONE


class Catalogue:
    """See the module."""

    def __init__(self, image: CatalogueImage | None = None) -> None:
        self._mutex = threading.Lock()
        self._start_offset = 0
        self._entries: dict[int, SegmentEntry] = {}
        # Ascending.
        self._ids: list[int] = []
        self._deletes: dict[str, PendingDelete] = {}
        self._watched: dict[str, dict[int, SegmentEntry]] = {name: {} for name in _WATCHED}
        if image is not None:
            self._restore(image)

    def _restore(self, image: CatalogueImage) -> None:
        self._start_offset = image.start_offset
        self._deletes = {pending.key: pending for pending in image.deletes}
        for entry in image.segments:
            self._keep(entry)

    def image(self) -> CatalogueImage:
        """All of it as a value."""
        with self._mutex:
            deletes = tuple(self._deletes[key] for key in sorted(self._deletes))
            return CatalogueImage(
                self._start_offset, tuple(map(self._entries.__getitem__, self._ids)), deletes
            )

    # --- changing -----------------------------------------------------------------------------------

    def apply(self, record: ManifestRecord) -> None:
        """Make the record's change. Raises CorruptFile for a known event that cannot be read."""
        said: Payload | Event | None = record.payload
        if isinstance(said, CustomEvent):
            said = decode_event(said)
        if said is None or isinstance(said, SnapshotMarker):
            return  # somebody else's event, and what changes nothing
        with self._mutex:
            if isinstance(said, StartOffsetMoved):
                self._start_offset = max(self._start_offset, said.start_offset)
                return
            self._apply_delete(said, record.segment_id)
            if record.segment_id != NO_SEGMENT:
                self._apply_to_segment(said, record)

    def _apply_delete(self, said: Payload | Event, segment_id: int) -> None:
        if isinstance(said, Tier2DeleteQueued):
            self._deletes[said.key] = PendingDelete(said.key, segment_id)
        elif isinstance(said, Tier2Deleted):
            self._deletes.pop(said.key, None)

    def _apply_to_segment(self, said: Payload | Event, record: ManifestRecord) -> None:
        entry = self._entries.get(record.segment_id)
        if entry is None:
            if type(said) not in _BEGINNINGS:
                return
            entry = SegmentEntry(record.segment_id)
        entry = _TRANSITIONS[type(said)](entry, said, record)
        if _is_forgotten(entry):
            self._forget(entry.segment_id)
        else:
            self._keep(entry)

    def _keep(self, entry: SegmentEntry) -> None:
        if entry.segment_id not in self._entries:
            insort(self._ids, entry.segment_id)
        self._entries[entry.segment_id] = entry
        for name, is_watched in _WATCHED.items():
            if is_watched(entry):
                self._watched[name][entry.segment_id] = entry
            else:
                self._watched[name].pop(entry.segment_id, None)

    def _forget(self, segment_id: int) -> None:
        if self._entries.pop(segment_id, None) is not None:
            self._ids.remove(segment_id)
        for entries in self._watched.values():
            entries.pop(segment_id, None)

    # --- asking -------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """Below it nothing may be read any more."""
        return self._start_offset

    @property
    def segments(self) -> list[SegmentEntry]:
        """All segments, ascending."""
        with self._mutex:
            return [self._entries[segment_id] for segment_id in self._ids]

    def segment(self, segment_id: int) -> SegmentEntry | None:
        return self._entries.get(segment_id)

    def segments_from(self, offset: int, limit: int | None = None) -> list[SegmentEntry]:
        """The segment that contains the offset, as far as base offsets tell, and those behind it."""
        with self._mutex:
            first = max(0, bisect_right(self._ids, offset) - 1)
            ids = self._ids[first : None if limit is None else first + limit]
            return [self._entries[segment_id] for segment_id in ids]

    @property
    def pending_uploads(self) -> list[SegmentEntry]:
        """Begun or failed, and not done."""
        return self._watching("uploads")

    @property
    def pending_deletes(self) -> list[PendingDelete]:
        """Objects that were to be deleted; those of segments and, with NO_SEGMENT, the manifest's own."""
        with self._mutex:
            return [self._deletes[key] for key in sorted(self._deletes)]

    @property
    def pending_hydrations(self) -> list[SegmentEntry]:
        """Begun, and neither done nor failed."""
        return self._watching("hydrations")

    @property
    def needing_repair(self) -> list[SegmentEntry]:
        """Segments of which an object is missing or not what was uploaded."""
        return self._watching("repairs")

    @property
    def unopened(self) -> list[SegmentEntry]:
        """Segments that are spoken of and were never opened."""
        return self._watching("unopened")

    def _watching(self, name: str) -> list[SegmentEntry]:
        with self._mutex:
            return [entry for _, entry in sorted(self._watched[name].items())]
