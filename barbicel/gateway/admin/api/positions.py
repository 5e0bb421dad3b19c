"""Where groups are in their partitions, read as often as that does no harm.

A position that is not in memory is a file, and whoever commits waits for the thread that reads it. So when
all groups together take long to read, what was read is told again for a while: at most a fifth of the time is
spent on reading, however many look. The ends of partitions are always those of now.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from barbicel.errors import BarbicelError
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.broker.consumption import Committed, Place

__all__ = ["Position", "Positions"]

# Positions that are read at a time: commits wait behind them.
PLACES_AT_ONCE = 50
# What takes less, of all groups together, is read whenever somebody asks.
QUICK_SECONDS = 0.25
# Or else it is told again for so many times as long as it takes to read, but no longer than this.
KEPT_TIMES = 4
MAX_KEPT_SECONDS = 30.0


class Position(NamedTuple):
    """Where a group is in a partition that exists. `error` says why that is not known."""

    topic: str
    partition: int
    committed: int
    end_offset: int
    error: str | None = None

    @property
    def lag(self) -> int:
        return max(0, self.end_offset - self.committed)


class _Kept(NamedTuple):
    read_at_s: float
    took_s: float
    found: Mapping[Place, Committed | BarbicelError]


class Positions:
    """Reactor thread only."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._seconds = broker.reactor.seconds
        self._kept: dict[str, _Kept] = {}
        # What reading all that is kept took.
        self._total_s = 0.0

    async def of(self, group: str) -> list[Position]:
        """Of all partitions that the group has committed in, in their order."""
        kept = self._kept.get(group)
        if kept is None or self._seconds() - kept.read_at_s >= self._max_age_s:
            kept = await self._read(group)
        rows: list[Position] = []
        for place, committed in kept.found.items():
            partition = self._broker.topics.partition(*place)
            if partition is None or partition.is_offline:
                continue
            if isinstance(committed, BarbicelError):
                rows.append(Position(*place, 0, 0, str(committed)))
            else:
                rows.append(Position(*place, committed.offset, partition.end_offset))
        return rows

    def forget_others(self, groups: Collection[str]) -> None:
        """Whatever is not among all groups that there are: nobody asks for those that are gone.

        Else each would be kept for good, and what reading it once took would make the others' positions old.
        """
        for group in self._kept.keys() - groups:
            self._total_s -= self._kept.pop(group).took_s
        if not self._kept:
            self._total_s = 0.0  # what rounding has left

    @property
    def _max_age_s(self) -> float:
        if self._total_s < QUICK_SECONDS:
            return 0.0
        return min(MAX_KEPT_SECONDS, KEPT_TIMES * self._total_s)

    async def _read(self, group: str) -> _Kept:
        start_s = self._seconds()
        places = self._broker.offsets.places(group)
        found: dict[Place, Committed | BarbicelError] = {}
        for first in range(0, len(places), PLACES_AT_ONCE):
            found |= await self._broker.offsets.fetch(group, places[first : first + PLACES_AT_ONCE])
        read = _Kept(self._seconds(), self._seconds() - start_s, dict(sorted(found.items())))
        self._keep(group, read)
        return read

    def _keep(self, group: str, read: _Kept) -> None:
        """A group without positions may be gone for good."""
        before = self._kept.pop(group, None)
        self._total_s -= 0.0 if before is None else before.took_s
        if read.found:
            self._kept[group] = read
            self._total_s += read.took_s
