"""Both indexes of one segment: the rule by which they grow, and their files.

The same `note` builds them while records are appended and when they are rebuilt from the log, so that a
rebuilt index is byte for byte the one that was lost.
"""

from __future__ import annotations

import errno

from barbicel.codecs.keratin_format import (
    INDEX,
    INDEX_ENTRY,
    INDEX_HEADER_BYTES,
    TIME_INDEX,
    FileHeader,
    IndexKind,
    decode_index_header,
    encode_index_header,
    encode_index_sums,
)
from barbicel.disk import Disk, Replacement, read_file
from barbicel.errors import CorruptFile, DiskError
from barbicel.keratin.index import SparseIndex
from barbicel.keratin.layout import Layout
from barbicel.keratin.time_index import TimeIndex

__all__ = ["SegmentIndexes", "are_vouched_for", "index_replacements", "read_index", "read_time_index"]

# One entry for every 64 KiB of a segment that is larger than any disk; a larger file is no index.
MAX_INDEX_BYTES = 1 << 30


class SegmentIndexes:
    """The indexes of a segment as far as its records were noted."""

    __slots__ = (
        "_indexed_anything",
        "_stride_bytes",
        "_unindexed_bytes",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "offsets",
        "times",
    )

    def __init__(self, base_offset: int, stride_bytes: int) -> None:
        self.offsets = SparseIndex(base_offset)
        self.times = TimeIndex(base_offset)
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = base_offset
        self._stride_bytes = stride_bytes
        self._unindexed_bytes = 0
        self._indexed_anything = False

    @classmethod
    def resumed(cls, offsets: SparseIndex, times: TimeIndex, stride_bytes: int) -> SegmentIndexes:
        """Go on where these end. The next record to note is the one that the last entry stands for."""
        indexes = cls(offsets.base_offset, stride_bytes)
        last = times.last()
        if last is not None:
            indexes.max_timestamp_ms, indexes.max_timestamp_offset = last
        indexes.offsets, indexes.times = offsets, times
        return indexes

    def note(self, offset: int, position: int, size: int, timestamp_ms: int) -> None:
        """Take a record into account that was appended behind all that were noted before."""
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms, self.max_timestamp_offset = timestamp_ms, offset
        self._unindexed_bytes += size
        if self._unindexed_bytes >= self._stride_bytes or not self._indexed_anything:
            self._indexed_anything = True
            self._unindexed_bytes = 0
            self.offsets.add(offset, position)
            last = self.times.last()
            if last is None or self.max_timestamp_ms > last.timestamp_ms:
                self.times.add(self.max_timestamp_ms, self.max_timestamp_offset)

    @property
    def idx_bytes(self) -> int:
        """The size of the `.idx` file that holds these."""
        return INDEX_HEADER_BYTES + len(self.offsets.entries)


def index_replacements(
    layout: Layout, header: FileHeader, indexes: SegmentIndexes
) -> tuple[Replacement, ...]:
    """The two index files as they should lie on the disk, and the sums that vouch for them."""
    base = header.base_offset
    idx = encode_index_header(INDEX, header) + indexes.offsets.entries
    tidx = encode_index_header(TIME_INDEX, header) + indexes.times.entries
    contents = (
        (layout.index(base), idx),
        (layout.time_index(base), tidx),
        (layout.index_sums(base), encode_index_sums(base, idx, tidx)),
    )
    return tuple(Replacement(layout.temporary(path), path, [data]) for path, data in contents)


def are_vouched_for(disk: Disk, layout: Layout, base_offset: int) -> bool:
    """Whether both index files are, byte for byte, what the last checkpoint or seal wrote."""
    sums, idx, tidx = (
        layout.index_sums(base_offset),
        layout.index(base_offset),
        layout.time_index(base_offset),
    )
    try:
        return _read(disk, sums) == encode_index_sums(base_offset, _read(disk, idx), _read(disk, tidx))
    except CorruptFile:
        return False
    except DiskError as error:
        if error.errno != errno.ENOENT:
            raise
        return False


def read_index(disk: Disk, layout: Layout, base_offset: int) -> SparseIndex:
    """Raises CorruptFile, or DiskError if it cannot be read. A cut last entry is left out."""
    path = layout.index(base_offset)
    index = SparseIndex(base_offset, _read_entries(disk, path, INDEX, base_offset))
    if not index.is_ascending():
        raise CorruptFile("index entries are not in ascending order", path=path)
    return index


def read_time_index(disk: Disk, layout: Layout, base_offset: int) -> TimeIndex:
    """Like `read_index`."""
    path = layout.time_index(base_offset)
    times = TimeIndex(base_offset, _read_entries(disk, path, TIME_INDEX, base_offset))
    if not times.is_ascending():
        raise CorruptFile("time index entries are not in ascending order", path=path)
    return times


def _read(disk: Disk, path: str) -> bytes:
    size = disk.size(path) or 0
    if size > MAX_INDEX_BYTES:
        raise CorruptFile(f"{size} bytes are too many for an index", path=path)
    return read_file(disk, path, MAX_INDEX_BYTES)


def _read_entries(disk: Disk, path: str, kind: IndexKind, base_offset: int) -> bytes:
    data = _read(disk, path)
    try:
        header = decode_index_header(kind, data)
    except CorruptFile as error:
        error.path = path
        raise
    if header.base_offset != base_offset:
        raise CorruptFile(
            f"the header says base offset {header.base_offset}, the name {base_offset}",
            path=path,
            position=16,
        )
    whole = (len(data) - INDEX_HEADER_BYTES) // INDEX_ENTRY.size * INDEX_ENTRY.size
    return data[INDEX_HEADER_BYTES : INDEX_HEADER_BYTES + whole]
