"""What one group has consumed of one partition: the state, and the one way in which it changes.

Invariants: everything below `acked_until` is acked; `acked` lies above it and does not touch it; an offset
is acked, inflight or available, never two of these; only available offsets have a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

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
from barbicel.codecs.stroma_format import MAX_EPOCH, NO_DEADLINE_MS
from barbicel.codecs.stroma_snapshot import Inflight, Snapshot
from barbicel.stroma.deadlines import Deadlines
from barbicel.stroma.ranges import Range, RangeSet

__all__ = ["GroupState"]


class GroupState:
    """Changed by `apply` alone, live and in replay. Everything else only looks."""

    def __init__(self) -> None:
        self.acked_until = 0
        self.acked = RangeSet()
        self.inflight: dict[int, Inflight] = {}
        # Available again, with their delivery count.
        self.releases: dict[int, int] = {}
        self.is_committed = False
        self.leader_epoch: int | None = None
        self.metadata: bytes | None = None
        # Acked or inflight, beyond the frontier: what `available` passes over.
        self._taken = RangeSet()
        self._deadlines: Deadlines[int] = Deadlines(self._deadline_of)

    # --- changing -----------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        _APPLY[type(event)](self, event)

    def _mark_inflight(self, event: MarkInflight) -> None:
        if self.is_acked(event.offset):
            return
        self.inflight[event.offset] = Inflight(event.deadline_ts_ms, event.epoch)
        self.releases.pop(event.offset, None)
        self._taken.add(event.offset, event.offset + 1)
        if event.deadline_ts_ms != NO_DEADLINE_MS:
            self._deadlines.add(event.deadline_ts_ms, event.offset, len(self.inflight))

    def _ack(self, event: Ack) -> None:
        offset = event.offset
        self.inflight.pop(offset, None)
        self.releases.pop(offset, None)
        if offset < self.acked_until:
            return
        first = self.acked.first
        if offset == self.acked_until and (first is None or first.start > offset + 1):
            # In order, which is how most queues are read: nothing else lies in between.
            self._taken.remove(offset, offset + 1)
            self.acked_until = offset + 1
        elif offset == self.acked_until:
            self._advance(offset + 1 if first is None else first.end)
        else:
            self.acked.add(offset, offset + 1)
            self._taken.add(offset, offset + 1)

    def _clear_inflight(self, event: ClearInflight) -> None:
        if self.inflight.pop(event.offset, None) is not None:
            self._taken.remove(event.offset, event.offset + 1)

    def _release(self, event: Release) -> None:
        if self.is_acked(event.offset):
            return
        self._clear_inflight(ClearInflight(event.offset))
        self.releases[event.offset] = event.epoch

    def _bump(self, event: BumpAckedUntil) -> None:
        if event.acked_until > self.acked_until:
            held = self.acked.range_at(event.acked_until)
            self._advance(event.acked_until if held is None else held.end)

    def _reset(self, _: Reset) -> None:
        self._forget_all()
        self.acked_until = 0
        self.is_committed, self.leader_epoch, self.metadata = False, None, None

    def _commit(self, event: Commit) -> None:
        self._forget_all()
        self.acked_until = event.acked_until
        self.is_committed, self.leader_epoch, self.metadata = True, event.leader_epoch, event.metadata

    def _advance(self, acked_until: int) -> None:
        """Move the frontier forwards; what lies below it is nothing but acked."""
        self.acked.remove(self.acked_until, acked_until)
        self._taken.remove(self.acked_until, acked_until)
        for table in (self.inflight, self.releases):
            if len(table) > acked_until - self.acked_until:
                below = [offset for offset in range(self.acked_until, acked_until) if offset in table]
            else:
                below = [offset for offset in table if offset < acked_until]
            for offset in below:
                del table[offset]
        self.acked_until = acked_until

    def _forget_all(self) -> None:
        self.acked.clear()
        self._taken.clear()
        self.inflight.clear()
        self.releases.clear()

    # --- looking ------------------------------------------------------------------------------------

    def is_acked(self, offset: int) -> bool:
        return offset < self.acked_until or offset in self.acked

    def is_inflight(self, offset: int) -> bool:
        return offset in self.inflight

    def next_epoch(self, offset: int) -> int:
        """The delivery count that handing the offset out now would give it; it stops at the last number."""
        held = self.inflight.get(offset)
        return min(MAX_EPOCH, 1 + (held.epoch if held is not None else self.releases.get(offset, 0)))

    def available(self, from_offset: int, end_offset: int) -> Iterator[Range]:
        """What is neither acked nor inflight between the two, without walking what is.

        The group may change in between: what is told already may be handed out or acked at once.
        """
        return self._taken.gaps(max(from_offset, self.acked_until), end_offset)

    def reaches(self, end_offset: int) -> bool:
        """Whether it says anything about offsets from there on."""
        last = self.acked.last
        if self.acked_until > end_offset or (last is not None and last.end > end_offset):
            return True
        return any(offset >= end_offset for table in (self.inflight, self.releases) for offset in table)

    def lag(self, end_offset: int, start_offset: int = 0) -> int:
        """How many offsets from the start to the end of a log are not acked."""
        last, start = self.acked.last, max(start_offset, self.acked_until)
        if start == self.acked_until and (last is None or last.end <= end_offset):
            return max(0, end_offset - self.acked_until - self.acked.covered)
        return sum(gap.end - gap.start for gap in self.acked.gaps(start, end_offset))

    def next_expiry_ms(self) -> int:
        """The earliest deadline, NO_DEADLINE_MS if there is none."""
        found = self._deadlines.next_ms()
        return NO_DEADLINE_MS if found is None else found

    def expired(self, now_ms: int, limit: int | None = None) -> list[tuple[int, Inflight]]:
        """What is inflight beyond its deadline, the earliest first. It is up to the caller to release it.

        Costs what it finds, however much else is due.
        """
        due = islice(self._deadlines.pop_due(now_ms), limit)
        found = [(offset, self.inflight[offset]) for offset in due]
        for offset, entry in found:
            self._deadlines.add(entry.deadline_ts_ms, offset, len(self.inflight))
        return found

    def _deadline_of(self, offset: int) -> int | None:
        held = self.inflight.get(offset)
        return None if held is None else held.deadline_ts_ms

    # --- whole --------------------------------------------------------------------------------------

    def frozen(self) -> GroupState:
        """A copy to take a snapshot of while this one goes on changing: quickly made, good for no more."""
        copy = GroupState()
        copy.acked_until, copy.acked = self.acked_until, self.acked.copy()
        copy.inflight, copy.releases = dict(self.inflight), dict(self.releases)
        copy.is_committed, copy.leader_epoch = self.is_committed, self.leader_epoch
        copy.metadata = self.metadata
        return copy

    def snapshot(
        self,
        *,
        created_ts_ms: int,
        tp_hash: int,
        group_hash: int,
        generation: int,
        delta_position: int = 0,
    ) -> Snapshot:
        return Snapshot(
            created_ts_ms,
            tp_hash,
            group_hash,
            generation,
            self.acked_until,
            tuple(sorted(self.inflight.items())),
            self.is_committed,
            self.leader_epoch,
            self.metadata,
            tuple(self.acked),
            tuple(sorted(self.releases.items())),
            delta_position,
        )

    @classmethod
    def of(cls, snapshot: Snapshot) -> GroupState:
        state = cls()
        state.acked_until = snapshot.acked_until
        state.acked = RangeSet.of_sorted(snapshot.ranges)
        state._taken = RangeSet.of_sorted(snapshot.ranges)
        state.releases = dict(snapshot.releases)
        state.is_committed = snapshot.is_committed
        state.leader_epoch = snapshot.leader_epoch
        state.metadata = snapshot.metadata
        for offset, entry in snapshot.inflight:
            state._mark_inflight(MarkInflight(offset, entry.deadline_ts_ms, entry.epoch))
        return state


_APPLY: dict[type, Callable[..., None]] = {
    MarkInflight: GroupState._mark_inflight,
    Ack: GroupState._ack,
    ClearInflight: GroupState._clear_inflight,
    BumpAckedUntil: GroupState._bump,
    Reset: GroupState._reset,
    Commit: GroupState._commit,
    Release: GroupState._release,
}
