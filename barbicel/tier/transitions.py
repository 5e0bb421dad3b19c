"""What happens to a segment, as records of the manifest log: the one place that knows what each field means.

A segment's id is its base offset. `logical_offset` is that too, but for SealSegment (the last offset) and
LocalEvicted (the last durable byte).
"""

from __future__ import annotations

from enum import IntEnum

from barbicel.codecs.aof2_events import (
    Event,
    RepairReason,
    SegmentDescribed,
    SegmentNeedsRepair,
    SegmentRepaired,
    StartOffsetMoved,
    encode_event,
)
from barbicel.codecs.aof2_manifest import ManifestRecord
from barbicel.codecs.aof2_payloads import (
    CompressionDone,
    CompressionFailed,
    CompressionStarted,
    HydrationDone,
    HydrationFailed,
    HydrationStarted,
    LocalEvicted,
    Payload,
    SealSegment,
    SegmentOpened,
    Tier2Deleted,
    Tier2DeleteQueued,
    UploadDone,
    UploadFailed,
    UploadStarted,
)

__all__ = [
    "Reason",
    "compressed",
    "compressing",
    "compression_failed",
    "damaged",
    "delete_queued",
    "deleted",
    "evicted",
    "hydrated",
    "hydrating",
    "hydration_failed",
    "mended",
    "opened",
    "sealed",
    "start_moved",
    "upload_failed",
    "uploaded",
    "uploading",
]

# There is one broker, and it has always led.
EPOCH = 0
NO_DICTIONARY = 0
OBJECT_STORE = 2


class Reason(IntEnum):
    """Why something failed, in the records of failures."""

    STORE_AWAY = 1  # worth trying again soon
    STORE_REFUSED = 2  # somebody has to mend it
    DAMAGED = 3  # the local segment cannot be read whole
    DISK = 4  # the local disk
    NOT_VERIFIED = 5  # what the store has is not what was sent


def opened(base_offset: int) -> ManifestRecord:
    return _of(base_offset, SegmentOpened(base_offset, EPOCH))


def sealed(base_offset: int, end_offset: int, durable_bytes: int, crc64: int) -> ManifestRecord:
    return ManifestRecord(SealSegment(durable_bytes, crc64), base_offset, end_offset - 1)


def compressing(base_offset: int, job_id: int) -> ManifestRecord:
    return _of(base_offset, CompressionStarted(job_id))


def compressed(base_offset: int, compressed_bytes: int) -> ManifestRecord:
    return _of(base_offset, CompressionDone(compressed_bytes, NO_DICTIONARY))


def compression_failed(base_offset: int, reason: Reason) -> ManifestRecord:
    return _of(base_offset, CompressionFailed(reason))


def uploading(base_offset: int, key: str) -> ManifestRecord:
    return _of(base_offset, UploadStarted(key))


def uploaded(
    base_offset: int, key: str, etag: str, description: SegmentDescribed
) -> tuple[ManifestRecord, ManifestRecord]:
    """Both or none: to be appended by one call, and committed together."""
    return _event(base_offset, description), _of(base_offset, UploadDone(key, etag))


def upload_failed(base_offset: int, key: str, reason: Reason) -> ManifestRecord:
    return _of(base_offset, UploadFailed(key, reason))


def evicted(base_offset: int, log_bytes: int) -> ManifestRecord:
    return ManifestRecord(LocalEvicted(log_bytes), base_offset, log_bytes)


def hydrating(base_offset: int) -> ManifestRecord:
    return _of(base_offset, HydrationStarted(OBJECT_STORE))


def hydrated(base_offset: int, resident_bytes: int) -> ManifestRecord:
    return _of(base_offset, HydrationDone(resident_bytes))


def hydration_failed(base_offset: int, reason: Reason) -> ManifestRecord:
    return _of(base_offset, HydrationFailed(reason))


def delete_queued(base_offset: int, key: str) -> ManifestRecord:
    return _of(base_offset, Tier2DeleteQueued(key))


def deleted(base_offset: int, key: str) -> ManifestRecord:
    return _of(base_offset, Tier2Deleted(key))


def damaged(base_offset: int) -> ManifestRecord:
    """Somebody has read the object, and it is not sound."""
    return _event(base_offset, SegmentNeedsRepair(RepairReason.OBJECT_CORRUPT))


def mended(base_offset: int, reason: RepairReason) -> ManifestRecord:
    return _event(base_offset, SegmentRepaired(reason))


def start_moved(start_offset: int) -> ManifestRecord:
    return ManifestRecord(encode_event(StartOffsetMoved(start_offset)), logical_offset=start_offset)


def _of(base_offset: int, payload: Payload) -> ManifestRecord:
    return ManifestRecord(payload, base_offset, base_offset)


def _event(base_offset: int, event: Event) -> ManifestRecord:
    return _of(base_offset, encode_event(event))
