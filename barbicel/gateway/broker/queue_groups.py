"""Groups that hand out single items: Stroma's for queues, through the thread that writes all groups.

Whoever uses them keeps what is available in memory, in the reactor's thread, and gives the events over a turn
at a time; they are written in the order in which they were given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from twisted.internet.defer import Deferred

from barbicel.codecs.stroma_events import BumpAckedUntil, Event, Release
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.consumption import Errors, GroupOffsets, Place
from barbicel.stroma import GroupKey
from barbicel.stroma.ranges import RangeSet

__all__ = ["Held", "QueueGroups", "Turn"]

Turn: TypeAlias = Sequence[tuple[GroupKey, Sequence[Event]]]


class Held(NamedTuple):
    """What a group has consumed: everything below the frontier, and these ranges beyond it."""

    frontier: int
    acked: RangeSet
    # How often each offset that is not acked was handed out, if it was.
    deliveries: dict[int, int]
    # Open in the Kestrel that the queue was imported from, and until when.
    lent: dict[int, int]

    def below(self, end_offset: int) -> Held:
        """The same without the offsets from there on, which are new to everybody. Where a full disk keeps a
        log that has lost its end from being recovered, groups are set back only when it is."""
        last = self.acked.last
        if last is not None and last.end > end_offset:
            self.acked.remove(end_offset, last.end)
        return Held(
            min(self.frontier, end_offset),
            self.acked,
            {offset: count for offset, count in self.deliveries.items() if offset < end_offset},
            {offset: until_ms for offset, until_ms in self.lent.items() if offset < end_offset},
        )


class QueueGroups:
    """Reactor thread only."""

    def __init__(self, offsets: GroupOffsets) -> None:
        self._offsets = offsets
        self._store = offsets.store

    def of(self, place: Place) -> list[str]:
        return self._offsets.groups_of(place)

    def begin(self, key: GroupKey, frontier: int) -> Deferred[None]:
        """A group that starts at the offset. On the answer it survives a power cut: items that are appended
        from now on are its own, so it must not be forgotten when they are not."""

        def run() -> None:
            self._store.record(key, [BumpAckedUntil(frontier)])
            self._offsets.remember(key.group, key[:2])
            self._store.sync([key])

        return self._offsets.submit(run, lambda _, errors: _raise_of(errors, key))

    def load(self, key: GroupKey, now_ms: int) -> Deferred[Held]:
        """After a start: nobody has anything open any more, so all that was is given back.

        But for what an import has left open: it was never handed out here, so its epoch is 0.
        """

        def run() -> Held:
            state = self._store.state(key)
            lent = {
                offset: held.deadline_ts_ms
                for offset, held in state.inflight.items()
                if held.epoch == 0 and held.deadline_ts_ms > now_ms
            }
            back = [(offset, held.epoch) for offset, held in state.inflight.items() if offset not in lent]
            self._store.record(key, [Release(offset, epoch) for offset, epoch in back])
            return Held(state.acked_until, state.acked.copy(), dict(state.releases), lent)

        def settle(held: Held, errors: Errors) -> Held:
            _raise_of(errors, key)
            return held

        return self._offsets.submit(run, settle)

    def record(self, turn: Turn) -> Deferred[Errors]:
        """The events of a turn; answered when they are written, with what could not be."""
        failed: Errors = {}

        def run() -> Errors:
            for key, events in turn:
                try:
                    self._store.record(key, events)
                except BarbicelError as error:
                    failed[key] = error
            return failed

        def settle(failed: Errors, errors: Errors) -> Errors:
            return failed | {key: errors[key] for key, _ in turn if key in errors}

        return self._offsets.submit(run, settle)

    def end(self, key: GroupKey) -> Deferred[None]:
        """Forget the group, durably."""

        def run() -> None:
            self._store.delete(key)
            self._offsets.forget(key.group, key[:2])

        return self._offsets.submit(run, lambda _, errors: None)

    def lowest_frontier(self, place: Place) -> Deferred[int | None]:
        """Below it every group of the partition is done with everything; None if it has no group."""

        def run() -> int | None:
            keys = [GroupKey(*place, group) for group in self._offsets.groups_of(place)]
            return min((self._store.state(key).acked_until for key in keys), default=None)

        return self._offsets.submit(run, lambda lowest, _: lowest)


def _raise_of(errors: Errors, key: GroupKey) -> None:
    if key in errors:
        raise errors[key]
