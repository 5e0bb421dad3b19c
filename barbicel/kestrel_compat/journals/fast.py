"""The loop that most of a journal goes through: entries decoded and applied in one go.

It is one long function with its state in local variables, because a call, an object or an attribute for
each entry would take several times what the entry itself takes. It knows nothing that the codec and
`QueueState.apply` do not know: at anything rare it stops, and the caller goes on with those two.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from barbicel.codecs.kestrel_journal_format import ADD_MIN_SIZE, ADDX_MIN_SIZE, HEAD_BYTES_MAX, SIZE_BYTES
from barbicel.kestrel_compat.journals.open_runs import MAX_XID
from barbicel.kestrel_compat.journals.places import EMPTY
from barbicel.kestrel_compat.journals.state import QueueState

__all__ = ["Run", "apply_run", "count_removes"]

_INT = struct.Struct("<i")
_SIZE_AND_ADDED = struct.Struct("<iq")
_XID_BYTES = 1 + _INT.size
_REMOVES = re.compile(b"\x01+")


class Run(NamedTuple):
    """Up to where in the piece entries were applied, and how many."""

    at: int
    operations: int


def count_removes(piece: bytes, at: int) -> int:
    """How many REMOVEs there are in a row."""
    match = _REMOVES.match(piece, at)
    return match.end() - at if match else 0


def apply_run(  # noqa: C901 - see the module
    state: QueueState, piece: bytes, at: int, place: int, room: int, oldest_ms: int
) -> Run:
    """Apply entries of `piece` from `at` on, until one is rare, odd, bad, or its head not in the piece.

    `place` is that of the piece's first byte, `room` what the file has from there on. An item that was added
    before `oldest_ms` is odd. The result may lie behind the piece: data need not be in it.
    """
    if state.named_xid is not None or state.open_runs:
        return Run(at, 0)
    int_at, size_and_added_at = _INT.unpack_from, _SIZE_AND_ADDED.unpack_from
    live, head, open_reads, last_xid = state.live, state.head, state.open, state.last_xid
    append, close = live.append, open_reads.pop
    end = len(live)
    stop = len(piece) - HEAD_BYTES_MAX
    operations = 0
    while at < stop:
        op = piece[at]
        if op == 2:  # ADDX
            size, added_ms = size_and_added_at(piece, at + 1)
            following = at + SIZE_BYTES + size
            if size < ADDX_MIN_SIZE or following > room or added_ms < oldest_ms:
                break
            append(place + at if size > ADDX_MIN_SIZE else (place + at) | EMPTY)
            end += 1
            at = following
        elif op == 1:  # REMOVE
            if piece[at + 1] == 1:
                count = count_removes(piece, at)
                if count > end - head:
                    break
                head += count
                at += count
                operations += count
                continue
            if head == end:
                break
            head += 1
            at += 1
        elif op == 6:  # CONFIRM_REMOVE
            close(int_at(piece, at + 1)[0], None)
            at += _XID_BYTES
        elif op == 9:  # REMOVE_TENTATIVE_XID
            (xid,) = int_at(piece, at + 1)
            if xid in open_reads or head == end:
                break
            open_reads[xid] = live[head]
            head += 1
            last_xid = xid
            at += _XID_BYTES
        elif op == 3:  # REMOVE_TENTATIVE
            xid = last_xid + 1
            if head == end or xid > MAX_XID or xid == 0 or xid in open_reads:
                break
            open_reads[xid] = live[head]
            head += 1
            last_xid = xid
            at += 1
        elif op == 5:  # UNREMOVE
            back = close(int_at(piece, at + 1)[0], None)
            if back is not None:
                head -= 1
                live[head] = back
            at += _XID_BYTES
        elif op == 0:  # ADD
            (size,) = int_at(piece, at + 1)
            following = at + SIZE_BYTES + size
            if size <= ADD_MIN_SIZE or following > room:
                break
            append(place + at)
            end += 1
            at = following
        else:
            break
        operations += 1
    state.head, state.last_xid = head, last_xid
    return Run(at, operations)
