"""What a stream's directory holds after a restart, and what has to be mended before it is written to.

`survey` reads and changes nothing; `mend` carries out what it found. What may be mended is what a crash
leaves: temporary files, a tail that was never committed in the one chunk that was being written, a seal that
was not finished. Damage anywhere else is CorruptManifest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from barbicel.codecs.aof2_manifest import (
    CHUNK_HEADER_BYTES,
    CHUNK_MAX_BYTES,
    ChunkHeader,
    decode_chunk_header,
)
from barbicel.codecs.manifest_snapshot import SNAPSHOT_MAX_BYTES
from barbicel.disk import Disk, read_file
from barbicel.errors import BarbicelError, CorruptFile, CorruptManifest
from barbicel.tier.manifest_log.layout import chunk_path, list_files, snapshot_path
from barbicel.tier.manifest_log.replay import Replayed, ReplayedChunk, replay

__all__ = ["DirectorySource", "Survey", "Trim", "mend", "steadily", "survey"]

_T = TypeVar("_T")
LOOKS = 5


class DirectorySource:
    """A stream's local files as a source of replay."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.listing = list_files(disk, directory)

    @property
    def chunks(self) -> Sequence[int]:
        return list(self.listing.chunks)

    @property
    def snapshots(self) -> Sequence[int]:
        return self.listing.snapshots

    def read_chunk(self, chunk_index: int) -> bytes:
        """Raises CorruptManifest for a file that is too large to be a chunk, unread."""
        size = self.listing.chunks[chunk_index]
        if size > CHUNK_MAX_BYTES:
            raise CorruptManifest(
                f"{size} bytes are too many", chunk_index=chunk_index, position=CHUNK_MAX_BYTES
            )
        return read_file(self._disk, self.chunk_name(chunk_index), CHUNK_MAX_BYTES)

    def read_header(self, chunk_index: int) -> ChunkHeader:
        path = self.chunk_name(chunk_index)
        try:
            return decode_chunk_header(read_file(self._disk, path, CHUNK_HEADER_BYTES), chunk_index)
        except CorruptFile as error:
            error.path = path
            raise

    def read_snapshot(self, snapshot_id: int) -> bytes:
        return read_file(self._disk, self.snapshot_name(snapshot_id), SNAPSHOT_MAX_BYTES)

    def chunk_name(self, chunk_index: int) -> str:
        return chunk_path(self._directory, chunk_index)

    def snapshot_name(self, snapshot_id: int) -> str:
        return snapshot_path(self._directory, snapshot_id)


class Trim(NamedTuple):
    """Bytes behind what is committed, to be cut off: nobody was told that they are there."""

    path: str
    committed_len: int
    size: int


class Survey(NamedTuple):
    """What was found, and what `mend` would do."""

    replayed: Replayed
    # The chunk that was being written, if it was not sealed.
    resting: ReplayedChunk | None
    sealed: dict[int, ChunkHeader]
    snapshots: list[int]
    # Of chunks that a snapshot makes unnecessary: they are left as they are.
    damage: list[CorruptFile]
    sweeps: list[str]
    trims: list[Trim]


def survey(disk: Disk, directory: str, stream_id: str) -> Survey:
    """Raises CorruptManifest or UnknownVersion, naming the place. Changes nothing."""
    source = DirectorySource(disk, directory)
    replayed = replay(source, stream_id)
    sealed, damage = _covered(source, replayed)
    sealed |= {chunk.header.chunk_index: chunk.header for chunk in replayed.chunks if chunk.header.is_sealed}
    trims = [
        Trim(source.chunk_name(chunk.header.chunk_index), chunk.header.committed_len, chunk.size)
        for chunk in replayed.chunks
        if chunk.size > chunk.header.committed_len
    ]
    # Only of the last one: a sealed chunk that others follow was cut before they began.
    if len(trims) > 1 or (trims and trims[0].path != source.chunk_name(replayed.next_chunk - 1)):
        raise CorruptManifest("bytes behind the end of a sealed chunk", path=trims[0].path)
    last = replayed.chunks[-1] if replayed.chunks else None
    resting = None if last is None or last.header.is_sealed else last
    return Survey(
        replayed, resting, sealed, source.listing.snapshots, damage, source.listing.temporaries, trims
    )


def steadily(disk: Disk, directory: str, look: Callable[[], _T]) -> _T:
    """What `look` gives of a directory that somebody else may be writing to.

    Files come and go between a listing and a read. So a look counts, its errors too, only if the listing
    was the same before and after; one that changes all the time is believed in the end.
    """
    for _ in range(LOOKS - 1):
        before = list_files(disk, directory)
        try:
            found = look()
        except BarbicelError:
            if list_files(disk, directory) == before:
                raise
        else:
            if list_files(disk, directory) == before:
                return found
    return look()


def _covered(source: DirectorySource, replayed: Replayed) -> tuple[dict[int, ChunkHeader], list[CorruptFile]]:
    """The chunks that replay did not need; what is wrong with them prevents nothing."""
    headers: dict[int, ChunkHeader] = {}
    damage: list[CorruptFile] = []
    needed = {chunk.header.chunk_index for chunk in replayed.chunks}
    for index in source.chunks:
        if index in needed:
            continue
        try:
            header = source.read_header(index)
            if not header.is_sealed:
                raise CorruptManifest("it is not sealed", chunk_index=index, path=source.chunk_name(index))
            headers[index] = header
        except CorruptFile as error:
            damage.append(error)
    return headers, damage


def mend(disk: Disk, found: Survey) -> None:
    """Sweep and trim; what a crash leaves of it is found by the next survey."""
    for path in found.sweeps:
        disk.unlink(path)
    for trim in found.trims:
        file = disk.open(trim.path, "write")
        try:
            file.truncate(trim.committed_len)
            file.fdatasync()
        finally:
            file.close()
