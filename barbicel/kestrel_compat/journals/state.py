"""What is in a queue while its journal is replayed, and the one way in which an entry changes it.

`live[head:]` is the queue, as places. In front of `head` there is always at least one unused slot for each
item that is out (open or displaced), because taking it moved `head`: so putting one back never moves others.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import NamedTuple

from barbicel.codecs.kestrel_journal import Entry, Op
from barbicel.kestrel_compat.journals.open_runs import OpenRuns
from barbicel.kestrel_compat.journals.places import EMPTY
from barbicel.kestrel_compat.journals.queue import DoubtKind

__all__ = ["Places", "QueueState"]

# Slots of taken items that may wait to be given back.
_SPARE_SLOTS = 1 << 20


class Places(NamedTuple):
    """The end of a replay: of `places`, the first ones are those of `xids`."""

    places: array[int]
    xids: list[int]


class QueueState:
    __slots__ = ("displaced", "head", "last_xid", "live", "named_xid", "open", "open_runs")

    def __init__(self) -> None:
        self.live = array("q")
        self.head = 0
        # Open reads: xid → place.
        self.open: dict[int, int] = {}
        # Open reads whose xid was used again, which Kestrel lost: (xid, place).
        self.displaced: list[tuple[int, int]] = []
        self.last_xid = 0
        # Long runs of open xids, once there was one to be passed over.
        self.open_runs = OpenRuns()
        # Of an ADD_XID that was the entry before this one.
        self.named_xid: int | None = None

    def apply(self, entry: Entry, place: int) -> DoubtKind | None:
        """Change the queue by an entry, which is at `place`. Tells what is odd about it.

        `fast.apply_run` does the same to the entries that journals are full of.
        """
        odd = _APPLY[entry.op](self, entry, place)
        self.named_xid = entry.xid if entry.op is Op.ADD_XID else None
        return odd

    def remove(self, count: int) -> int:
        """Take so many items from the head, or as many as there are; returns how many were missing."""
        taken = min(count, len(self.live) - self.head)
        self.head += taken
        return count - taken

    def trim(self) -> None:
        """Give back the slots of taken items once they are many. Costs no more than taking the items did."""
        spare = self.head - len(self.open) - len(self.displaced)
        if spare > _SPARE_SLOTS and spare > len(self.live) // 2:
            del self.live[:spare]
            self.head -= spare
        if not self.open:
            self.open_runs.clear()

    def finish(self) -> Places:
        """Put all that is out back to the head, the lowest xid first. The state is used up."""
        out = sorted([*self.displaced, *self.open.items()], key=lambda one: one[0])
        first = self.head - len(out)
        self.live[first : self.head] = array("q", (place for _, place in out))
        del self.live[:first]
        return Places(self.live, [xid for xid, _ in out])

    def _add(self, entry: Entry, place: int) -> None:
        self.live.append(place if entry.data_size else place | EMPTY)

    def _continue(self, entry: Entry, place: int) -> None:
        self._confirm(entry, place)
        self._add(entry, place)

    def _remove(self, entry: Entry, place: int) -> DoubtKind | None:
        return DoubtKind.SURPLUS if self.remove(1) else None

    def _reserve_next(self, entry: Entry, place: int) -> DoubtKind | None:
        """An xid that is not written: the one of an ADD_XID right before it, or else the next one."""
        if self.head == len(self.live):
            return DoubtKind.SURPLUS
        if self.named_xid is not None:
            return self._reserve(self.named_xid)
        self.last_xid = self.open_runs.next_xid(self.last_xid, self.open)
        return self._reserve(self.last_xid)

    def _reserve_named(self, entry: Entry, place: int) -> DoubtKind | None:
        self.last_xid = _xid(entry)
        return self._reserve(self.last_xid)

    def _reserve(self, xid: int) -> DoubtKind | None:
        if self.head == len(self.live):
            return DoubtKind.SURPLUS
        before = self.open.get(xid)
        if before is not None:
            self.displaced.append((xid, before))
        self.open[xid] = self.live[self.head]
        self.head += 1
        return None if before is None else DoubtKind.REOPENED

    def _unremove(self, entry: Entry, place: int) -> None:
        back = self.open.pop(_xid(entry), None)
        self.open_runs.close(_xid(entry))
        if back is not None:
            self.head -= 1
            self.live[self.head] = back

    def _confirm(self, entry: Entry, place: int) -> None:
        self.open.pop(_xid(entry), None)
        self.open_runs.close(_xid(entry))

    def _save_xid(self, entry: Entry, place: int) -> None:
        self.last_xid = _xid(entry)


def _xid(entry: Entry) -> int:
    assert entry.xid is not None, entry  # the decoder gives one to every entry that has the field
    return entry.xid


_APPLY: dict[Op, Callable[[QueueState, Entry, int], DoubtKind | None]] = {
    Op.ADD: QueueState._add,
    Op.REMOVE: QueueState._remove,
    Op.ADDX: QueueState._add,
    Op.REMOVE_TENTATIVE: QueueState._reserve_next,
    Op.SAVE_XID: QueueState._save_xid,
    Op.UNREMOVE: QueueState._unremove,
    Op.CONFIRM_REMOVE: QueueState._confirm,
    Op.ADD_XID: QueueState._add,
    Op.CONTINUE: QueueState._continue,
    Op.REMOVE_TENTATIVE_XID: QueueState._reserve_named,
    # What follows it repeats the open reads; the file ends with that.
    Op.STATE_DUMP: QueueState._save_xid,
}
