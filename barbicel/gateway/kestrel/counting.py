"""How many items a stretch of a log holds for each of some lines, and how many bytes. For a thread."""

from __future__ import annotations

from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.kestrel.stretches import read_stretch
from barbicel.stroma.ranges import RangeSet

__all__ = ["count_items"]

COUNT_BYTES = 1 << 20


def count_items(
    partition: Partition, start: int, end_offset: int, wanted: dict[str, RangeSet]
) -> dict[str, tuple[int, int]]:
    """(items, bytes) by group. `wanted` has the groups, and what each is done with already.

    Holds a megabyte at a time, and stops as soon as the log is closed. Raises BarbicelError.
    """
    found = dict.fromkeys(wanted, (0, 0))
    while start < end_offset:
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
        start = stretch.end_offset
    return found
