"""All chunks of a stream's directory: one that is written, or rests, and the sealed ones.

Owns rotation. Its invariant: a chunk is sealed, durably, before the next one is begun, and none is ever
empty. A stream at rest holds no open file: the next append opens the resting chunk again, or begins another.

Not thread-safe; whoever owns it lets one thread in at a time. After a failed write or sync (`is_sound` is
False then) nothing more can be written; an error before that, of a full disk, has changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from barbicel.codecs.aof2_manifest import (
    CHUNK_HEADER_BYTES,
    FLAG_SEALED,
    FLAG_UPLOADED,
    ChunkHeader,
    encode_chunk_header,
)
from barbicel.disk import Disk, read_file
from barbicel.tier.manifest_log.active_chunk import ActiveChunk, grown_bytes
from barbicel.tier.manifest_log.layout import chunk_path
from barbicel.tier.manifest_log.recovery import Survey
from barbicel.tier.manifest_log.replay import ReplayedChunk
from barbicel.tier.manifest_log.settings import ManifestSettings

__all__ = ["ChunkLog", "LogEnd"]


class LogEnd(NamedTuple):
    """The place behind the last record."""

    chunk_index: int
    chunk_offset: int
    next_record: int


class ChunkLog:
    """See the module."""

    def __init__(self, disk: Disk, directory: str, settings: ManifestSettings, found: Survey) -> None:
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._active: ActiveChunk | None = None
        self._resting: ReplayedChunk | None = found.resting
        self._rests_since_ms: int | None = None
        self._next_chunk = found.replayed.next_chunk
        self._next_record = found.replayed.next_record
        # By index, ascending.
        self.sealed: dict[int, ChunkHeader] = dict(sorted(found.sealed.items()))
        self.is_sound = True

    # --- writing ------------------------------------------------------------------------------------

    def append(self, encoded: Sequence[bytes], now_ms: int) -> None:
        """Put records behind the others, all of them into one chunk, so that they are committed together.

        Raises RecordTooLarge, and then nothing has changed.
        """
        data = b"".join(encoded)
        size = grown_bytes(self._settings.chunk_capacity_bytes, CHUNK_HEADER_BYTES + len(data))
        chunk = self._open_chunk(len(data), size, now_ms)
        with self._risking():
            chunk.write(data, len(encoded), now_ms)
        self._next_record = chunk.next_record

    def _open_chunk(self, count_bytes: int, size: int, now_ms: int) -> ActiveChunk:
        self._wake()
        if self._active is not None and not self._active.has_room(count_bytes):
            self.seal(now_ms)
        if self._active is None:
            if not self._disk.exists(self._directory):
                self._disk.make_directory(self._directory)
            self._active = ActiveChunk.create(
                self._disk, self._directory, self._next_chunk, self._next_record, size
            )
            self._next_chunk += 1
        return self._active

    def _wake(self) -> None:
        """Open the resting chunk, if there is one."""
        if self._resting is not None:
            header, record_count, _ = self._resting
            self._active = ActiveChunk.resume(
                self._disk, self._directory, header, record_count, self._settings.chunk_capacity_bytes
            )
            self._active.touched_ms = self._rests_since_ms
            self._resting = None

    def commit(self, now_ms: int) -> None:
        """On return every appended record survives a power cut."""
        if self._active is not None:
            with self._risking():
                self._active.commit(now_ms)

    def seal(self, now_ms: int) -> bool:
        """Seal the chunk that is written or rests; False if there is none."""
        if self._resting is not None:
            with self._risking():
                self._set_flags(self._resting.header, self._resting.header.flags | FLAG_SEALED)
            self._resting = None
            return True
        chunk, self._active = self._active, None
        if chunk is None:
            return False
        with self._risking():
            self.sealed[chunk.chunk_index] = chunk.seal(now_ms)
        return True

    @contextmanager
    def _risking(self) -> Iterator[None]:
        """After an error in here nobody knows what is on the disk."""
        self.is_sound = False
        yield
        self.is_sound = True

    def is_rotation_due(self, now_ms: int) -> bool:
        """Whether there is a chunk whose time is over. A chunk always holds a record."""
        if self._resting is not None:
            # Nobody knows for how long it has rested before this process.
            self._rests_since_ms = now_ms if self._rests_since_ms is None else self._rests_since_ms
            since_ms: int | None = self._rests_since_ms
        else:
            since_ms = None if self._active is None else self._active.touched_ms
        return since_ms is not None and now_ms - since_ms >= self._settings.rotation_period_ms

    def close(self) -> None:
        """Let go of the open file; what is not committed is lost."""
        if self._active is not None:
            self._active.close()
            self._active = None

    # --- asking -------------------------------------------------------------------------------------

    @property
    def open_chunks(self) -> int:
        return int(self._active is not None)

    @property
    def end(self) -> LogEnd:
        if self._active is not None:
            return LogEnd(self._active.chunk_index, self._active.tail, self._next_record)
        if self._resting is not None:
            header = self._resting.header
            return LogEnd(header.chunk_index, header.committed_len, self._next_record)
        return LogEnd(self._next_chunk, CHUNK_HEADER_BYTES, self._next_record)

    # --- sealed chunks ------------------------------------------------------------------------------

    def read_sealed(self, chunk_index: int) -> bytes:
        header = self.sealed[chunk_index]
        return read_file(self._disk, chunk_path(self._directory, chunk_index), header.committed_len)

    def mark_uploaded(self, chunk_index: int, *, is_uploaded: bool = True) -> None:
        """Write bit 1 of the header, durably. An error leaves the mark in doubt and nothing else."""
        header = self.sealed[chunk_index]
        self._set_flags(
            header, header.flags | FLAG_UPLOADED if is_uploaded else header.flags & ~FLAG_UPLOADED
        )

    def _set_flags(self, header: ChunkHeader, flags: int) -> None:
        header = header._replace(flags=flags)
        file = self._disk.open(chunk_path(self._directory, header.chunk_index), "write")
        try:
            file.pwrite(encode_chunk_header(header), 0)
            file.fdatasync()
        finally:
            file.close()
        self.sealed[header.chunk_index] = header

    def evict(self, chunk_index: int) -> None:
        """Remove a sealed chunk from the disk."""
        self._disk.unlink(chunk_path(self._directory, chunk_index))
        del self.sealed[chunk_index]
