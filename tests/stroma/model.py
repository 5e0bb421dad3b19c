"""A group as plain sets and dictionaries, and what a store has promised about it so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barbicel.codecs.stroma_events import (
    Ack,
    BumpAckedUntil,
    ClearInflight,
    Commit,
    Event,
    MarkInflight,
    Release,
    Reset,
)
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.codecs.stroma_snapshot import Inflight
from barbicel.stroma.state import GroupState
from tests.support.fault_disk import Fate

__all__ = ["EMPTY", "PlainGroup", "PromisedGroup", "View", "applied", "clamped", "view_of"]


class View(NamedTuple):
    """All that a group's state consists of, to be compared."""

    acked_until: int = 0
    acked: tuple[tuple[int, int], ...] = ()
    inflight: tuple[tuple[int, Inflight], ...] = ()
    releases: tuple[tuple[int, int], ...] = ()
    is_committed: bool = False
    leader_epoch: int | None = None
    metadata: bytes | None = None


EMPTY = View()


def view_of(state: GroupState) -> View:
    return View(
        state.acked_until,
        tuple((held.start, held.end) for held in state.acked),
        tuple(sorted(state.inflight.items())),
        tuple(sorted(state.releases.items())),
        state.is_committed,
        state.leader_epoch,
        state.metadata,
    )


class PlainGroup:
    """The model: a set and two dictionaries, gone through one by one."""

    def __init__(self) -> None:
        self.acked_until = 0
        self.acked: set[int] = set()
        self.inflight: dict[int, Inflight] = {}
        self.releases: dict[int, int] = {}
        self.commit: tuple[bool, int | None, bytes | None] = (False, None, None)

    def _set_position(self, acked_until: int) -> None:
        self.acked_until = acked_until
        for table in (self.acked, self.inflight, self.releases):
            table.clear()

    @classmethod
    def of(cls, view: View) -> PlainGroup:
        model = cls()
        model.acked_until = view.acked_until
        model.acked = {offset for start, end in view.acked for offset in range(start, end)}
        model.inflight = dict(view.inflight)
        model.releases = dict(view.releases)
        model.commit = (view.is_committed, view.leader_epoch, view.metadata)
        return model

    def is_acked(self, offset: int) -> bool:
        return offset < self.acked_until or offset in self.acked

    def apply(self, event: Event) -> None:
        match event:
            case MarkInflight(offset, deadline_ms, epoch):
                if not self.is_acked(offset):
                    self.inflight[offset] = Inflight(deadline_ms, epoch)
                    self.releases.pop(offset, None)
            case Ack(offset):
                self.acked.add(offset)
                self._settle(self.acked_until)
            case ClearInflight(offset):
                self.inflight.pop(offset, None)
            case BumpAckedUntil(acked_until):
                self._settle(max(acked_until, self.acked_until))
            case Release(offset, epoch):
                if not self.is_acked(offset):
                    self.inflight.pop(offset, None)
                    self.releases[offset] = epoch
            case Reset():
                self._set_position(0)
                self.commit = (False, None, None)
            case Commit(acked_until, leader_epoch, metadata):
                self._set_position(acked_until)
                self.commit = (True, leader_epoch, metadata)

    def _settle(self, acked_until: int) -> None:
        while acked_until in self.acked:
            acked_until += 1
        self.acked_until = acked_until
        self.acked = {offset for offset in self.acked if offset >= acked_until}
        for table in (self.inflight, self.releases):
            for offset in [offset for offset in table if self.is_acked(offset)]:
                del table[offset]

    def clamp(self, end: int) -> None:
        """Forget everything about offsets from there on."""
        self.acked_until = min(self.acked_until, end)
        self.acked = {offset for offset in self.acked if offset < end}
        for table in (self.inflight, self.releases):
            for offset in [offset for offset in table if offset >= end]:
                del table[offset]

    def available(self, start: int, end: int) -> list[int]:
        return [
            offset
            for offset in range(start, end)
            if not self.is_acked(offset) and offset not in self.inflight
        ]

    def expired(self, now_ms: int) -> list[tuple[int, Inflight]]:
        return sorted(
            (offset, held) for offset, held in self.inflight.items() if held.deadline_ts_ms <= now_ms
        )

    def next_expiry_ms(self) -> int:
        return min((held.deadline_ts_ms for held in self.inflight.values()), default=NO_DEADLINE_MS)

    def view(self) -> View:
        ranges: list[tuple[int, int]] = []
        for offset in sorted(self.acked):
            if ranges and ranges[-1][1] == offset:
                ranges[-1] = (ranges[-1][0], offset + 1)
            else:
                ranges.append((offset, offset + 1))
        inflight, releases = tuple(sorted(self.inflight.items())), tuple(sorted(self.releases.items()))
        return View(self.acked_until, tuple(ranges), inflight, releases, *self.commit)


def clamped(view: View, end: int) -> View:
    """What the model leaves of a state below the end of a log."""
    model = PlainGroup.of(view)
    model.clamp(end)
    return model.view()


def applied(history: Iterable[Event]) -> View:
    """What the model makes of events."""
    model = PlainGroup()
    for event in history:
        model.apply(event)
    return model.view()


class PromisedGroup:
    """What a store must have of a group now, and what it must still have after a crash.

    `views` are its states after each event, from the last one that is known to be durable to the live one.
    """

    def __init__(self, view: View = EMPTY) -> None:
        self.live = PlainGroup.of(view)
        self.views = [view]
        # Of `views`, the last one that was written: it must survive a kill -9.
        self.written = 0
        # Each write that may not be durable: what it ended with, and when it was done.
        self._writes: list[tuple[int, int]] = []

    def record(self, event: Event) -> None:
        self.live.apply(event)
        self.views.append(self.live.view())

    def reaches(self, end: int) -> bool:
        return clamped(self.views[-1], end) != self.views[-1]

    def clamp(self, end: int) -> None:
        self.live.clamp(end)
        self.views.append(self.live.view())

    @property
    def has_pending(self) -> bool:
        return self.written < len(self.views) - 1

    def note_written(self, now_ms: int) -> None:
        if self.has_pending:
            self.written = len(self.views) - 1
            self._writes.append((self.written, now_ms))

    def note_synced(self) -> None:
        """What was written is durable."""
        self._note_durable(self.written)

    def note_due(self, written_by_ms: int) -> None:
        """What was written by then is durable."""
        due = [written for written, now_ms in self._writes if now_ms <= written_by_ms]
        self._note_durable(max(due, default=0))

    def note_compacted(self) -> None:
        """Everything is durable, what was not written too."""
        self.written = len(self.views) - 1
        self.note_synced()

    def note_below(self, end: int) -> None:
        """No state that says something beyond is to be found any more, nor any before such a one."""
        reaching = [number for number, view in enumerate(self.views) if clamped(view, end) != view]
        self._note_durable(1 + max(reaching, default=-1))

    def _note_durable(self, count: int) -> None:
        del self.views[:count]
        self.written -= count
        self._writes = [(end - count, now_ms) for end, now_ms in self._writes if end > count]

    def allowed(self, fate: Fate) -> list[View]:
        """What may be found after a crash; what nobody was answered yet may be there, too."""
        return self.views[self.written if fate is Fate.KEEP else 0 :]
