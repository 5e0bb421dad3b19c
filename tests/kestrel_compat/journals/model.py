"""The replay in the plainest way: lists, whole files in memory, one rule after the other.

`read_steps` is a second decoder, written from the format's description. It and `Model` share nothing with
what they are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.golden.kestrel.writer import Step

__all__ = ["Model", "ModelItem", "ReadSteps", "read_steps"]

YEAR_2500_MS = 16_725_225_600_000


class ModelItem(NamedTuple):
    data: bytes
    added_ms: int
    expiry_ms: int | None
    file: str
    position: int


class Model:
    """What Kestrel does with each entry, except that it loses nothing."""

    def __init__(self) -> None:
        self.queue: list[ModelItem] = []
        # In the order of reserving.
        self.open: list[tuple[int, ModelItem]] = []
        self.displaced: list[tuple[int, ModelItem]] = []
        self.last_xid = 0
        self.named_xid: int | None = None
        self.operations = 0
        # (file, position)
        self.surplus: list[tuple[str, int]] = []
        self.reopened: list[tuple[str, int]] = []

    def replay(self, file: str, steps: Sequence[Step], modified_ms: int) -> None:
        position = 0
        for step in steps:
            self._apply(step, file, position, modified_ms)
            position += len(step.raw)

    def items(self) -> list[ModelItem]:
        return [item for _, item in self.sorted_open()] + self.queue

    def sorted_open(self) -> list[tuple[int, ModelItem]]:
        return sorted([*self.displaced, *self.open], key=lambda one: one[0])

    def _apply(self, step: Step, file: str, position: int, modified_ms: int) -> None:
        self.operations += 1
        named, self.named_xid = self.named_xid, None
        if step.verb == "add":
            self._add(step, file, position, modified_ms)
            self.named_xid = step.xid
        elif step.verb == "continue":
            self._close(step.xid)
            self._add(step, file, position, modified_ms)
        elif step.verb == "remove":
            if self.queue:
                self.queue.pop(0)
            else:
                self.surplus.append((file, position))
        elif step.verb == "reserve":
            self._reserve(step.xid, named, file, position)
        elif step.verb == "unremove":
            item = self._close(step.xid)
            if item is not None:
                self.queue.insert(0, item)
        elif step.verb == "confirm":
            self._close(step.xid)
        else:
            assert step.verb in ("save", "dump")
            assert step.xid is not None
            self.last_xid = step.xid

    def _add(self, step: Step, file: str, position: int, modified_ms: int) -> None:
        added_ms = modified_ms if step.added_ms is None else step.added_ms
        self.queue.append(ModelItem(step.data, added_ms, step.expiry_ms, file, position))

    def _reserve(self, xid: int | None, named: int | None, file: str, position: int) -> None:
        if xid is not None:
            self.last_xid = xid
        if not self.queue:
            self.surplus.append((file, position))
            return
        if xid is None:
            xid = named
        if xid is None:
            xid = self._next_xid()
            self.last_xid = xid
        if xid in dict(self.open):
            self.reopened.append((file, position))
            lost = self._close(xid)
            assert lost is not None
            self.displaced.append((xid, lost))
        self.open.append((xid, self.queue.pop(0)))

    def _next_xid(self) -> int:
        xid = self.last_xid
        while True:
            xid += 1
            if xid == 2**31:
                xid = -(2**31)
            if xid != 0 and xid not in dict(self.open):
                return xid

    def _close(self, xid: int | None) -> ModelItem | None:
        for index, (other, item) in enumerate(self.open):
            if other == xid:
                del self.open[index]
                return item
        return None


class ReadSteps(NamedTuple):
    """Sound steps, and where they end if that is not the file's end."""

    steps: list[Step]
    bad_at: int | None


def read_steps(raw: bytes) -> ReadSteps:
    steps: list[Step] = []
    at = 0
    while at < len(raw):
        step = _read_step(raw[at:])
        if step is None:
            return ReadSteps(steps, at)
        steps.append(step)
        at += len(step.raw)
        if step.verb == "dump":
            # The rest repeats what is open, and is nothing for the queue.
            return ReadSteps(steps, None)
    return ReadSteps(steps, None)


def _int(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


BARE = {1: "remove", 3: "reserve"}
WITH_XID = {4: "save", 5: "unremove", 6: "confirm", 9: "reserve"}


def _read_step(raw: bytes) -> Step | None:
    op = raw[0]
    if op in BARE:
        return Step(raw[:1], BARE[op])
    if op in WITH_XID:
        return None if len(raw) < 5 else Step(raw[:5], WITH_XID[op], _int(raw[1:5]))
    if op == 0:
        return _read_add(raw)
    if op == 2:
        return _read_timed(raw, "add", 1)
    if op == 7:
        return _read_timed(raw, "add", 5)
    if op == 8:
        return _read_dump(raw) or _read_timed(raw, "continue", 5)
    return None


def _read_add(raw: bytes) -> Step | None:
    size = _int(raw[1:5])
    if len(raw) < 5 or size < 4 or len(raw) < 5 + size:
        return None
    expiry_s = _int(raw[5:9])
    return Step(raw[: 5 + size], "add", None, raw[9 : 5 + size], None, expiry_s * 1000 if expiry_s else None)


def _read_timed(raw: bytes, verb: str, size_at: int) -> Step | None:
    start = size_at + 4
    size = _int(raw[size_at:start])
    if len(raw) < start or size < 16 or len(raw) < start + size:
        return None
    xid = _int(raw[1:5]) if size_at == 5 else None
    added_ms, expiry_ms = _int(raw[start : start + 8]), _int(raw[start + 8 : start + 16])
    end = start + size
    return Step(raw[:end], verb, xid, raw[start + 16 : end], added_ms, expiry_ms or None)


def _read_dump(raw: bytes) -> Step | None:
    if len(raw) < 9:
        return None
    pairs = _int(raw[5:9])
    dump = Step(raw[:9], "dump", _int(raw[1:5]))
    if len(raw) == 9:
        return dump if 0 <= pairs < 16 else None
    if pairs < 1 or raw[9] != 7:
        return None
    if pairs < 16:
        return dump
    as_time_ms = _int(raw[9:17])
    return dump if len(raw) >= 17 and not 0 <= as_time_ms <= YEAR_2500_MS else None
