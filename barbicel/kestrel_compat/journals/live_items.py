"""The items of a replayed queue, read from its files when they are asked for.

Items lie in their files mostly one behind the other, so the files are read in pieces. What was true in the
replay is checked again: a file that was changed since must not give what never was an item.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import overload

from barbicel.closing import Closing
from barbicel.codecs.kestrel_journal import Bad, Entry, decode_entry
from barbicel.codecs.kestrel_journal_format import (
    ADDX_HEAD,
    ADDX_MIN_SIZE,
    HEAD_BYTES_MAX,
    MAX_SIZE,
    SIZE_BYTES,
)
from barbicel.disk import File
from barbicel.errors import CorruptFile
from barbicel.kestrel_compat.journals.places import split_place
from barbicel.kestrel_compat.journals.queue import JournalFile, JournalItem, LargeItem, OpenFile

__all__ = ["JournalItems"]

# How much is read at once: little where items are far apart, more with each piece that follows another.
_MIN_PIECE_BYTES = 4 << 10
_MAX_PIECE_BYTES = 1 << 20
_PIECE_GROWTH = 4

# The tuple's own constructor is Python, and this is done for every item.
_new = tuple.__new__


class JournalItems(Sequence[JournalItem]):
    """Places as the items that are there. A slice is again one of these, and reads nothing."""

    def __init__(
        self,
        files: Sequence[JournalFile],
        open_file: OpenFile,
        places: Sequence[int],
        chosen: range | None = None,
        *,
        max_item_bytes: int = MAX_SIZE,
    ) -> None:
        """What has more than `max_item_bytes` is given as a LargeItem."""
        self._files = files
        self._open_file = open_file
        self._places = places
        self._chosen = range(len(places)) if chosen is None else chosen
        self._max_item_bytes = max_item_bytes

    def __len__(self) -> int:
        return len(self._chosen)

    @property
    def places(self) -> array[int]:
        """Where they are, see places.py: with the files, all that somebody else needs to read them."""
        return array("q", (self._places[index] for index in self._chosen))

    @overload
    def __getitem__(self, index: int) -> JournalItem: ...
    @overload
    def __getitem__(self, index: slice) -> JournalItems: ...
    def __getitem__(self, index: int | slice) -> JournalItem | JournalItems:
        if isinstance(index, slice):
            chosen, most = self._chosen[index], self._max_item_bytes
            return JournalItems(self._files, self._open_file, self._places, chosen, max_item_bytes=most)
        with _ItemReader(self._files, self._open_file, self._max_item_bytes) as reader:
            return reader.read(self._places[self._chosen[index]])

    def __iter__(self) -> Iterator[JournalItem]:
        places = self._places
        with _ItemReader(self._files, self._open_file, self._max_item_bytes) as reader:
            for index in self._chosen:
                yield reader.read(places[index])


class _ItemReader(Closing):
    """One file open at a time, and a piece of it in memory."""

    def __init__(self, files: Sequence[JournalFile], open_file: OpenFile, max_item_bytes: int) -> None:
        self._files = files
        self._open_file = open_file
        self._max_item_bytes = max_item_bytes
        self._max_size = max_item_bytes + ADDX_MIN_SIZE
        self._number = -1
        self._file: File | None = None
        self._piece = b""
        self._start = 0
        self._piece_bytes = _MIN_PIECE_BYTES

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._number, self._piece = None, -1, b""

    def read(self, place: int) -> JournalItem:
        number, position = split_place(place)
        piece, at = self._piece, position - self._start
        if number == self._number and 0 <= at <= len(piece) - HEAD_BYTES_MAX and piece[at] == 2:  # ADDX
            _, size, added_ms, expiry_ms = ADDX_HEAD.unpack_from(piece, at)
            end = at + SIZE_BYTES + size
            if ADDX_MIN_SIZE <= size <= self._max_size and end <= len(piece):
                data = piece[at + ADDX_HEAD.size : end]
                name = self._files[number].name
                return _new(JournalItem, (data, added_ms, expiry_ms or None, name, position))
        return self._read_any(number, position)

    def _read_any(self, number: int, position: int) -> JournalItem:
        """An item of any opcode, in the piece or not."""
        file = self._files[number]
        if number != self._number:
            self._open(number)
        entry = self._decode(file, position)
        if entry is None:
            self._fill(position)
            entry = self._decode(file, position)
        if not isinstance(entry, Entry) or not entry.data_position:
            raise _changed(file, position)
        added_ms = file.modified_ms if entry.added_ms is None else entry.added_ms
        if entry.data_size > self._max_item_bytes:
            large = LargeItem(b"", added_ms, entry.expiry_ms, file.name, position)
            large.size_bytes = entry.data_size
            return large
        return JournalItem(self._data(file, entry), added_ms, entry.expiry_ms, file.name, position)

    def _open(self, number: int) -> None:
        self.close()
        self._file = self._open_file(self._files[number].name)
        self._number = number
        self._start = 0

    def _decode(self, file: JournalFile, position: int) -> Entry | Bad | None:
        """None if the piece does not have the entry, apart from data that are longer than any piece."""
        at = position - self._start
        if not 0 <= at < len(self._piece):
            return None
        entry = decode_entry(self._piece, at, position, file.size)
        if isinstance(entry, Entry) and at and at + entry.size > len(self._piece):
            return None
        return entry

    def _fill(self, position: int) -> None:
        follows = 0 <= position - self._start <= len(self._piece) + self._piece_bytes
        grown = min(self._piece_bytes * _PIECE_GROWTH, _MAX_PIECE_BYTES)
        self._piece_bytes = grown if follows and self._piece else _MIN_PIECE_BYTES
        self._piece = self._pread(self._piece_bytes, position)
        self._start = position

    def _data(self, file: JournalFile, entry: Entry) -> bytes:
        at = entry.data_position - self._start
        data = self._piece[at : at + entry.data_size]
        missing = entry.data_size - len(data)
        if missing:
            # No more than the file has: the decoder has compared that.
            data += self._pread(missing, entry.data_position + len(data))
        if len(data) < entry.data_size:
            raise _changed(file, entry.position)
        return data

    def _pread(self, size: int, position: int) -> bytes:
        assert self._file is not None
        return self._file.pread(size, position)


def _changed(file: JournalFile, position: int) -> CorruptFile:
    return CorruptFile(
        "there is no item any more where one was when the journal was replayed",
        path=file.name,
        position=position,
        hint="stop Kestrel, or whatever else changes the file, and begin again",
    )
