"""The words of Kestrel's journal: opcodes, entries, and where the fields of an entry are.

docs/formats/kestrel_journal.md draws the layout. Integers are little-endian.
"""

from __future__ import annotations

import struct
from enum import IntEnum, StrEnum
from typing import NamedTuple

__all__ = [
    "ADDX_HEAD",
    "ADDX_MIN_SIZE",
    "ADD_HEAD",
    "ADD_MIN_SIZE",
    "ADD_TIME",
    "ADD_XID_HEAD",
    "EXPIRATION",
    "HEAD_BYTES_MAX",
    "MAX_SIZE",
    "OPCODE_BYTES",
    "SIZE",
    "SIZE_BYTES",
    "STATE_DUMP_HEAD",
    "TIMES",
    "XID",
    "XID_HEAD",
    "YEAR_2500_MS",
    "Bad",
    "Entry",
    "Flaw",
    "Op",
]


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
    # The other meaning of opcode 8, in journals of versions that were never released.
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
    pairs: int = 0


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


# Single fields.
XID = struct.Struct("<i")
SIZE = struct.Struct("<i")
EXPIRATION = struct.Struct("<i")  # of ADD: seconds
ADD_TIME = struct.Struct("<q")
TIMES = struct.Struct(
    "<"
    "q"  # add time, milliseconds
    "q"  # expiration time, milliseconds
)
# Everything in front of the data.
ADD_HEAD = struct.Struct(
    "<"
    "B"  # opcode
    "i"  # size
    "i"  # expiration time, seconds
)
ADDX_HEAD = struct.Struct(
    "<"
    "B"  # opcode
    "i"  # size
    "q"  # add time, milliseconds
    "q"  # expiration time, milliseconds
)
XID_HEAD = struct.Struct(
    "<"
    "B"  # opcode
    "i"  # xid
)
ADD_XID_HEAD = struct.Struct(  # of CONTINUE, too
    "<"
    "B"  # opcode
    "i"  # xid
    "i"  # size
    "q"  # add time, milliseconds
    "q"  # expiration time, milliseconds
)
STATE_DUMP_HEAD = struct.Struct(
    "<"
    "B"  # opcode
    "i"  # xid
    "i"  # number of open transactions to follow
)

OPCODE_BYTES = 1
SIZE_BYTES = OPCODE_BYTES + SIZE.size  # "size" counts what follows these
ADD_MIN_SIZE = EXPIRATION.size
ADDX_MIN_SIZE = TIMES.size
HEAD_BYTES_MAX = ADD_XID_HEAD.size
# A CONTINUE added later than this is a STATE_DUMP: the first ADD_XID that follows it, taken for a time, lies
# beyond (the lowest three bytes of a size of at least 16 are then its highest).
YEAR_2500_MS = 16_725_225_600_000
MAX_SIZE = 2**31 - 1
