"""A stream's manifest on this machine: the catalogue and the log that it follows from, kept together.

Its invariant: the catalogue is what the log's records make of it, in their order. What `commit` has returned
for survives a power cut; what was only appended may be lost, from its end on. A commit that fails stops the
stream: nobody knows then what is on the disk, until it is opened again.

Thread-safe. Whoever opens it for writing holds the lock of the data directory: it has none of its own, so
that a stream at rest costs no open file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self, TypeVar

from barbicel.clock import Clock, steady_clock_ms, wall_clock_ms
from barbicel.closing import Closing
from barbicel.codecs.aof2_events import decode_event
from barbicel.codecs.aof2_manifest import ChunkHeader, ManifestRecord, encode_record
from barbicel.codecs.aof2_payloads import CustomEvent, SnapshotMarker
from barbicel.codecs.manifest_snapshot import (
    SNAPSHOT_MAX_BYTES,
    ManifestSnapshot,
    encode_manifest_snapshot,
)
from barbicel.disk import Disk, read_file, replace_file
from barbicel.errors import BarbicelError, LogClosed, LogStopped
from barbicel.tier.manifest_log.chunk_log import ChunkLog, LogEnd
from barbicel.tier.manifest_log.layout import snapshot_path, temporary_path
from barbicel.tier.manifest_log.recovery import Survey, mend, steadily, survey
from barbicel.tier.manifest_log.retention import evictable_chunks, evictable_snapshots
from barbicel.tier.manifest_log.settings import ManifestSettings

__all__ = ["LocalStream"]

_T = TypeVar("_T")


class LocalStream(Closing):
    """See the module. The `manifest_…` attributes are counters and gauges for whoever exports them."""

    def __init__(
        self,
        directory: str,
        stream_id: str,
        disk: Disk,
        clock: Clock,
        settings: ManifestSettings,
        found: Survey,
        *,
        is_read_only: bool,
    ) -> None:
        self.directory = directory
        self.stream_id = stream_id
        self.settings = settings
        self.catalogue = found.replayed.catalogue
        # Of chunks that a snapshot makes unnecessary, and of snapshots that an older one replaced.
        self.damage = [*found.damage, *found.replayed.damaged_snapshots.values()]
        self.trimmed_bytes = sum(trim.size - trim.committed_len for trim in found.trims)
        self.manifest_replay_seconds = 0.0
        self.manifest_crc_error_count = len(self.damage)
        self.manifest_upload_retry_count = 0
        # Held while the object store is asked; never while this one's own lock is.
        self.store_mutex = threading.Lock()
        # Snapshots that are known to be in the object store.
        self.remote_snapshots: set[int] = set()
        self._disk = disk
        self._clock = clock
        self._mutex = threading.RLock()
        self._log = ChunkLog(disk, directory, settings, found)
        self._snapshots = list(found.snapshots)
        self._damaged_snapshots = set(found.replayed.damaged_snapshots)
        self._newest = found.replayed.snapshot
        self._markers = list(found.replayed.markers)
        self._records_since_snapshot = found.replayed.record_count
        self._refusal: Callable[[], BarbicelError] | None = None
        if is_read_only:
            self._refusal = lambda: LogStopped("the stream is open for reading only", path=directory)

    @classmethod
    def open(
        cls,
        directory: str,
        *,
        stream_id: str,
        disk: Disk,
        clock: Clock = wall_clock_ms,
        settings: ManifestSettings | None = None,
        read_only: bool = False,
    ) -> Self:
        """Replay what is there; a directory that is not there is an empty stream, made when it is needed.

        Raises CorruptManifest or UnknownVersion if the catalogue cannot be known; nothing is changed then.
        """
        started_ms = steady_clock_ms()
        if read_only:
            found = steadily(disk, directory, lambda: survey(disk, directory, stream_id))
        else:
            found = survey(disk, directory, stream_id)
            mend(disk, found)
        stream = cls(
            directory, stream_id, disk, clock, settings or ManifestSettings(), found, is_read_only=read_only
        )
        stream.manifest_replay_seconds = (steady_clock_ms() - started_ms) / 1000
        return stream

    # --- writing ------------------------------------------------------------------------------------

    def append(self, *records: ManifestRecord) -> None:
        """Put records into the log, all of them into one commit, and apply them. Not durable yet.

        Raises ValueError, CorruptFile or RecordTooLarge for what cannot be written, and DiskError for a full
        disk; then nothing has changed, unless the stream is stopped.
        """
        if not records:
            return
        with self._mutex:
            now_ms = self._clock()
            stamped = [
                record if record.timestamp_ms else record._replace(timestamp_ms=now_ms) for record in records
            ]
            encoded = [encode_record(record) for record in stamped]
            for record in stamped:
                if isinstance(record.payload, CustomEvent):
                    decode_event(record.payload)
            self._guard(lambda: self._log.append(encoded, now_ms))
            for record in stamped:
                self.catalogue.apply(record)
            self._records_since_snapshot += len(stamped)

    def commit(self) -> None:
        """On return everything appended survives a power cut. Raises DiskError, and the stream is stopped."""
        with self._mutex:
            self._guard(lambda: self._log.commit(self._clock()))

    def seal(self) -> bool:
        """Commit, and seal the chunk that is written, so that it can be uploaded; False if there is none."""
        with self._mutex:
            return self._guard(lambda: self._log.seal(self._clock()))

    def maintain(self) -> None:
        """What is due: seal by time, a snapshot, and forget what is uploaded and covered."""
        with self._mutex:
            if self._refusal is not None:
                raise self._refusal()
            if self._log.is_rotation_due(self._clock()):
                self.seal()
            if self._is_snapshot_due():
                self.snapshot()
            self._forget()

    def _is_snapshot_due(self) -> bool:
        covered = 0 if self._newest is None else self._newest.chunk_index
        # The marker of the last one is a record too, but a stream that says nothing else is at rest.
        if self._records_since_snapshot <= 1:
            return False
        sealed_since = sum(index >= covered for index in self._log.sealed)
        return (
            self._records_since_snapshot >= self.settings.snapshot_records
            or sealed_since >= self.settings.snapshot_chunks
        )

    def snapshot(self) -> ManifestSnapshot:
        """Write the catalogue beside the log, then a marker. On return both are durable.

        The order is the promise: commit → snapshot durable → marker → commit. A crash leaves at worst a
        snapshot without its marker, which is as good.
        """
        with self._mutex:
            self.commit()
            end = self._log.end
            taken = ManifestSnapshot(
                self.stream_id,
                max(self._snapshots, default=0) + 1,
                self._clock(),
                *end,
                self.catalogue.image(),
            )
            path = snapshot_path(self.directory, taken.snapshot_id)
            if not self._disk.exists(self.directory):
                self._disk.make_directory(self.directory)
            replace_file(self._disk, temporary_path(path), path, [encode_manifest_snapshot(taken)])
            self._snapshots.append(taken.snapshot_id)
            self._newest = taken
            self._records_since_snapshot = 0
            marker = SnapshotMarker(end.chunk_index, end.chunk_offset, taken.snapshot_id)
            self.append(ManifestRecord(marker, logical_offset=end.next_record))
            self._markers.append((self._log.end.chunk_index, taken.snapshot_id))
            self.commit()
            return taken

    def _forget(self) -> None:
        covered = 0 if self._newest is None else self._newest.chunk_index
        for index in evictable_chunks(self._log.sealed, covered):
            self._log.evict(index)
        for snapshot_id in evictable_snapshots(self._snapshots, self._damaged_snapshots):
            self._disk.unlink(snapshot_path(self.directory, snapshot_id))
            self._snapshots.remove(snapshot_id)

    def close(self) -> None:
        """Commit and let go; a stream that is closed, stopped or read only just lets go."""
        with self._mutex:
            try:
                if self._refusal is None:
                    self.commit()
            finally:
                self._refusal = lambda: LogClosed("the stream is closed", path=self.directory)
                self._log.close()

    def _guard(self, write: Callable[[], _T]) -> _T:
        if self._refusal is not None:
            raise self._refusal()
        try:
            return write()
        finally:
            if not self._log.is_sound:
                self._stop()

    def _stop(self) -> None:
        reason = LogStopped(
            "an earlier write failed: what is on the disk is not known",
            path=self.directory,
            hint="open it again",
        )
        self._refusal = lambda: reason
        with suppress(BarbicelError):
            self._log.close()

    # --- asking -------------------------------------------------------------------------------------

    @property
    def end(self) -> LogEnd:
        """The place behind the last record."""
        with self._mutex:
            return self._log.end

    @property
    def is_stopped(self) -> bool:
        return self._refusal is not None

    @property
    def manifest_chunks_active(self) -> int:
        """Chunks with an open, mapped file: 0 or 1."""
        return self._log.open_chunks

    @property
    def snapshot_created_ms(self) -> int | None:
        return None if self._newest is None else self._newest.created_ms

    # --- for the object store's side ----------------------------------------------------------------

    def sealed_chunks(self) -> dict[int, ChunkHeader]:
        """The sealed chunks on this disk, ascending."""
        with self._mutex:
            return dict(self._log.sealed)

    def read_chunk(self, chunk_index: int) -> bytes:
        """A sealed chunk as it lies on the disk. Raises KeyError if it was evicted."""
        with self._mutex:
            return self._log.read_sealed(chunk_index)

    def mark_uploaded(self, chunk_index: int, *, is_uploaded: bool = True) -> None:
        with self._mutex:
            self._guard(lambda: None)
            if chunk_index in self._log.sealed:
                self._log.mark_uploaded(chunk_index, is_uploaded=is_uploaded)

    def snapshot_ids(self) -> list[int]:
        """The snapshots on this disk that are not known to be damaged, ascending."""
        with self._mutex:
            return [number for number in sorted(self._snapshots) if number not in self._damaged_snapshots]

    def read_snapshot(self, snapshot_id: int) -> bytes:
        with self._mutex:
            return read_file(self._disk, snapshot_path(self.directory, snapshot_id), SNAPSHOT_MAX_BYTES)

    def latest_marker(self, chunk_index: int) -> int:
        """The id of the last snapshot that is marked up to the end of a chunk; 0 if none is known."""
        with self._mutex:
            return max((number for index, number in self._markers if index <= chunk_index), default=0)
