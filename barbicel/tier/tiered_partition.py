"""One partition whose sealed segments go to an object store: what is where, and the work that keeps it so.

`work` is a pass over everything that may be due, in this order: segments are noted, copied, dropped from the
disk, given up for good, deleted from the store; then the manifest log is kept. Each step goes by what the
manifest says, so that a pass that was cut short anywhere is taken up by the next one.

Readers never wait for a pass. The invariant is theirs: an offset from `start_offset` on is in the log, or in
a segment that the manifest calls uploaded and not deleted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from barbicel.codecs.aof2_events import RepairReason
from barbicel.codecs.aof2_manifest import NO_SEGMENT, ManifestRecord
from barbicel.codecs.kafka.record_batch import decode_header
from barbicel.codecs.manifest_snapshot import Progress, SegmentEntry
from barbicel.errors import (
    BarbicelError,
    CorruptObject,
    ForeignManifest,
    LogBehindStore,
    ObjectMissing,
    OffsetOutOfRange,
)
from barbicel.tier import transitions
from barbicel.tier.back_off import BackOff
from barbicel.tier.cold_reader import TieredSegment
from barbicel.tier.hydrate import Hydrations
from barbicel.tier.local_log import LocalLog, LocalSegment, StoredBatch
from barbicel.tier.manifest_log.reconciliation import differences
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.offload import NothingToUpload, Offload, UploadStopped
from barbicel.tier.policy import Policy, Tier
from barbicel.tier.retention import Held, Limits, end_of_passed
from barbicel.tier.warm import sweep_warm

__all__ = ["Policy", "Tier", "TieredPartition"]

Step: TypeAlias = Callable[[], object]

# A read goes through no more segments than these; whoever wants more asks again.
READ_SEGMENTS = 64
# What is uploaded waits while the reactor is busy, until it would have gone at this rate. If more segments
# than these are left, none waits: then clients write faster than that.
PATIENT_BYTES_A_SECOND = 8 << 20
PATIENT_SEGMENTS = 8


class TieredPartition:
    """Open its stream first: the log may have to begin where that ends. Then `attach` the log."""

    def __init__(
        self, tier: Tier, stream: ManifestStream, directory: str, topic_dir: str, partition: int
    ) -> None:
        self.stream = stream
        self.topic_dir = topic_dir
        self.partition = partition
        self._tier = tier
        self._directory = directory
        self._keys = tier.keys.topic(topic_dir)
        self._catalogue = stream.catalogue
        self.hydrations = Hydrations(stream)
        self._log: LocalLog | None = None
        # One pass at a time; it may wait for the network.
        self._passing = threading.Lock()
        # For what is said in one go; held while the disk is waited for, never longer.
        self._saying = threading.RLock()
        self._is_closing = False
        # Sealed segments that hold nothing, because a repair has given all of it up.
        self._empty: set[int] = set()
        # Those of which the store has something from this disk, or had when it was tried.
        self._own = {
            entry.segment_id for entry in self._catalogue.segments if entry.upload is not Progress.NONE
        }
        self._back_off = BackOff(tier.first_back_off_ms, tier.longest_back_off_ms)
        self._is_reconciled = False
        # Once it is known that the store has the manifest of somebody else; until a restart.
        self._foreign: ForeignManifest | None = None
        # Whether all that is in the store of the manifest was looked through.
        self._is_compacted = False
        # What was found when the store was held against the manifest, until somebody takes it.
        self._findings: list[str] = []
        # Since the start, for whoever watches.
        self.uploaded_bytes = self.failed_uploads = 0
        self._tiered: tuple[SegmentEntry, ...] = ()
        self._look_again()

    def attach(self, log: LocalLog) -> None:
        """Raises LogBehindStore if the log would give out offsets that the store has."""
        end_offset = self._tiered[-1].end_offset if self._tiered else 0
        if log.end_offset < end_offset:
            raise LogBehindStore(
                f"the log ends at offset {log.end_offset}, and the object store has all up to {end_offset}",
                path=log.path,
                hint="restore the newer log, or move this one away: it begins anew where the store ends",
            )
        self._log = log
        sweep_warm(self._tier.disk, self._directory)

    @property
    def log(self) -> LocalLog:
        assert self._log is not None
        return self._log

    def stop(self) -> None:
        """A pass that is under way ends after its step, or within an upload, and no other begins."""
        self._is_closing = True

    def close(self) -> None:
        """A pass that is under way ends after its step. The stream is closed, the log is not."""
        self.stop()
        with self._passing, self._saying:
            self.stream.close()

    # --- what is where ------------------------------------------------------------------------------

    def _look_again(self) -> None:
        # One at a time: an older look must not take the place of a newer one.
        with self._saying:
            start = self._catalogue.start_offset
            self._tiered = tuple(
                entry for entry in self._catalogue.segments if entry.is_tiered and entry.end_offset > start
            )

    @property
    def start_offset(self) -> int:
        """The first offset that can be read, wherever it is."""
        local = self.log.start_offset
        first = min(local, self._tiered[0].base_offset) if self._tiered else local
        return max(first, self._catalogue.start_offset)

    @property
    def end_offset(self) -> int | None:
        """Behind the last one that the store has, or had before it was deleted; None if it never had one."""
        return self._tiered[-1].end_offset if self._tiered else self._catalogue.start_offset or None

    @property
    def tiered(self) -> Sequence[SegmentEntry]:
        """The segments that the store has, ascending."""
        return self._tiered

    # --- reading ------------------------------------------------------------------------------------

    def read(self, offset: int, end_offset: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview]:
        """Whole batches from the one that contains the offset on, as far as the store has them.

        Raises OffsetOutOfRange, and what ColdReader.read does.
        """
        segments = [self._in_store(entry) for entry in self._behind(offset)]
        if offset < self.start_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.log.end_offset, self.log.path)
        if not segments:
            return []
        first = segments[0]
        try:
            with self.hydrations.of(first.base_offset, first.object_bytes):
                return self._read_twice(segments, offset, end_offset, max_bytes, at_least_one)
        except ObjectMissing:
            if offset < self.start_offset:  # it was deleted meanwhile
                raise OffsetOutOfRange(
                    offset, self.start_offset, self.log.end_offset, self.log.path
                ) from None
            raise

    def _read_twice(
        self,
        segments: Sequence[TieredSegment],
        offset: int,
        end_offset: int,
        max_bytes: int,
        at_least_one: bool,
    ) -> list[memoryview]:
        """What seems damaged is asked for again, for the network may have done it. Then it is marked."""
        read = partial(
            self._tier.reader.read, segments, offset, end_offset, max_bytes, at_least_one=at_least_one
        )
        try:
            return read()
        except CorruptObject as error:
            segment = next(segment for segment in segments if segment.key == error.key)
            entry = self._catalogue.segment(segment.base_offset)
            if entry is None or entry.repair is not RepairReason.NONE:
                raise
            self._tier.reader.forget(segment)
        try:
            return read()
        except CorruptObject:
            with suppress(BarbicelError):  # the reader hears of the damage, whatever becomes of the mark
                self._say(transitions.damaged(segment.base_offset))
            raise

    def _say(self, *records: ManifestRecord) -> None:
        """Durably."""
        with self._saying:
            self.stream.append(*records)
            self.stream.commit()
            self._look_again()

    def _behind(self, offset: int) -> Sequence[SegmentEntry]:
        tiered = self._tiered
        low, high = 0, len(tiered)
        while low < high:
            middle = (low + high) // 2
            if tiered[middle].end_offset <= offset:
                low = middle + 1
            else:
                high = middle
        return tiered[low : low + READ_SEGMENTS]

    def _in_store(self, entry: SegmentEntry) -> TieredSegment:
        assert entry.description is not None  # it comes with UploadDone
        return TieredSegment(
            key=entry.key,
            index_key=self._keys.index(self.partition, entry.segment_id),
            base_offset=entry.base_offset,
            end_offset=entry.end_offset,
            object_bytes=entry.description.object_bytes,
            etag=entry.etag,
        )

    def from_time(self, timestamp_ms: int, below_offset: int) -> Iterator[StoredBatch]:
        """Batches of the store, in order, that may be as late as this; none that is behind the offset."""
        for entry in self._tiered:
            if entry.base_offset >= below_offset:
                return
            if entry.description is None or entry.description.max_timestamp_ms < timestamp_ms:
                continue
            for batch in self._batches(entry):
                header = decode_header(batch)
                if header.base_offset >= below_offset:
                    return
                if header.max_timestamp >= timestamp_ms:
                    yield StoredBatch(header.base_offset, header.max_timestamp, batch)

    def _batches(self, entry: SegmentEntry) -> Iterator[memoryview]:
        """Of one that is deleted meanwhile, as many as there were time for."""
        try:
            yield from self._tier.reader.batches(self._in_store(entry))
        except ObjectMissing:
            if entry.end_offset > self.start_offset:
                raise

    def max_timestamp_ms(self, below_offset: int) -> int:
        """The highest timestamp in the store below an offset, -1 if there is none."""
        times = [
            entry.description.max_timestamp_ms
            for entry in self._tiered
            if entry.description is not None and entry.base_offset < below_offset
        ]
        return max(times, default=-1)

    # --- changing -----------------------------------------------------------------------------------

    def work(self, policy: Policy, *, has_store: bool, first: Step = lambda: None) -> list[BarbicelError]:
        """Do what is due; returns what went wrong. A pass that finds another one under way does nothing.

        Without a store whatever needs none is done. `first` is a step of the pass that the caller has: when
        this is closed it is over, or never begins.
        """
        if not self._passing.acquire(blocking=False):
            return []
        try:
            return self._work(policy, has_store, first)
        finally:
            self._passing.release()

    def _work(self, policy: Policy, has_store: bool, first: Step) -> list[BarbicelError]:
        copying: list[Step] = [self._copy_all, lambda: self._evict(policy.on_disk)]
        with_store: list[Step] = [
            self._reconcile,
            first,
            *(copying if policy.is_copied else []),
            self._delete_queued,
            self._keep_manifest,
        ]
        return [
            *self._take([self.log.seal_if_due, self._note_evicted, lambda: self._give_up(policy.of_all)]),
            *(self._take_with_store(with_store) if has_store else []),
            *self._take([self.stream.maintain]),
        ]

    def _take(self, steps: Sequence[Step]) -> list[BarbicelError]:
        problems = []
        for step in steps:
            if self._is_closing:
                break
            try:
                step()
            except BarbicelError as error:
                problems.append(error)
        return problems

    def _take_with_store(self, steps: Sequence[Step]) -> list[BarbicelError]:
        """None of them once the store turned out to have another's manifest: objects may be that one's."""
        problems: list[BarbicelError] = []
        for step in steps:
            if self._foreign is None:
                found = self._take([step])
                problems += found
                self._foreign = next((one for one in found if isinstance(one, ForeignManifest)), None)
        return problems or ([] if self._foreign is None else [self._foreign])

    def flush(self, policy: Policy, *, first: Step = lambda: None) -> list[BarbicelError]:
        """Seal what is open and copy everything, whoever failed just now. Waits for a pass under way."""
        with self._passing:
            self._back_off.succeeded()
            # In the end the manifest, so that the store alone tells all of it.
            problems = [
                *self._take([self.log.seal]),
                *self._work(policy, has_store=True, first=first),
                *self._take([self.stream.seal]),
                *self._take_with_store([self._keep_manifest]),
            ]
            return list(dict.fromkeys(problems))

    @property
    def is_foreign(self) -> bool:
        """Whether the store has the manifest of somebody else, so that nothing is changed there."""
        return self._foreign is not None

    @property
    def pending(self) -> list[LocalSegment]:
        """Sealed segments that the store does not have yet, or has not whole."""
        return [segment for segment in self.log.sealed() if self._is_pending(segment)]

    def _is_pending(self, segment: LocalSegment) -> bool:
        entry = self._catalogue.segment(segment.base_offset)
        if segment.end_offset <= self._catalogue.start_offset or segment.base_offset in self._empty:
            return False
        return entry is None or entry.upload is not Progress.DONE or entry.repair is not RepairReason.NONE

    def _copy_all(self) -> None:
        offload = Offload(
            store=self._tier.store,
            keys=self._keys,
            partition=self.partition,
            stream=self.stream,
            log=self.log,
            disk=self._tier.disk,
            directory=self._directory,
            codec=self._tier.codec,
            clock=self._tier.clock,
            check_store=self._tier.check_store,
            check_open=self._check_open,
            own=self._own,
        )
        pending = self.pending
        for left, segment in zip(range(len(pending), 0, -1), pending, strict=True):
            if self._is_closing or not self._back_off.is_due(self._tier.clock()):
                return
            self._copy(offload, segment, is_patient=left <= PATIENT_SEGMENTS)

    def _give_way(self, size_bytes: int) -> None:
        """While clients are served, uploads take little of the machine; but a disk must not fill up."""
        if self._tier.foreground is not None:
            seconds = size_bytes / PATIENT_BYTES_A_SECOND
            self._tier.foreground.give_way(seconds, self._has_no_time, time.sleep)
        self._check_open()

    def _has_no_time(self) -> bool:
        return self._is_closing or self._tier.is_hurried()

    def _check_open(self) -> None:
        if self._is_closing:
            raise UploadStopped("this partition is being closed", path=self.log.path)

    def _copy(self, offload: Offload, segment: LocalSegment, *, is_patient: bool) -> None:
        try:
            offload.copy(segment, self._give_way if is_patient else lambda _: self._check_open())
        except NothingToUpload:
            self._empty.add(segment.base_offset)
            return
        except UploadStopped:
            return
        except BarbicelError:
            self.failed_uploads += 1
            self._back_off.failed(self._tier.clock())
            raise
        finally:
            self._look_again()
        self.uploaded_bytes += segment.size_bytes
        self._back_off.succeeded()

    # --- leaving the disk -----------------------------------------------------------------------------

    def _evict(self, limits: Limits) -> None:
        """Only what the store has, verified."""
        held = [self._held_here(segment) for segment in self.log.sealed()]
        boundary = end_of_passed(held, self.log.active_bytes, limits, self._tier.clock())
        if boundary is not None and boundary > self.log.start_offset:
            self.log.drop_before(boundary)
            self._note_evicted()

    def _held_here(self, segment: LocalSegment) -> Held:
        entry = self._catalogue.segment(segment.base_offset)
        is_safe = entry is not None and entry.is_tiered and entry.repair is RepairReason.NONE
        return Held(
            segment.end_offset,
            segment.size_bytes,
            self._max_timestamp_ms(segment, entry),
            is_safe or segment.base_offset in self._empty,
        )

    def _max_timestamp_ms(self, segment: LocalSegment, entry: SegmentEntry | None) -> int:
        if entry is not None and entry.description is not None:
            return entry.description.max_timestamp_ms
        return self.log.max_timestamp_ms(segment)

    def _note_evicted(self) -> None:
        """Also of those that a crash kept from being noted when they went."""
        local_start = self.log.start_offset
        held = {segment.base_offset for segment in self.log.sealed()}
        gone = [
            entry
            for entry in self._catalogue.segments
            if entry.is_local
            # Where one ends that is not sealed in the manifest, nobody knows: no try has come so far.
            and (entry.end_offset <= local_start if entry.is_sealed else entry.base_offset not in held)
        ]
        for entry in gone:
            self.stream.append(transitions.evicted(entry.segment_id, entry.durable_bytes))
        if gone:
            self.stream.commit()
            self._look_again()

    # --- going for good -------------------------------------------------------------------------------

    def _give_up(self, limits: Limits) -> None:
        """What the topic's retention does not keep any more, wherever it is."""
        end_offset = self.end_offset or 0
        held = [Held(entry.end_offset, entry.durable_bytes, _latest_ms(entry)) for entry in self._tiered]
        held += [
            self._held_here(segment)._replace(may_go=True)
            for segment in self.log.sealed()
            if segment.end_offset > end_offset
        ]
        boundary = end_of_passed(held, self.log.active_bytes, limits, self._tier.clock())
        if boundary is not None and boundary > self.start_offset:
            self.drop_before(boundary)
        # Also what a crash, or a failure, kept from leaving the disk when it was given up: nobody uploads it.
        start = min(self._catalogue.start_offset, self.log.end_offset)
        if start > self.log.start_offset:
            self.log.drop_before(start)

    def drop_before(self, offset: int) -> None:
        """Nothing below the offset can be read any more, durably; what the store has of it goes by and by."""
        with self._saying:
            if offset <= self.start_offset:
                return
            self._say(transitions.start_moved(offset))

    def _queue_deletes(self) -> None:
        """Also of what an upload that failed may have left, or one that was under way."""
        start = self._catalogue.start_offset
        for entry in self._catalogue.segments:
            # Where one ends that was never sealed is not known while the log has it.
            is_below = entry.end_offset <= start if entry.is_sealed else not entry.is_local
            if is_below and entry.key and not entry.is_delete_queued:
                self.stream.append(transitions.delete_queued(entry.segment_id, entry.key))
        self.stream.commit()

    def _delete_queued(self) -> None:
        """The manifest knows before an object goes, so that none is forgotten, and none is read any more."""
        self._queue_deletes()
        queued = [pending for pending in self._catalogue.pending_deletes if pending.segment_id != NO_SEGMENT]
        try:
            for pending in queued:
                self._tier.store.delete(self._keys.index(self.partition, pending.segment_id))
                self._tier.store.delete(pending.key)
                self.stream.append(transitions.deleted(pending.segment_id, pending.key))
        finally:
            if queued:
                self.stream.commit()
                self._look_again()

    def _keep_manifest(self) -> None:
        """For a partition at rest nothing is asked of the store: there may be thousands, and lists cost."""
        self._upload_manifest()
        if not self._is_compacted:
            self.stream.compact(self._tier.store, self._tier.keys)
            self._is_compacted = True

    def _upload_manifest(self) -> None:
        is_news = True  # also if it fails half-way
        try:
            is_news = self.stream.upload(self._tier.store, self._tier.keys) > 0
        finally:
            self._is_compacted = self._is_compacted and not is_news

    def _reconcile(self) -> None:
        """Once after a start: does the store have what the manifest says?"""
        if not self._is_reconciled:
            self._upload_manifest()
            found = self.stream.reconcile(self._tier.store, self._tier.keys)
            for entry in self._catalogue.needing_repair:
                self._look_at_damaged(entry)
            self._findings += differences(found, self._catalogue.needing_repair)
            self._is_reconciled = True
            self._look_again()

    def take_findings(self) -> list[str]:
        """What there is to tell of what the store has, once."""
        findings, self._findings = self._findings, []
        return findings

    def _look_at_damaged(self, entry: SegmentEntry) -> None:
        """Somebody may have mended the object: read all of it."""
        if entry.repair is not RepairReason.OBJECT_CORRUPT or not entry.is_tiered:
            return
        with suppress(CorruptObject):
            for _ in self._tier.reader.batches(self._in_store(entry)):
                pass
            self._say(transitions.mended(entry.segment_id, entry.repair))


def _latest_ms(entry: SegmentEntry) -> int:
    return -1 if entry.description is None else entry.description.max_timestamp_ms
