"""What records make of a catalogue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.aof2_events import (
    RepairReason,
    SegmentDescribed,
    SegmentNeedsRepair,
    SegmentRepaired,
    StartOffsetMoved,
    encode_event,
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
from barbicel.errors import CorruptFile
from barbicel.tier.catalogue import Catalogue

KEY = "c/t/3/segment-100.kfs"
DESCRIBED = SegmentDescribed(200, 9, 100, 10, 11, 12, True)


def after(*payloads: Payload, segment_id: int = 100, logical_offset: int = 199) -> Catalogue:
    catalogue = Catalogue()
    for payload in payloads:
        catalogue.apply(ManifestRecord(payload, segment_id, logical_offset, 1))
    return catalogue


def entry_after(*payloads: Payload) -> SegmentEntry:
    entry = after(*payloads).segment(100)
    assert entry is not None
    return entry


OPENED = SegmentOpened(100, 4)
FRESH = SegmentEntry(100, base_offset=100, epoch=4, is_opened=True)
TRANSITIONS: list[tuple[Payload, SegmentEntry]] = [
    (SealSegment(5, 6), FRESH._replace(is_sealed=True, last_offset=199, durable_bytes=5, segment_crc64=6)),
    (CompressionStarted(7), FRESH._replace(compression=Progress.STARTED, job_id=7)),
    (
        CompressionDone(8, 9),
        FRESH._replace(compression=Progress.DONE, compressed_bytes=8, dictionary_id=9),
    ),
    (CompressionFailed(3), FRESH._replace(compression=Progress.FAILED, compression_reason=3)),
    (UploadStarted(KEY), FRESH._replace(upload=Progress.STARTED, key=KEY)),
    (UploadDone(KEY, "e"), FRESH._replace(upload=Progress.DONE, key=KEY, etag="e")),
    (
        UploadFailed(KEY, 5),
        FRESH._replace(upload=Progress.FAILED, key=KEY, upload_reason=5, upload_failures=1),
    ),
    (HydrationStarted(2), FRESH._replace(hydration=Progress.STARTED, source_tier=2)),
    (HydrationDone(3), FRESH._replace(hydration=Progress.DONE, resident_bytes=3)),
    (HydrationFailed(4), FRESH._replace(hydration=Progress.FAILED, hydration_reason=4)),
    (encode_event(DESCRIBED), FRESH._replace(description=DESCRIBED)),
    (
        encode_event(SegmentNeedsRepair(RepairReason.INDEX_MISSING)),
        FRESH._replace(repair=RepairReason.INDEX_MISSING),
    ),
    (SnapshotMarker(1, 2, 3), FRESH),
    (CustomEvent(99, b"somebody else's"), FRESH),
    (Tier2DeleteQueued("another"), FRESH),
    (Tier2Deleted("another"), FRESH),
]


@pytest.mark.parametrize(("payload", "expected"), TRANSITIONS)
def test_what_a_record_makes_of_a_segment(payload: Payload, expected: SegmentEntry) -> None:
    assert entry_after(OPENED, payload) == expected


def test_the_life_of_a_segment_ends_with_nothing() -> None:
    catalogue = Catalogue()

    def apply(payload: Payload) -> SegmentEntry | None:
        catalogue.apply(ManifestRecord(payload, 100, 199, 1))
        return catalogue.segment(100)

    for payload in (OPENED, SealSegment(5, 6), UploadStarted(KEY)):
        apply(payload)
    assert [entry.key for entry in catalogue.pending_uploads] == [KEY]
    apply(encode_event(DESCRIBED))
    entry = apply(UploadDone(KEY, "e"))
    assert entry is not None
    assert entry.is_tiered
    assert entry.end_offset == 200
    assert not catalogue.pending_uploads
    entry = apply(LocalEvicted(5))
    assert entry is not None
    assert not entry.is_local
    entry = apply(Tier2DeleteQueued(KEY))
    assert entry is not None
    assert not entry.is_tiered
    assert catalogue.pending_deletes == [PendingDelete(KEY, 100)]
    assert apply(Tier2Deleted(KEY)) is None
    assert catalogue.image() == CatalogueImage()
    # What comes late says nothing any more.
    for late in (HydrationStarted(2), HydrationFailed(1), LocalEvicted(5), Tier2Deleted(KEY)):
        assert apply(late) is None
    assert catalogue.image() == CatalogueImage()


def test_a_segment_that_is_local_still_outlives_its_object() -> None:
    entry = entry_after(
        OPENED, UploadDone(KEY, "e"), encode_event(DESCRIBED), Tier2DeleteQueued(KEY), Tier2Deleted(KEY)
    )
    assert entry == FRESH


def test_a_segment_that_is_evicted_before_it_was_uploaded_is_forgotten() -> None:
    assert after(OPENED, LocalEvicted(5)).segments == []


def test_failures_are_counted_until_an_upload_goes_well() -> None:
    failed: list[Payload] = [
        UploadStarted(KEY),
        UploadFailed(KEY, 1),
        UploadStarted(KEY),
        UploadFailed(KEY, 2),
    ]
    catalogue = after(OPENED, *failed)
    (entry,) = catalogue.pending_uploads
    assert (entry.upload_failures, entry.upload_reason) == (2, 2)
    assert entry_after(OPENED, *failed, UploadDone(KEY, "e")).upload_failures == 0


def test_marks_for_repair_come_and_go() -> None:
    broken = encode_event(SegmentNeedsRepair(RepairReason.OBJECT_MISSING))
    repaired = encode_event(SegmentRepaired(RepairReason.OBJECT_MISSING))
    done = UploadDone(KEY, "e")
    assert [entry.repair for entry in after(OPENED, done, broken).needing_repair] == [
        RepairReason.OBJECT_MISSING
    ]
    assert after(OPENED, done, broken, repaired).needing_repair == []
    assert after(OPENED, done, broken, done).needing_repair == []  # uploaded anew


def test_records_of_a_segment_that_is_still_to_be_opened_wait_for_it() -> None:
    catalogue = after(UploadDone(KEY, "e"))
    assert [entry.segment_id for entry in catalogue.unopened] == [100]
    catalogue.apply(ManifestRecord(OPENED, 100, 100, 1))
    assert catalogue.unopened == []
    assert entry_after(UploadDone(KEY, "e"), OPENED) == entry_after(OPENED, UploadDone(KEY, "e"))
    # These cannot be about a segment that is still to come.
    assert after(HydrationStarted(1), LocalEvicted(1), Tier2DeleteQueued(KEY)).segments == []


def test_a_hydration_is_pending_once_until_it_ends() -> None:
    started: list[Payload] = [OPENED, HydrationStarted(2), HydrationStarted(2)]
    assert [entry.segment_id for entry in after(*started).pending_hydrations] == [100]
    assert after(*started, HydrationDone(5)).pending_hydrations == []
    assert after(*started, HydrationFailed(5)).pending_hydrations == []


def test_the_start_offset_never_moves_back() -> None:
    moves = [encode_event(StartOffsetMoved(offset)) for offset in (50, 70, 60)]
    catalogue = after(*moves, segment_id=NO_SEGMENT)
    assert catalogue.start_offset == 70
    assert catalogue.segments == []


def test_an_object_without_a_segment_can_be_deleted() -> None:
    catalogue = after(Tier2DeleteQueued("m/0.mlog"), Tier2DeleteQueued("m/1.mlog"), segment_id=NO_SEGMENT)
    assert catalogue.pending_deletes == [
        PendingDelete("m/0.mlog", NO_SEGMENT),
        PendingDelete("m/1.mlog", NO_SEGMENT),
    ]
    catalogue.apply(ManifestRecord(Tier2Deleted("m/0.mlog")))
    assert [pending.key for pending in catalogue.pending_deletes] == ["m/1.mlog"]


def test_an_event_that_cannot_be_read_changes_nothing() -> None:
    catalogue = after(OPENED)
    before = catalogue.image()
    with pytest.raises(CorruptFile):
        catalogue.apply(ManifestRecord(CustomEvent(1, b"short"), 100, 1, 1))
    assert catalogue.image() == before


def test_segments_are_found_by_offset() -> None:
    catalogue = Catalogue()
    for segment_id in (300, 100, 200):
        catalogue.apply(ManifestRecord(SegmentOpened(segment_id, 1), segment_id, segment_id, 1))
    assert [entry.segment_id for entry in catalogue.segments] == [100, 200, 300]
    for offset, expected in ((0, 100), (100, 100), (199, 100), (200, 200), (250, 200), (9999, 300)):
        assert catalogue.segments_from(offset)[0].segment_id == expected
    assert [entry.segment_id for entry in catalogue.segments_from(150, limit=2)] == [100, 200]
    assert Catalogue().segments_from(5) == []


SOME_PAYLOADS = [payload for payload, _ in TRANSITIONS] + [
    OPENED,
    LocalEvicted(1),
    Tier2DeleteQueued(KEY),
    Tier2Deleted(KEY),
    encode_event(StartOffsetMoved(7)),
]
RECORDS = st.builds(
    ManifestRecord, st.sampled_from(SOME_PAYLOADS), st.sampled_from([100, 200, NO_SEGMENT]), st.just(5)
)


@given(st.lists(RECORDS, max_size=30), st.integers(0, 30))
def test_an_image_in_between_changes_nothing(records: list[ManifestRecord], cut: int) -> None:
    """Replay from a snapshot is replay from the beginning."""
    whole, first = Catalogue(), Catalogue()
    for record in records:
        whole.apply(record)
    for record in records[:cut]:
        first.apply(record)
    second = Catalogue(first.image())
    for record in records[cut:]:
        second.apply(record)
    assert second.image() == whole.image()
    for name in ("pending_uploads", "pending_deletes", "pending_hydrations", "needing_repair", "unopened"):
        assert getattr(second, name) == getattr(whole, name)
