"""Kestrel's journals by hand: each step is the bytes of an entry, beside what it says.

Written from the specification, with nothing of Barbicel, so that both can be wrong only in different ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "Step",
    "add",
    "add_xid",
    "addx",
    "confirm",
    "go_on",
    "i32",
    "i64",
    "join",
    "remove",
    "reserve",
    "save_xid",
    "state_dump",
    "unremove",
]


@dataclass(frozen=True)
class Step:
    """`verb` is one of add, remove, reserve, save, unremove, confirm, dump."""

    raw: bytes
    verb: str
    xid: int | None = None
    data: bytes = b""
    added_ms: int | None = None
    expiry_ms: int | None = None
    # Dump: what follows it in the file and is not for the queue.
    follows: tuple[Step, ...] = ()


def i32(number: int) -> bytes:
    return number.to_bytes(4, "little", signed=True)


def i64(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


def add(data: bytes, expiry_s: int = 0) -> Step:
    raw = b"\x00" + i32(4 + len(data)) + i32(expiry_s) + data
    return Step(raw, "add", None, data, None, expiry_s * 1000 if expiry_s else None)


def remove() -> Step:
    return Step(b"\x01", "remove")


def _item(data: bytes, added_ms: int, expiry_ms: int) -> bytes:
    return i32(16 + len(data)) + i64(added_ms) + i64(expiry_ms) + data


def addx(data: bytes, added_ms: int = 1_300_000_000_000, expiry_ms: int = 0) -> Step:
    return Step(b"\x02" + _item(data, added_ms, expiry_ms), "add", None, data, added_ms, expiry_ms or None)


def reserve(xid: int | None = None) -> Step:
    return Step(b"\x03" if xid is None else b"\x09" + i32(xid), "reserve", xid)


def save_xid(xid: int) -> Step:
    return Step(b"\x04" + i32(xid), "save", xid)


def unremove(xid: int) -> Step:
    return Step(b"\x05" + i32(xid), "unremove", xid)


def confirm(xid: int) -> Step:
    return Step(b"\x06" + i32(xid), "confirm", xid)


def add_xid(xid: int, data: bytes, added_ms: int = 1_300_000_000_000, expiry_ms: int = 0) -> Step:
    raw = b"\x07" + i32(xid) + _item(data, added_ms, expiry_ms)
    return Step(raw, "add", xid, data, added_ms, expiry_ms or None)


def go_on(xid: int, data: bytes, added_ms: int = 1_300_000_000_000, expiry_ms: int = 0) -> Step:
    """CONTINUE, which Python has a word for already."""
    raw = b"\x08" + i32(xid) + _item(data, added_ms, expiry_ms)
    return Step(raw, "continue", xid, data, added_ms, expiry_ms or None)


def state_dump(xid: int, reads: Sequence[Step] = ()) -> Step:
    """The end of a rotated file: the number of open reads, and each of them as ADD_XID, REMOVE_TENTATIVE."""
    follows = tuple(step for read in reads for step in (read, reserve()))
    return Step(b"\x08" + i32(xid) + i32(len(reads)) + join(follows), "dump", xid, follows=follows)


def join(steps: Sequence[Step]) -> bytes:
    return b"".join(step.raw for step in steps)
