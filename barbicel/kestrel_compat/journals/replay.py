"""Entries to a queue: the replay of a queue's journals.

Files are read in pieces. A piece goes through `fast.apply_run`; where that stops, one entry goes through the
decoder and `QueueState.apply`, which know everything. Both leave the same state behind.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from barbicel.codecs.kestrel_journal import Bad, Entry, Flaw, Op, decode_entries, decode_entry
from barbicel.codecs.kestrel_journal_format import MAX_SIZE
from barbicel.disk import File
from barbicel.kestrel_compat.journals.doubts import Doubts
from barbicel.kestrel_compat.journals.fast import apply_run, count_removes
from barbicel.kestrel_compat.journals.live_items import JournalItems
from barbicel.kestrel_compat.journals.places import EMPTY, check_places, place_of, split_place
from barbicel.kestrel_compat.journals.queue import (
    Doubt,
    DoubtKind,
    JournalFile,
    OpenFile,
    OpenRead,
    ReplayedQueue,
)
from barbicel.kestrel_compat.journals.state import QueueState

__all__ = ["replay"]

PIECE_BYTES = 1 << 20
# Kestrel dates an item before it moves the file that the item is not in any more.
_ROTATION_MS = 1000
_ANY_TIME_MS = -(2**63)

_KIND_OF = {
    Flaw.OPCODE: DoubtKind.DAMAGED,
    Flaw.SIZE: DoubtKind.DAMAGED,
    Flaw.TRUNCATED: DoubtKind.TRUNCATED,
    Flaw.ZEROS: DoubtKind.ZEROS,
}

_EXPLAINED = {
    DoubtKind.SURPLUS: "taken from an empty queue, which changes nothing",
    DoubtKind.EMPTY: "an item without data; in a packed journal it can be a remove that never came",
}


def replay(
    files: Sequence[JournalFile],
    open_file: OpenFile,
    progress: Callable[[int], None] | None = None,
    max_item_bytes: int = MAX_SIZE,
) -> ReplayedQueue:
    """The queue that these files give, read in this order as one journal.

    A bad entry ends its file, is reported, and the next file goes on. `progress` is told the bytes that were
    passed since it was last called, a megabyte or so at a time; their sum is the size of all files. Memory
    is 8 bytes an item and some 100 an open read, whatever the sizes of items. The data of an item of more
    than `max_item_bytes` are never read. Raises DiskError if a file cannot be read.
    """
    check_places(files)
    going = _Replay(files, progress or (lambda passed_bytes: None))
    for number, file in enumerate(files):
        source = open_file(file.name)
        try:
            going.replay_file(number, source)
        finally:
            source.close()
    return going.finish(open_file, max_item_bytes)


class _Replay:
    def __init__(self, files: Sequence[JournalFile], progress: Callable[[int], None]) -> None:
        self._files = tuple(files)
        self._progress = progress
        self._state = QueueState()
        self._doubts = Doubts()
        self._operations = 0

    def replay_file(self, number: int, source: File) -> None:
        file = self._files[number]
        end = self._readable_end(file, source.size())
        position = 0
        while position < end:
            wanted = min(PIECE_BYTES, end - position)
            piece = source.pread(wanted, position)
            if len(piece) < wanted:
                end = self._readable_end(file, position + len(piece))
            following = self._apply_piece(number, source, piece, position, end)
            self._state.trim()
            self._progress(following - position)
            position = following
        self._progress(file.size - position)

    def _readable_end(self, file: JournalFile, size: int) -> int:
        if size != file.size:
            what = f"it has {size:,} bytes, and had {file.size:,} when it was listed"
            self._doubts.add(Doubt(file.name, min(size, file.size), DoubtKind.CHANGED, what))
        return min(size, file.size)

    def _apply_piece(self, number: int, source: File, piece: bytes, position: int, end: int) -> int:
        """Apply what the piece has from its beginning on; returns where the next one should begin."""
        place, oldest_ms = place_of(number, position), self._oldest_ms(number)
        at = 0
        while True:
            at, operations = apply_run(self._state, piece, at, place, end - position, oldest_ms)
            self._operations += operations
            entry = decode_entry(piece, at, position + at, end)
            if entry is None:
                return position + at
            if isinstance(entry, Bad):
                self._refuse(number, entry)
                return end
            if entry.op is Op.REMOVE:
                at += self._remove_run(number, entry, count_removes(piece, at))
                continue
            self._apply(number, entry, oldest_ms)
            at += entry.size
            if entry.op is Op.STATE_DUMP:
                self._check_dump(number, source, entry, end)
                return end

    def _oldest_ms(self, number: int) -> int:
        """When the earliest item of a file can have been added: not before the file in front was rotated."""
        rotated_ms = self._files[number - 1].rotated_ms if number else None
        return _ANY_TIME_MS if rotated_ms is None else rotated_ms - _ROTATION_MS

    def _apply(self, number: int, entry: Entry, oldest_ms: int) -> None:
        if entry.added_ms is not None and entry.added_ms < oldest_ms:
            self._doubt(number, entry.position, DoubtKind.DUPLICATES)
        odd = self._state.apply(entry, place_of(number, entry.position))
        if odd is not None:
            self._doubt(number, entry.position, odd)
        self._operations += 1

    def _remove_run(self, number: int, entry: Entry, count: int) -> int:
        """REMOVEs of which some are surplus, or that stand at the end of a piece; returns their bytes."""
        self._state.named_xid = None
        self._operations += count
        missing = self._state.remove(count)
        if missing:
            self._doubt(number, entry.position + count - missing, DoubtKind.SURPLUS, missing)
        return count

    def _refuse(self, number: int, bad: Bad) -> None:
        file = self._files[number]
        what = f"{bad.reason}; the {file.size - bad.position:,} bytes from here on were not read"
        self._doubts.add(Doubt(file.name, bad.position, _KIND_OF[bad.flaw], what))

    def _doubt(self, number: int, position: int, kind: DoubtKind, count: int = 1) -> None:
        name = self._files[number].name
        what = self._explain(number, kind) if self._doubts.is_listed(name, kind) else ""
        self._doubts.add(Doubt(name, position, kind, what), count)

    def _explain(self, number: int, kind: DoubtKind) -> str:
        if kind is DoubtKind.REOPENED:
            xid, place = self._state.displaced[-1]
            other, position = split_place(place)
            return (
                f"the open read {xid} is opened again; the item at byte {position} of"
                f" {self._files[other].name}, which it had before, is kept"
            )
        if kind is DoubtKind.DUPLICATES:
            before = self._files[number - 1].name
            return (
                f"added before {before} was written: Kestrel was stopped while it put {before} in the place"
                " of this file, whose items are probably in both"
            )
        return _EXPLAINED[kind]

    def _check_dump(self, number: int, source: File, dump: Entry, end: int) -> None:
        """What a state dump repeats is open here as well, and nothing follows it."""
        name = self._files[number].name
        found = 0
        for entry in decode_entries(source.pread, dump.position + dump.size, end):
            if isinstance(entry, Bad):
                self._refuse(number, entry)
                return
            expected = Op.REMOVE_TENTATIVE if found % 2 else Op.ADD_XID
            if entry.op is not expected or found == 2 * dump.pairs:
                self._refuse(number, Bad(entry.position, Flaw.OPCODE, "a state dump ends a file"))
                return
            found += 1
            if entry.xid is not None and entry.xid not in self._state.open:
                what = f"a state dump has an open read {entry.xid}, which was not opened before"
                self._doubts.add(Doubt(name, entry.position, DoubtKind.UNKNOWN_OPEN, what))
        if found < 2 * dump.pairs:
            self._refuse(number, Bad(end, Flaw.TRUNCATED, "a state dump is not complete"))

    def finish(self, open_file: OpenFile, max_item_bytes: int) -> ReplayedQueue:
        places, xids = self._state.finish()
        self._doubt_empty_items(places)
        open_reads = []
        for xid, place in zip(xids, places, strict=False):
            number, position = split_place(place)
            open_reads.append(OpenRead(xid, self._files[number].name, position))
        items = JournalItems(self._files, open_file, places, max_item_bytes=max_item_bytes)
        return ReplayedQueue(self._files, items, tuple(open_reads), self._doubts.all(), self._operations)

    def _doubt_empty_items(self, places: array[int]) -> None:
        """Report items that are marked as empty, and take the marks off."""
        if max(places, default=0) < EMPTY:
            return
        for index, place in enumerate(places):
            if place & EMPTY:
                places[index] = place ^ EMPTY
                self._doubt(*split_place(place), DoubtKind.EMPTY)
