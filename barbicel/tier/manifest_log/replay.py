"""From chunks and snapshots to a catalogue, wherever they lie.

Its invariant: a catalogue is given only if it follows from an unbroken row of records: from the first one
ever, or from a whole snapshot. Anything else is CorruptManifest; an unreadable manifest never counts as an
empty one. Nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from barbicel.codecs.aof2_manifest import (
    CHUNK_HEADER_BYTES,
    ChunkHeader,
    PlacedRecord,
    decode_chunk,
)
from barbicel.codecs.aof2_payloads import SnapshotMarker
from barbicel.codecs.manifest_snapshot import ManifestSnapshot, decode_manifest_snapshot
from barbicel.errors import BarbicelError, CorruptFile, CorruptManifest, UnknownVersion
from barbicel.tier.catalogue import Catalogue

__all__ = [
    "Replayed",
    "ReplayedChunk",
    "Source",
    "Start",
    "newest_snapshot",
    "read_snapshot",
    "replay",
    "walk_chunks",
]


_NOTHING_DAMAGED: Mapping[int, CorruptFile] = {}


class Source(Protocol):
    """A place that holds chunks and snapshots: a directory, or an object store. Numbers ascend."""

    @property
    def chunks(self) -> Sequence[int]: ...

    @property
    def snapshots(self) -> Sequence[int]: ...

    def read_chunk(self, chunk_index: int) -> bytes:
        """All bytes of a chunk that is there."""

    def read_snapshot(self, snapshot_id: int) -> bytes: ...

    def chunk_name(self, chunk_index: int) -> str:
        """Its path or key, for errors."""

    def snapshot_name(self, snapshot_id: int) -> str: ...


class ReplayedChunk(NamedTuple):
    """A chunk whose every record was read."""

    header: ChunkHeader
    record_count: int
    size: int


class Replayed(NamedTuple):
    """A catalogue, and where its log goes on."""

    catalogue: Catalogue
    # What the replay began with.
    snapshot: ManifestSnapshot | None
    # Newer ones, that could not be used.
    damaged_snapshots: dict[int, CorruptFile]
    chunks: list[ReplayedChunk]
    next_chunk: int
    next_record: int
    # Chunk index and snapshot id of every marker that was met, in order.
    markers: list[tuple[int, int]]
    # How many records the snapshot does not hold.
    record_count: int


def replay(source: Source, stream_id: str) -> Replayed:
    """Raises CorruptManifest, or UnknownVersion, naming the place; nothing is given out then."""
    snapshot, damaged = newest_snapshot(source, stream_id)
    start = Start.behind(snapshot)
    catalogue = Catalogue(None if snapshot is None else snapshot.catalogue)
    chunks: list[ReplayedChunk] = []
    markers: list[tuple[int, int]] = []
    next_chunk, next_record, applied = start.chunk_index, start.record or 0, 0
    for chunk, records in walk_chunks(source, start, damaged):
        for placed in records:
            _apply(catalogue, placed, chunk.header.chunk_index, source)
            if isinstance(placed.record.payload, SnapshotMarker):
                markers.append((chunk.header.chunk_index, placed.record.payload.snapshot_id))
        applied += len(records)
        chunks.append(chunk)
        next_chunk, next_record = chunk.header.chunk_index + 1, chunk.header.base_record + chunk.record_count
    return Replayed(catalogue, snapshot, damaged, chunks, next_chunk, next_record, markers, applied)


def _apply(catalogue: Catalogue, placed: PlacedRecord, chunk_index: int, source: Source) -> None:
    try:
        catalogue.apply(placed.record)
    except CorruptFile as error:
        raise CorruptManifest(
            error.message,
            chunk_index=chunk_index,
            segment_id=placed.record.segment_id,
            logical_offset=placed.record.logical_offset,
            path=source.chunk_name(chunk_index),
            position=placed.position,
        ) from error


def newest_snapshot(source: Source, stream_id: str) -> tuple[ManifestSnapshot | None, dict[int, CorruptFile]]:
    """The newest whole snapshot, and the newer ones that are none. Raises UnknownVersion."""
    damaged: dict[int, CorruptFile] = {}
    for snapshot_id in reversed(source.snapshots):
        try:
            return read_snapshot(source, snapshot_id, stream_id), damaged
        except UnknownVersion:
            raise  # a newer program was here: whatever is older says too little
        except CorruptFile as error:
            damaged[snapshot_id] = error
    return None, damaged


def read_snapshot(source: Source, snapshot_id: int, stream_id: str) -> ManifestSnapshot:
    """Raises CorruptFile, with the path."""
    try:
        snapshot = decode_manifest_snapshot(source.read_snapshot(snapshot_id))
        if (snapshot.stream_id, snapshot.snapshot_id) != (stream_id, snapshot_id):
            raise CorruptFile(f"this is snapshot {snapshot.snapshot_id} of {snapshot.stream_id!r}")
    except CorruptFile as error:
        error.path = source.snapshot_name(snapshot_id)
        raise
    return snapshot


class Start(NamedTuple):
    """Where a walk begins: a byte in a chunk, and the number of the record there if it is known."""

    chunk_index: int
    position: int = CHUNK_HEADER_BYTES
    record: int | None = None

    @classmethod
    def behind(cls, snapshot: ManifestSnapshot | None) -> Start:
        if snapshot is None:
            return cls(0, record=0)
        return cls(snapshot.chunk_index, snapshot.chunk_offset, snapshot.next_record)


def walk_chunks(
    source: Source, start: Start, damaged: Mapping[int, CorruptFile] = _NOTHING_DAMAGED
) -> Iterator[tuple[ReplayedChunk, list[PlacedRecord]]]:
    """Every chunk from a start on, unbroken and whole, with its records from there on."""
    indexes = [index for index in source.chunks if index >= start.chunk_index]
    _check_row(source, indexes, start, damaged)
    next_record = start.record
    for index in indexes:
        chunk, records = _read_chunk(source, index, is_last=index == indexes[-1])
        position = start.position if index == start.chunk_index else CHUNK_HEADER_BYTES
        skipped = _skip(source, chunk, records, position)
        found = chunk.header.base_record + skipped
        if next_record not in (None, found):
            reason = f"its records begin with number {found}, expected was {next_record}"
            raise _broken(source, index, reason, 24)
        next_record = chunk.header.base_record + len(records)
        yield chunk, records[skipped:]


def _check_row(source: Source, indexes: list[int], start: Start, damaged: Mapping[int, CorruptFile]) -> None:
    """No chunk may be missing between the start and the last one."""
    because = "".join(f"; snapshot {number} is of no use: {error}" for number, error in damaged.items())
    for expected, index in enumerate(indexes, start.chunk_index):
        if index != expected:
            raise _broken(source, expected, f"the chunk is missing, chunk {index} is there{because}")
    # A snapshot is followed by its marker: where there is a newer one, even a damaged one, there are records.
    if not indexes and (start.position > CHUNK_HEADER_BYTES or damaged):
        raise _broken(source, start.chunk_index, f"the chunk is missing{because}")


def _read_chunk(source: Source, index: int, *, is_last: bool) -> tuple[ReplayedChunk, list[PlacedRecord]]:
    try:
        data = source.read_chunk(index)
        header, records = decode_chunk(data, index)
    except BarbicelError as error:
        error.path = error.path or source.chunk_name(index)
        raise
    if not header.is_sealed and not is_last:
        raise _broken(source, index, "it is not sealed, and chunks follow", 56)
    return ReplayedChunk(header, len(records), len(data)), records


def _skip(source: Source, chunk: ReplayedChunk, records: list[PlacedRecord], position: int) -> int:
    """How many records lie before a position, which must be where one begins or the last one ends."""
    places = [*(placed.position for placed in records), chunk.header.committed_len]
    if position not in places:
        reason = f"byte {position}, up to which a snapshot goes, begins no record"
        raise _broken(source, chunk.header.chunk_index, reason, position)
    return places.index(position)


def _broken(source: Source, index: int, reason: str, position: int | None = None) -> CorruptManifest:
    return CorruptManifest(reason, chunk_index=index, path=source.chunk_name(index), position=position)
