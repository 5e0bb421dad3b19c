"""Kestrel's journal as bytes: entries, little-endian, without a header and without checksums.

Owns the byte layout and nothing else; docs/formats/kestrel_journal.md draws it. A journal cannot say that
it is damaged, so a decoder believes nothing: sizes are checked against the end of the file before anything
is done with them, and data are never copied here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from barbicel.codecs.kestrel_journal_format import (
    ADD_HEAD,
    ADD_MIN_SIZE,
    ADD_TIME,
    ADD_XID_HEAD,
    ADDX_HEAD,
    ADDX_MIN_SIZE,
    EXPIRATION,
    HEAD_BYTES_MAX,
    MAX_SIZE,
    OPCODE_BYTES,
    SIZE,
    SIZE_BYTES,
    STATE_DUMP_HEAD,
    TIMES,
    XID,
    XID_HEAD,
    YEAR_2500_MS,
    Bad,
    Entry,
    Flaw,
    Op,
)
from barbicel.disk import Bytes

__all__ = [
    "Bad",
    "Entry",
    "Flaw",
    "Op",
    "decode_entries",
    "decode_entry",
    "encode_add",
    "encode_add_xid",
    "encode_addx",
    "encode_confirm_remove",
    "encode_continue",
    "encode_remove",
    "encode_remove_tentative",
    "encode_save_xid",
    "encode_state_dump",
    "encode_unremove",
]

_SIZE_HINT = "the entry says that it has {} bytes, and {} are left in the file"


def decode_entry(view: Bytes, at: int, position: int, end: int) -> Entry | Bad | None:
    """The entry at `view[at]`, which is at `position` of a file that ends at `end`.

    None if it takes more of the file than the view has: HEAD_BYTES_MAX always suffice, or what there is up
    to the end. Data need not be in the view.
    """
    if at >= len(view):
        return None
    decode = _DECODERS.get(view[at])
    if decode is None:
        return Bad(position, Flaw.OPCODE, f"there is no opcode {view[at]}")
    return decode(view, at, position, end)


def decode_entries(
    read: Callable[[int, int], bytes], start: int, end: int, piece_bytes: int = 1 << 16
) -> Iterator[Entry | Bad]:
    """All entries from `start` on, which is the position of one. A Bad is the last.

    `read(size, position)` gives that many bytes of the file; fewer are taken for its end.
    """
    position = start
    while position < end:
        wanted = min(max(piece_bytes, HEAD_BYTES_MAX), end - position)
        piece = read(wanted, position)
        if len(piece) < wanted:
            end = position + len(piece)
        first = position
        while (entry := decode_entry(piece, position - first, position, end)) is not None:
            yield entry
            if isinstance(entry, Bad):
                return
            position += entry.size


def _decode_bare(view: Bytes, at: int, position: int, end: int) -> Entry:
    return Entry(Op(view[at]), position, OPCODE_BYTES)


def _decode_xid(view: Bytes, at: int, position: int, end: int) -> Entry | Bad | None:
    if position + XID_HEAD.size > end:
        return _truncated(position, XID_HEAD.size, end)
    if at + XID_HEAD.size > len(view):
        return None
    op, xid = XID_HEAD.unpack_from(view, at)
    return Entry(Op(op), position, XID_HEAD.size, xid)


def _decode_add(view: Bytes, at: int, position: int, end: int) -> Entry | Bad | None:
    size = _decode_size(view, at, position, end, SIZE_BYTES, ADD_MIN_SIZE)
    if size is None or isinstance(size, Bad):
        return size
    (expiration,) = EXPIRATION.unpack_from(view, at + SIZE_BYTES)
    return Entry(
        Op.ADD,
        position,
        SIZE_BYTES + size,
        expiry_ms=expiration * 1000 or None,
        data_position=position + ADD_HEAD.size,
        data_size=size - ADD_MIN_SIZE,
    )


def _decode_addx(view: Bytes, at: int, position: int, end: int) -> Entry | Bad | None:
    return _decode_timed(view, at, position, end, OPCODE_BYTES)


def _decode_add_xid(view: Bytes, at: int, position: int, end: int) -> Entry | Bad | None:
    return _decode_timed(view, at, position, end, XID_HEAD.size)


def _decode_timed(view: Bytes, at: int, position: int, end: int, size_at: int) -> Entry | Bad | None:
    """ADDX, ADD_XID or CONTINUE, which differ by the xid in front of the size."""
    before = size_at + SIZE.size
    size = _decode_size(view, at, position, end, before, ADDX_MIN_SIZE)
    if size is None or isinstance(size, Bad):
        return size
    added_ms, expiry_ms = TIMES.unpack_from(view, at + before)
    return Entry(
        Op(view[at]),
        position,
        before + size,
        XID.unpack_from(view, at + OPCODE_BYTES)[0] if size_at > OPCODE_BYTES else None,
        added_ms,
        expiry_ms or None,
        position + before + TIMES.size,
        size - ADDX_MIN_SIZE,
    )


def _decode_size(
    view: Bytes, at: int, position: int, end: int, before: int, min_size: int
) -> int | Bad | None:
    """The size that stands right before `before`; a Bad if there can be no such entry here.

    With a size there is, in the view, what an entry has at least.
    """
    if position + before > end:
        return _truncated(position, before, end)
    if at + before > len(view):
        return None
    size: int = SIZE.unpack_from(view, at + before - SIZE.size)[0]
    if size < min_size:
        if not any(view[at : at + before]):
            return Bad(position, Flaw.ZEROS, "zeros where an entry should be")
        return Bad(position, Flaw.SIZE, f"an entry cannot have the size {size}, {min_size} is the least")
    if position + before + size > end:
        return _truncated(position, before + size, end)
    return None if at + before + min_size > len(view) else size


def _truncated(position: int, size: int, end: int) -> Bad:
    return Bad(position, Flaw.TRUNCATED, _SIZE_HINT.format(size, end - position))


def _decode_eight(view: Bytes, at: int, position: int, end: int) -> Entry | Bad | None:
    """CONTINUE, or STATE_DUMP if that is what the bytes behind it say."""
    if min(end - position, HEAD_BYTES_MAX) > len(view) - at:
        return None
    if end - position >= STATE_DUMP_HEAD.size:
        _, xid, pairs = STATE_DUMP_HEAD.unpack_from(view, at)
        if _is_state_dump(view, at + STATE_DUMP_HEAD.size, pairs, end - position - STATE_DUMP_HEAD.size):
            return Entry(Op.STATE_DUMP, position, STATE_DUMP_HEAD.size, xid, pairs=pairs)
    return _decode_timed(view, at, position, end, XID_HEAD.size)


def _is_state_dump(view: Bytes, at: int, pairs: int, left: int) -> bool:
    """Whether an opcode 8 with this number behind its xid begins a dump; `at` is what follows that number."""
    if not left:
        return 0 <= pairs < ADDX_MIN_SIZE  # more would be a CONTINUE that was cut off
    if pairs <= 0 or view[at] != Op.ADD_XID:
        return False
    if pairs < ADDX_MIN_SIZE:
        return True
    return left >= ADD_TIME.size and not 0 <= ADD_TIME.unpack_from(view, at)[0] <= YEAR_2500_MS


_DECODERS: dict[int, Callable[[Bytes, int, int, int], Entry | Bad | None]] = {
    Op.ADD: _decode_add,
    Op.REMOVE: _decode_bare,
    Op.ADDX: _decode_addx,
    Op.REMOVE_TENTATIVE: _decode_bare,
    Op.SAVE_XID: _decode_xid,
    Op.UNREMOVE: _decode_xid,
    Op.CONFIRM_REMOVE: _decode_xid,
    Op.ADD_XID: _decode_add_xid,
    Op.CONTINUE: _decode_eight,
    Op.REMOVE_TENTATIVE_XID: _decode_xid,
}


# --- encoding -------------------------------------------------------------------------------------------


def encode_add(data: Bytes, expiry_s: int | None) -> bytes:
    """As Starling and the first versions of Kestrel wrote it."""
    return _pack(ADD_HEAD, Op.ADD, _size(data, ADD_MIN_SIZE), expiry_s or 0) + bytes(data)


def encode_addx(data: Bytes, added_ms: int, expiry_ms: int | None) -> bytes:
    return _pack(ADDX_HEAD, Op.ADDX, _size(data, ADDX_MIN_SIZE), added_ms, expiry_ms or 0) + bytes(data)


def encode_add_xid(xid: int, data: Bytes, added_ms: int, expiry_ms: int | None) -> bytes:
    size = _size(data, ADDX_MIN_SIZE)
    return _pack(ADD_XID_HEAD, Op.ADD_XID, xid, size, added_ms, expiry_ms or 0) + bytes(data)


def encode_continue(xid: int, data: Bytes, added_ms: int, expiry_ms: int | None) -> bytes:
    if not 0 <= added_ms <= YEAR_2500_MS:
        raise ValueError(f"a CONTINUE added at {added_ms} ms would be read as a STATE_DUMP")
    size = _size(data, ADDX_MIN_SIZE)
    return _pack(ADD_XID_HEAD, Op.CONTINUE, xid, size, added_ms, expiry_ms or 0) + bytes(data)


def encode_remove() -> bytes:
    return bytes([Op.REMOVE])


def encode_remove_tentative(xid: int | None = None) -> bytes:
    """With an xid as from 2.1 on; without one as before, where the xid is the next one."""
    return bytes([Op.REMOVE_TENTATIVE]) if xid is None else _pack(XID_HEAD, Op.REMOVE_TENTATIVE_XID, xid)


def encode_save_xid(xid: int) -> bytes:
    return _pack(XID_HEAD, Op.SAVE_XID, xid)


def encode_unremove(xid: int) -> bytes:
    return _pack(XID_HEAD, Op.UNREMOVE, xid)


def encode_confirm_remove(xid: int) -> bytes:
    return _pack(XID_HEAD, Op.CONFIRM_REMOVE, xid)


def encode_state_dump(xid: int, pairs: int) -> bytes:
    """Only at the end of a rotated file, with that many ADD_XID and REMOVE_TENTATIVE behind it."""
    return _pack(STATE_DUMP_HEAD, Op.CONTINUE, xid, pairs)


def _size(data: Bytes, overhead: int) -> int:
    size = len(data) + overhead
    if size > MAX_SIZE:
        raise ValueError(f"an item of {len(data)} bytes does not fit an entry")
    return size


def _pack(layout: struct.Struct, *fields: int) -> bytes:
    try:
        return layout.pack(*fields)
    except struct.error as error:
        raise ValueError(f"{Op(fields[0]).name}: {error}") from None
