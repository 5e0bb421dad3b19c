"""The chunk that is being written: a preallocated, mapped file.

Owns the order in which its bytes become durable. Its invariant: a header on the disk never speaks of bytes
that are not there.

    records into the mapping → fdatasync → the 64 header bytes by one pwrite → fdatasync

Before the first commit the file has a temporary name, which no reader believes, so that one sync is enough:

    records, header → fdatasync → rename → fsync of the directory

After an error nothing is tried again: whoever owns the chunk abandons it.
"""

from __future__ import annotations

from barbicel.codecs.aof2_manifest import (
    CHUNK_HEADER_BYTES,
    CHUNK_MAX_BYTES,
    FLAG_SEALED,
    ChunkHeader,
    encode_chunk_header,
)
from barbicel.codecs.crc64 import crc64_nvme
from barbicel.disk import Disk, File, MappedFile, parent
from barbicel.errors import RecordTooLarge
from barbicel.tier.manifest_log.layout import chunk_path, temporary_path

__all__ = ["GROWTH_BYTES", "ActiveChunk", "grown_bytes"]

GROWTH_BYTES = 64 << 10


def grown_bytes(capacity_bytes: int, wanted_bytes: int) -> int:
    """How large a chunk has to be made for one append: in steps, up to a limit."""
    if wanted_bytes > CHUNK_MAX_BYTES:
        raise RecordTooLarge(
            f"{wanted_bytes - CHUNK_HEADER_BYTES} bytes do not fit a chunk of {CHUNK_MAX_BYTES}"
        )
    steps = max(0, -(-(wanted_bytes - capacity_bytes) // GROWTH_BYTES))
    return min(CHUNK_MAX_BYTES, capacity_bytes + steps * GROWTH_BYTES)


class ActiveChunk:
    """See the module. Not thread-safe."""

    def __init__(self, disk: Disk, file: File, header: ChunkHeader, record_count: int, size: int) -> None:
        self._disk = disk
        self._file = file
        self._header = header
        # Preallocated first: a mapped write to a hole on a full disk ends the process.
        file.preallocate(size)
        self._mapped: MappedFile = file.map(size)
        self._tail = header.committed_len
        self._crc64 = header.chunk_crc64
        self.record_count = record_count
        # When it was last committed or, before that, first written.
        self.touched_ms: int | None = None

    @classmethod
    def create(cls, disk: Disk, directory: str, chunk_index: int, base_record: int, size: int) -> ActiveChunk:
        """A new chunk under its temporary name."""
        path = temporary_path(chunk_path(directory, chunk_index))
        header = ChunkHeader(chunk_index, base_record, CHUNK_HEADER_BYTES, CHUNK_HEADER_BYTES, 0)
        file = disk.open(path, "create")
        try:
            return cls(disk, file, header, 0, size)
        except BaseException:
            # Most likely the disk is full. Nothing was written, so that it may be tried again.
            file.close()
            disk.unlink(path)
            raise

    @classmethod
    def resume(
        cls, disk: Disk, directory: str, header: ChunkHeader, record_count: int, size: int
    ) -> ActiveChunk:
        """A chunk that was committed and not sealed; its file ends where it was committed."""
        file = disk.open(chunk_path(directory, header.chunk_index), "write")
        try:
            return cls(disk, file, header, record_count, max(size, header.committed_len))
        except BaseException:
            file.close()
            raise

    @property
    def chunk_index(self) -> int:
        return self._header.chunk_index

    @property
    def next_record(self) -> int:
        return self._header.base_record + self.record_count

    @property
    def tail(self) -> int:
        return self._tail

    @property
    def is_committed(self) -> bool:
        return self._tail == self._header.committed_len

    def has_room(self, count_bytes: int) -> bool:
        return self._tail + count_bytes <= self._mapped.size

    @property
    def is_empty(self) -> bool:
        return self.record_count == 0

    def write(self, data: bytes, record_count: int, now_ms: int) -> None:
        """Copy whole records behind the others; not durable."""
        self._mapped.write(self._tail, data)
        self._tail += len(data)
        self._crc64 = crc64_nvme(data, self._crc64)
        self.record_count += record_count
        if self.touched_ms is None:
            self.touched_ms = now_ms

    def commit(self, now_ms: int) -> None:
        """On return everything written survives a power cut."""
        if self.is_committed:
            return
        header = self._header._replace(
            tail_offset=self._tail, committed_len=self._tail, chunk_crc64=self._crc64
        )
        if self._header.committed_len == CHUNK_HEADER_BYTES:
            self._commit_first(header)
        else:
            self._file.fdatasync()
            self._file.pwrite(encode_chunk_header(header), 0)
            self._file.fdatasync()
        self._header = header
        self.touched_ms = now_ms

    def _commit_first(self, header: ChunkHeader) -> None:
        self._file.pwrite(encode_chunk_header(header), 0)
        self._file.fdatasync()
        directory = parent(self._file.path)
        self._disk.rename(self._file.path, chunk_path(directory, header.chunk_index))
        self._disk.sync_directory(directory)

    def seal(self, now_ms: int) -> ChunkHeader:
        """Commit, cut the file to its content and mark it; the chunk is closed then, also after an error."""
        try:
            self.commit(now_ms)
            self._mapped.close()
            header = self._header._replace(flags=FLAG_SEALED)
            self._file.pwrite(encode_chunk_header(header), 0)
            self._file.truncate(header.committed_len)
            self._file.fdatasync()
        finally:
            self.close()
        return header

    def close(self) -> None:
        """Let go of it without another write: what is not committed is lost."""
        self._mapped.close()
        self._file.close()
