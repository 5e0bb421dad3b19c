"""Kestrel's journal as bytes: entries, little-endian, without a header and without checksums.

Owns the byte layout and nothing else; docs/formats/kestrel_journal.md draws it. A journal cannot say that it is
damaged, so a decoder believes nothing: sizes are checked against the file's end, and data are never copied.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple

from barbicel.disk import Bytes

__all__ = ["Bad", "Entry", "Flaw", "Op", "decode_entry"]


class Op(IntEnum):
    ADD = 0
    REMOVE = 1
    ADDX = 2
    REMOVE_TENTATIVE = 3
    SAVE_XID = 4
    UNREMOVE = 5
    CONFIRM_REMOVE = 6
    ADD_XID = 7
    CONTINUE = 8
    REMOVE_TENTATIVE_XID = 9
    # The other meaning of opcode 8, only in journals of unreleased versions.
    STATE_DUMP = 0x108


class Entry(NamedTuple):
    """One operation. The times and the data are there for ADD, ADDX, ADD_XID and CONTINUE only."""

    op: Op
    position: int
    # Of the whole entry, opcode and data included.
    size: int
    xid: int | None = None
    # None for ADD, which has no time of adding.
    added_ms: int | None = None
    # None is never.
    expiry_ms: int | None = None
    data_position: int = 0
    data_size: int = 0
    # STATE_DUMP: how many pairs of ADD_XID and REMOVE_TENTATIVE follow.
    count: int = 0


class Flaw(StrEnum):
    OPCODE = "opcode"
    SIZE = "size"
    TRUNCATED = "truncated"
    ZEROS = "zeros"


class Bad(NamedTuple):
    """Why there is no entry at a position. It ends the file: nothing behind it can be trusted."""

    position: int
    flaw: Flaw
    reason: str


def decode_entry(view: Bytes, at: int, position: int, end: int) -> Entry | Bad | None:
    """The entry at `view[at]`, which is at `position` of a file that ends at `end`.

    None if it takes more of the file than the view has; 25 bytes always suffice, and the data need not be there.
    """
    raise AssertionError


def encode_add(data: Bytes, expiry_s: int) -> bytes:
    """ADD, as Starling and the first versions of Kestrel wrote it; an expiry of 0 is never."""
    raise AssertionError


def encode_addx(data: Bytes, added_ms: int, expiry_ms: int | None) -> bytes:
    raise AssertionError


def encode_add_xid(xid: int, data: Bytes, added_ms: int, expiry_ms: int | None) -> bytes:
    raise AssertionError


def encode_continue(xid: int, data: Bytes, added_ms: int, expiry_ms: int | None) -> bytes:
    raise AssertionError


def encode_remove() -> bytes:
    raise AssertionError


def encode_remove_tentative(xid: int | None) -> bytes:
    """With an xid as from 2.1 on; without one as before, where the xid is the next one."""
    raise AssertionError


def encode_save_xid(xid: int) -> bytes:
    raise AssertionError


def encode_unremove(xid: int) -> bytes:
    raise AssertionError


def encode_confirm_remove(xid: int) -> bytes:
    raise AssertionError


def encode_state_dump(xid: int, count: int) -> bytes:
    raise AssertionError
