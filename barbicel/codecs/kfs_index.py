"""`.index`, the sparse index beside a `.kfs`: where in the file the batch with an offset begins. Big-endian.

Owns its bytes and which batches get an entry: the first, then each that begins `interval` messages or more
after the last one that has an entry. docs/formats/kfs.md draws it. The format has no CRC: an entry is
believed only when the batch at its position has its offset.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from itertools import chain, pairwise

from barbicel.codecs.kfs import KFS_HEADER_BYTES
from barbicel.disk import Bytes
from barbicel.errors import CorruptFile, UnknownVersion

__all__ = [
    "INDEX_ENTRY_BYTES",
    "INDEX_HEADER_BYTES",
    "INDEX_INTERVAL_MESSAGES",
    "IndexBuilder",
    "KfsIndex",
    "decode_index",
    "encode_index",
]

MAGIC = b"IDX\0"
# KafScale's documents have this one, its programs the other.
DOCUMENTED_MAGIC = b"IDX\n"
VERSION = 1
HEADER = struct.Struct(
    ">"
    "4s"  # magic
    "H"  # version
    "i"  # entry count
    "i"  # interval
    "H"  # reserved
)
ENTRY = struct.Struct(
    ">"
    "q"  # offset
    "i"  # position
)
INDEX_HEADER_BYTES = HEADER.size
INDEX_ENTRY_BYTES = ENTRY.size
VERSION_AT, COUNT_AT, INTERVAL_AT, RESERVED_AT = 4, 6, 10, 14
INDEX_INTERVAL_MESSAGES = 100


@dataclass(slots=True)
class KfsIndex:
    """Offsets of batches and their positions in the file, both rising, at least one."""

    offsets: array[int]
    positions: array[int]
    interval: int

    def __len__(self) -> int:
        return len(self.offsets)

    def locate(self, offset: int) -> int:
        """The position of the last batch with an entry that begins at or below the offset, else the first."""
        return self.positions[max(bisect_right(self.offsets, offset) - 1, 0)]


class IndexBuilder:
    """Told of every batch in its order, it chooses those that get an entry."""

    def __init__(self, interval: int = INDEX_INTERVAL_MESSAGES) -> None:
        self.index = KfsIndex(array("q"), array("q"), interval)
        self._messages_since = interval

    def note(self, base_offset: int, position: int, message_count: int) -> None:
        if self._messages_since >= self.index.interval:
            self.index.offsets.append(base_offset)
            self.index.positions.append(position)
            self._messages_since = 0
        self._messages_since += message_count


def encode_index(index: KfsIndex) -> bytes:
    header = HEADER.pack(MAGIC, VERSION, len(index), index.interval, 0)
    entries = chain.from_iterable(zip(index.offsets, index.positions, strict=True))
    return header + struct.pack(">" + "qi" * len(index), *entries)


def decode_index(data: Bytes) -> KfsIndex:
    """Raises CorruptFile unless every byte is accounted for and could have been written."""
    count, interval = _decode_header(data)
    offsets, positions = array("q"), array("q")
    for offset, position in ENTRY.iter_unpack(memoryview(data)[INDEX_HEADER_BYTES:]):
        offsets.append(offset)
        positions.append(position)
    if offsets[0] < 0 or positions[0] != KFS_HEADER_BYTES:
        message = f"the first entry is offset {offsets[0]} at byte {positions[0]}"
        raise CorruptFile(message, position=INDEX_HEADER_BYTES)
    _check_rising(offsets, "offset")
    _check_rising(positions, "position")
    assert len(offsets) == count
    return KfsIndex(offsets, positions, interval)


def _decode_header(data: Bytes) -> tuple[int, int]:
    """The count, checked against the bytes that are there, and the interval."""
    if len(data) < INDEX_HEADER_BYTES:
        raise CorruptFile(f"a header has {INDEX_HEADER_BYTES} bytes, here are {len(data)}", position=0)
    magic, version, count, interval, reserved = HEADER.unpack_from(data)
    if magic not in (MAGIC, DOCUMENTED_MAGIC):
        raise CorruptFile(f"magic {magic!r} is not {MAGIC!r}", position=0)
    if version != VERSION:
        raise UnknownVersion(f"version {version} is not known", position=VERSION_AT)
    if reserved:
        raise UnknownVersion(f"what {reserved:#06x} means is not known", position=RESERVED_AT)
    if count < 1 or len(data) != INDEX_HEADER_BYTES + count * INDEX_ENTRY_BYTES:
        raise CorruptFile(f"{count} entries in {len(data)} bytes", position=COUNT_AT)
    if interval < 1:
        raise CorruptFile(f"interval {interval}", position=INTERVAL_AT)
    return count, interval


def _check_rising(numbers: array[int], name: str) -> None:
    for entry, (before, number) in enumerate(pairwise(numbers), 1):
        if number <= before:
            at = INDEX_HEADER_BYTES + entry * INDEX_ENTRY_BYTES
            raise CorruptFile(f"{name} {number} follows {before}", position=at)
