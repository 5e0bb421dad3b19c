"""The crash campaign of a manifest stream: what is committed is there, in its order, and nothing twice."""

from __future__ import annotations

from random import Random

from barbicel.codecs.aof2_events import SegmentDescribed, StartOffsetMoved, encode_event
from barbicel.codecs.aof2_manifest import CHUNK_HEADER_BYTES, ManifestRecord
from barbicel.codecs.aof2_payloads import (
    CustomEvent,
    HydrationStarted,
    LocalEvicted,
    SealSegment,
    SegmentOpened,
    Tier2Deleted,
    Tier2DeleteQueued,
    UploadDone,
    UploadStarted,
)
from barbicel.codecs.manifest_snapshot import CatalogueImage
from barbicel.tier.catalogue import Catalogue
from barbicel.tier.manifest_log.local_stream import LocalStream
from barbicel.tier.manifest_log.settings import ManifestSettings
from tests.crash.crashing import CrashCampaign
from tests.crash.promises import BrokenPromise
from tests.support.fault_disk import FaultDisk
from tests.support.faults import Call
from tests.support.inodes import Fate

__all__ = ["ManifestCampaign"]

ROOT = "/tier/t-0"
# Small enough that rotations by size and by time, growth, snapshots and evictions happen all the time.
SETTINGS = ManifestSettings(
    chunk_capacity_bytes=16 << 10, rotation_period_ms=150, snapshot_records=40, snapshot_chunks=3
)


class ManifestCampaign(CrashCampaign):
    """Appends, commits, seals, uploads, snapshots, evicts and reopens a stream of small chunks."""

    every_byte_share = 0.03
    few_places = 4
    second_crash_calls = 12

    def __init__(self, seed: int, states: int) -> None:
        super().__init__(seed, states)
        # The catalogue after each record that was ever appended: history[n] is after n of them.
        self._model = Catalogue()
        self._history: list[CatalogueImage] = [self._model.image()]
        self._base = 0  # records before history[0]
        self._committed = 0
        self._stream: LocalStream | None = None

    # --- the workload -------------------------------------------------------------------------------

    def _open(self, disk: FaultDisk) -> LocalStream:
        return LocalStream.open(
            ROOT, stream_id="t-0", disk=disk, clock=lambda: self._now_ms, settings=SETTINGS
        )

    def _step(self) -> None:
        stream = self._stream = self._stream or self._open(self._disk)
        self._now_ms += self._work.randrange(60)
        step = self._work.choices(
            (self._append, self._commit, self._maintain, self._snapshot, self._upload, self._reopen),
            weights=(20, 8, 8, 1, 4, 2),
        )[0]
        step(stream)

    def _append(self, stream: LocalStream) -> None:
        records = _records(self._work)
        for record in records:
            self._note(record)
        stream.append(*records)
        if self._work.random() < 0.5:
            self._commit(stream)

    def _note(self, record: ManifestRecord) -> None:
        self._model.apply(record)
        self._history.append(self._model.image())

    @property
    def _appended(self) -> int:
        return self._base + len(self._history) - 1

    def _note_markers(self, stream: LocalStream) -> None:
        """A snapshot appends a record of its own, which changes no catalogue."""
        while self._appended < stream.end.next_record:
            self._history.append(self._model.image())

    def _note_committed(self, stream: LocalStream) -> None:
        self._note_markers(stream)
        self._committed = self._appended
        # What lies before is never allowed again.
        del self._history[: self._committed - self._base]
        self._base = self._committed

    def _commit(self, stream: LocalStream) -> None:
        stream.commit()
        self._note_committed(stream)

    def _maintain(self, stream: LocalStream) -> None:
        self._history.append(self._model.image())  # the marker that it may write
        stream.maintain()
        del self._history[-1]
        self._note_markers(stream)
        if stream.manifest_chunks_active == 0:
            self._note_committed(stream)

    def _snapshot(self, stream: LocalStream) -> None:
        self._history.append(self._model.image())
        stream.snapshot()
        del self._history[-1]
        self._note_committed(stream)

    def _upload(self, stream: LocalStream) -> None:
        for index, header in stream.sealed_chunks().items():
            if not header.is_uploaded:
                stream.mark_uploaded(index)

    def _reopen(self, stream: LocalStream) -> None:
        stream.close()
        self._note_committed(stream)
        self._stream = None

    # --- the crashes --------------------------------------------------------------------------------

    def _is_turn(self, path: str) -> bool:
        return ".mlog" in path

    def _look(self, call: Call) -> None:
        # A header is one write within one sector and one page: a disk and a kernel do all of it or nothing.
        is_header = call.operation == "write" and len(call.data) == CHUNK_HEADER_BYTES
        super()._look(call._replace(data=b"") if is_header else call)

    def _reopen_all(self, disk: FaultDisk) -> None:
        self._open(disk).maintain()

    def _examine(self, disk: FaultDisk, fate: Fate) -> None:
        stream = self._open(disk)
        found = stream.end.next_record
        self._check(stream, found)
        records = _records(self._fates)
        model = Catalogue(stream.catalogue.image())
        for record in records:
            model.apply(record)
        stream.append(*records)
        if self._fates.random() < 0.3:
            stream.snapshot()
        stream.commit()
        end = stream.end.next_record
        again = self._open(disk.crash(self._fates.choice(list(Fate)), self._fates))
        if again.catalogue.image() != model.image() or again.end.next_record != end:
            raise BrokenPromise(f"{len(records)} records committed behind {found} are not there")
        if again.damage:
            raise BrokenPromise(f"a crash is no damage: {again.damage}")
        again.seal()
        again.snapshot()
        again.close()

    def _check(self, stream: LocalStream, found: int) -> None:
        """Everything committed, perhaps more of what was appended, and that without a gap."""
        if stream.damage:
            raise BrokenPromise(f"a crash is no damage: {stream.damage}")
        if not self._committed <= found <= self._appended:
            # A restart that crashed may have left a marker of its own.
            if found != self._appended + 1 or stream.catalogue.image() != self._history[-1]:
                raise BrokenPromise(f"{found} records, not {self._committed} to {self._appended}")
            return
        images = {self._history[count - self._base] for count in (found, max(self._base, found - 1))}
        if stream.catalogue.image() not in images:
            raise BrokenPromise(f"the catalogue is not what {found} records make of it")


def _records(random: Random) -> list[ManifestRecord]:
    """What a segment's life is made of, in an order that no tier would have."""
    found = []
    for _ in range(random.choice((1, 1, 2, 4))):
        segment_id = random.randrange(12) * 100
        key = f"n/t/0/segment-{segment_id:020d}.kfs"
        payload = random.choice(
            (
                SegmentOpened(segment_id, random.randrange(9)),
                SealSegment(random.randrange(1 << 40), random.randrange(1 << 64)),
                UploadStarted(key),
                UploadDone(key, f"etag-{random.randrange(99)}"),
                encode_event(SegmentDescribed(segment_id + 100, 5, 100, 9, 8, 7, True)),
                encode_event(StartOffsetMoved(random.randrange(500))),
                LocalEvicted(random.randrange(1 << 20)),
                HydrationStarted(2),
                Tier2DeleteQueued(key),
                Tier2Deleted(key),
                CustomEvent(77, bytes(random.choice((1, 30, 300, 3000, 3000, 20_000)))),
            )
        )
        found.append(ManifestRecord(payload, segment_id, random.randrange(1 << 40)))
    return found
