"""The sparse index of one segment: offset → file position, kept as the bytes that lie on the disk.

An entry is a hint, never the truth: whoever follows one checks that the record there has its offset.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from typing import NamedTuple

from barbicel.codecs.keratin_format import INDEX_ENTRY

__all__ = ["IndexHit", "SparseIndex"]


class IndexHit(NamedTuple):
    offset: int
    position: int


class SparseIndex:
    """Entries in ascending order, without the file header."""

    __slots__ = ("_rel_offsets", "base_offset", "entries")

    def __init__(self, base_offset: int, entries: bytes = b"") -> None:
        self.base_offset = base_offset
        self.entries = bytearray(entries)
        self._rel_offsets = _first_column(entries)

    def __len__(self) -> int:
        return len(self._rel_offsets)

    def __getitem__(self, number: int) -> IndexHit:
        rel_offset, _, position = INDEX_ENTRY.unpack_from(self.entries, number * INDEX_ENTRY.size)
        return IndexHit(self.base_offset + rel_offset, position)

    def add(self, offset: int, position: int) -> None:
        # The entry before its number: a reader in another thread finds nothing half done.
        self.entries += INDEX_ENTRY.pack(offset - self.base_offset, 0, position)
        self._rel_offsets.append(offset - self.base_offset)

    def floor(self, offset: int) -> IndexHit | None:
        """The last entry at or below the offset."""
        above = bisect_right(self._rel_offsets, offset - self.base_offset)
        return self[above - 1] if above else None

    def above(self, offset: int) -> IndexHit | None:
        """The first entry above the offset."""
        above = bisect_right(self._rel_offsets, offset - self.base_offset)
        return self[above] if above < len(self) else None

    def cut(self, offset: int) -> None:
        """Drop every entry above the offset."""
        above = bisect_right(self._rel_offsets, offset - self.base_offset)
        del self.entries[above * INDEX_ENTRY.size :], self._rel_offsets[above:]

    def is_ascending(self) -> bool:
        """Whether offsets and positions only grow, as they must for `floor` to mean anything."""
        last_offset, last_position = -1, -1
        for rel_offset, _, position in INDEX_ENTRY.iter_unpack(self.entries):
            if rel_offset <= last_offset or position <= last_position:
                return False
            last_offset, last_position = rel_offset, position
        return True


def _first_column(entries: bytes) -> array[int]:
    """The rel_offset of every entry, as native numbers that can be searched without decoding."""
    words = array("I", entries)
    if sys.byteorder == "little":
        words.byteswap()
    return words[:: INDEX_ENTRY.size // words.itemsize]
