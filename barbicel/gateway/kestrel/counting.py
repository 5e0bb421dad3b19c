"""How many items a stretch of a log holds for each of some lines, and how many bytes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeAlias

from twisted.internet.defer import Deferred, inlineCallbacks

from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.kestrel.stretches import read_stretch
from barbicel.stroma.ranges import RangeSet

__all__ = ["Found", "count_items"]

COUNT_BYTES = 1 << 20

# (items, bytes) by group.
Found: TypeAlias = dict[str, tuple[int, int]]


@inlineCallbacks
def count_items(
    read: Callable[[Callable[[], int]], Deferred[int]],
    partition: Partition,
    start: int,
    end_offset: int,
    wanted: dict[str, RangeSet],
) -> Generator[Deferred[int], Any, Found]:
    """`wanted` has the groups, and what each is done with already. `read` calls what it is given in a thread.

    A stretch at a time, and nothing of it is kept: others who wait for a thread have their turn in between.
    Stops as soon as the log is closed. Fails with BarbicelError.
    """
    found: Found = dict.fromkeys(wanted, (0, 0))
    while start < end_offset:
        start = yield read(partial(_count_stretch, partition, start, end_offset, wanted, found))
    return found


def _count_stretch(
    partition: Partition, start: int, end_offset: int, wanted: dict[str, RangeSet], found: Found
) -> int:
    """Where the next one begins."""
    stretch = read_stretch(partition, start, end_offset, COUNT_BYTES)
    items = [item for item in stretch.items if item.offset < end_offset]
    for group, acked in wanted.items():
        sizes = [
            len(item.data)
            for item in items
            if (not stretch.audiences or group in stretch.audiences.get(item.offset, (group,)))
            and (not acked or item.offset not in acked)
        ]
        count, size = found[group]
        found[group] = (count + len(sizes), size + sum(sizes))
    return stretch.end_offset
