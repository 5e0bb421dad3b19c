"""One line of readers at a queue: what it has read ahead, handed out, got back and is done with.

A queue's own readers are one line, and those of each fanout child are another. All read the same log; what a
line is done with is a Stroma group, and here are the decisions that become its events. Nothing here waits:
whoever owns the line fills it from the log, and writes its events before it answers.

Invariant: every offset below `frontier` is done with; from there to `cursor`, which is never below it, each
is in `acked`, open, returned, read ahead, or popped and on its way to another queue; from `cursor` on nothing
was looked at yet. Of what is returned there may be only a mark: the item itself is to be read again.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush

from barbicel.codecs.stroma_events import (
    Ack,
    BumpAckedUntil,
    ClearInflight,
    Event,
    MarkInflight,
    Release,
)
from barbicel.codecs.stroma_format import MAX_EPOCH, NO_DEADLINE_MS
from barbicel.kestrel_compat.items import Item, Mark, Stretch
from barbicel.stroma.ranges import RangeSet

__all__ = ["Line"]

# What an item takes as an object, beside its data.
ITEM_BYTES = 200


class Line:
    """See the module. `deliveries` has the count of what was handed out before and is not now."""

    def __init__(
        self,
        group: str,
        frontier: int,
        acked: RangeSet,
        deliveries: dict[int, int],
        lent: dict[int, int] | None = None,
    ) -> None:
        self.group = group
        self.frontier = frontier
        self.cursor = frontier
        self.acked = acked
        self.deliveries = deliveries
        # Open somewhere else, by readers of the Kestrel that the queue came from: until when. What of it was
        # read is known beside it.
        self.lent = lent or {}
        self._lent_items: dict[int, Mark] = {}
        # Where the last of it that was read ends: it must not be read a second time.
        self._lent_end = 0
        # A flush has forgotten the count, and they are still to be read.
        self._uncounted: set[int] = set()
        # Open reads: how often each was handed out, this time included.
        self.open: dict[int, int] = {}
        # How often open reads ended by themselves: who counts on one has to look again.
        self.lapses = 0
        # What can be had: the readers' own counts, for statistics and limits.
        self.items = 0
        self.bytes = 0
        self._ahead: deque[Item] = deque()
        self._returned: list[Item | Mark] = []
        self._marks = 0
        self.ahead_bytes = 0
        self._events: list[Event] = []
        self._bumped_to = frontier

    # --- what can be had ----------------------------------------------------------------------------

    @property
    def held_items(self) -> int:
        """In memory, to be handed out."""
        return len(self._ahead) + len(self._returned) - self._marks

    @property
    def held_bytes(self) -> int:
        """What it takes in memory."""
        return self.ahead_bytes + ITEM_BYTES * self.held_items

    def first(self) -> Item | Mark | None:
        """The next item, or what is known of it. What came back is older than all that was read ahead."""
        if self._returned:
            return self._returned[0]
        return self._ahead[0] if self._ahead else None

    def head(self) -> Item | None:
        """The next item, if it is in memory."""
        first = self.first()
        return None if isinstance(first, Mark) else first

    @property
    def missing(self) -> int | None:
        """The offset of the next item, if it is to be read again: `restore` takes what is found there."""
        return self._returned[0].offset if self._marks and isinstance(self._returned[0], Mark) else None

    def pop(self) -> Item:
        """Take the head out; then it has to be acked or opened."""
        item = heappop(self._returned) if self._returned else self._ahead.popleft()
        assert not isinstance(item, Mark), "it is to be restored before"
        self.ahead_bytes -= len(item.data)
        self.items -= 1
        self.bytes -= len(item.data)
        return item

    def receive(self, stretch: Stretch) -> None:
        """What the log has from the cursor on. Offsets that hold nothing for this line are done with."""
        assert stretch.start_offset <= self.cursor, "or something would be passed over unread"
        start, is_whole = self.cursor, len(stretch.items) == stretch.end_offset - stretch.start_offset
        is_plain = not (self.acked or stretch.audiences or self.lent or self._uncounted)
        if is_whole and is_plain and start == stretch.start_offset:
            wanted = stretch.items
        else:
            wanted = [item for item in stretch.items if self._is_wanted(item, stretch)]
            self._pass_over(start, stretch.end_offset, wanted)
            self._count_again(wanted)
            wanted = [item for item in wanted if not self._is_lent(item)]
        self._ahead.extend(wanted)
        self.ahead_bytes += sum([len(item.data) for item in wanted])
        self.cursor = max(self.cursor, stretch.end_offset)

    def _is_wanted(self, item: Item, stretch: Stretch) -> bool:
        audience = stretch.audiences.get(item.offset)
        if audience is not None and self.group not in audience:
            return False
        return item.offset >= self.cursor and item.offset not in self.acked

    def _is_lent(self, item: Item) -> bool:
        """Then it is kept until it is given back, and cannot be had before."""
        if item.offset not in self.lent:
            return False
        self._lent_items[item.offset] = item.mark
        self._lent_end = item.offset + 1
        self.items -= 1
        self.bytes -= len(item.data)
        return True

    def _count_again(self, wanted: list[Item]) -> None:
        if self._uncounted:
            for item in wanted:
                if item.offset in self._uncounted:
                    self._uncounted.remove(item.offset)
                    self.items += 1
                    self.bytes += len(item.data)

    def take_back(self, now_ms: int) -> bool:
        """What was lent until now can be had; whether there was any."""
        due = [offset for offset, deadline_ms in self.lent.items() if deadline_ms <= now_ms]
        for offset in due:
            del self.lent[offset]
            self._events.append(ClearInflight(offset))
            item = self._lent_items.pop(offset, None)
            if item is not None:  # or else it is still to be read
                self._return(item)
        return bool(due)

    def _pass_over(self, start: int, end: int, wanted: list[Item]) -> None:
        for item in wanted:
            self._ack_range(start, item.offset)
            start = item.offset + 1
        self._ack_range(start, end)

    def forget_ahead(self) -> None:
        """Give the memory back: it is read again when somebody asks for it.

        Of the head a mark stays, or whoever looks for expired items would read everything again each time.
        """
        if not self.held_items:
            return
        marks: list[Item | Mark] = [held.mark for held in self._returned]
        while self._ahead and (self._ahead[0].offset < self._lent_end or not marks):
            marks.append(self._ahead.popleft().mark)
        if self._ahead:
            self.cursor = self._ahead[0].offset
            self._ahead.clear()
        heapify(marks)
        self._returned, self._marks, self.ahead_bytes = marks, len(marks), 0

    def restore(self, stretch: Stretch) -> None:
        """What was read again, for the marks in it. What the log does not have any more is done with."""
        found = {item.offset: item for item in stretch.items}
        looked_at: list[Item | Mark] = []
        while self._returned and self._returned[0].offset < stretch.end_offset:
            held = heappop(self._returned)
            if isinstance(held, Mark) and held.offset >= stretch.start_offset:
                self._marks -= 1
                item = found.get(held.offset)
                if item is None:
                    self._lose(held)
                    continue
                self.ahead_bytes += len(item.data)
                held = item
            looked_at.append(held)
        for held in looked_at:
            heappush(self._returned, held)

    def _lose(self, mark: Mark) -> None:
        self.items -= 1
        self.bytes -= mark.size
        self.ack(mark.offset)

    # --- what becomes of items ----------------------------------------------------------------------

    def ack(self, offset: int) -> None:
        """Done with for good."""
        self.open.pop(offset, None)
        if self.deliveries:
            self.deliveries.pop(offset, None)
        if offset == self.frontier and not self.acked:
            # In order, which is how most queues are read.
            self.frontier = offset + 1
        else:
            self._ack_range(offset, offset + 1)

    def _ack_range(self, start: int, end: int) -> None:
        if end <= max(start, self.frontier):
            return
        if self.deliveries:
            self._forget_deliveries(start, end)
        if start > self.frontier:
            # Before the range is added: what is in it already has its event.
            for gap in self.acked.gaps(start, end):
                self._events += [Ack(offset) for offset in range(gap.start, gap.end)]
            self.acked.add(start, end)
            return
        self.acked.add(self.frontier, end)
        first = self.acked.first
        assert first is not None
        self.frontier = first.end
        # What was done with before a restart may lie beyond what was read since.
        self.cursor = max(self.cursor, first.end)
        self.acked.remove(first.start, first.end)

    def _forget_deliveries(self, start: int, end: int) -> None:
        few = range(start, end) if end - start < len(self.deliveries) else list(self.deliveries)
        for offset in few:
            if start <= offset < end:
                self.deliveries.pop(offset, None)

    def hand_out(self, item: Item, deadline_ms: int | None) -> int:
        """An open read; returns its number, by which a later delivery of the same item is told from it."""
        count = min(MAX_EPOCH, self.deliveries.pop(item.offset, 0) + 1)
        self.open[item.offset] = count
        self._events.append(
            MarkInflight(item.offset, NO_DEADLINE_MS if deadline_ms is None else deadline_ms, count)
        )
        return count

    def is_open(self, item: Item | Mark, count: int) -> bool:
        return self.open.get(item.offset) == count

    def give_back(self, item: Item | Mark) -> None:
        """Nobody has it any more, and it is the next to be handed out; its deliveries count."""
        count = self.open.pop(item.offset)
        self.deliveries[item.offset] = count
        self._events.append(Release(item.offset, count))
        self._return(item)

    def _return(self, item: Item | Mark) -> None:
        heappush(self._returned, item)
        self.items += 1
        if isinstance(item, Mark):
            self._marks += 1
            self.bytes += item.size
        else:
            self.bytes += len(item.data)
            self.ahead_bytes += len(item.data)

    def flush(self, end_offset: int) -> int:
        """Done with everything that can be had below the end; returns how many items that were.

        Open reads go on.
        """
        flushed = self.items
        still_open = sorted([*self.open, *self.lent])
        start = self.frontier
        for offset in still_open:
            self._ack_range(start, offset)
            start = offset + 1
        self._ack_range(start, end_offset)
        self._ahead.clear()
        self._returned.clear()
        self.items = self.bytes = self.ahead_bytes = self._marks = 0
        self._uncounted = {offset for offset in self.lent if offset >= self.cursor}
        self.cursor = max(self.cursor, min(self._uncounted, default=end_offset))
        return flushed

    def lapse_all(self) -> None:
        """Nobody has anything open any more."""
        self.open.clear()
        self.lapses += 1

    # --- events -------------------------------------------------------------------------------------

    def take_events(self) -> list[Event]:
        """What happened since the last call, for Stroma. In order, and the frontier last: it covers much."""
        events, self._events = self._events, []
        if self.frontier > self._bumped_to:
            self._bumped_to = self.frontier
            events.append(BumpAckedUntil(self.frontier))
        return events
