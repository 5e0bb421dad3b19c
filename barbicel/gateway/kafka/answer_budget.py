"""How many bytes of answers may be in memory: read for a fetch, or written and not taken by the client yet.

Fetches ask how large they may be; when the budget is used up they still get a little, or one batch, so that
everybody moves on. That may add up to a quarter of the budget: beyond it somebody has to give way. And one
client is answered with little at a time until it has taken more than the kernel holds for it: those who ask
for much and read nothing use up neither the budget nor the time that reading it from the disk takes. Reactor
thread only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["AnswerBudget", "trusted_bytes"]

OVERDRAFT_SHARE = 4
# A fetch may be answered with so much whatever others hold.
LEAST_BYTES = 64 << 10
# So much at a time is for every client: what a consumer asks for of a partition unless it is told otherwise.
FIRST_BYTES = 1 << 20
# And then a part of all that it has taken. For one that does not read the kernel takes a megabyte, and what
# the client has made room for.
TAKEN_IN_PARTS = 4
# How many may read from the disk at a time when there is no room: each may find a batch that is larger.
FEW_READS = 4


def trusted_bytes(sent_bytes: int) -> int:
    """What one answer may have for a client that was sent so much before."""
    return max(FIRST_BYTES, sent_bytes // TAKEN_IN_PARTS)


class AnswerBudget:
    def __init__(self, max_bytes: int = (1 << 31) - 1) -> None:
        self._max_bytes = max_bytes
        self.held_bytes = 0
        self._reads = 0
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def has_room(self) -> bool:
        return self.held_bytes < self._max_bytes

    @property
    def is_overdrawn(self) -> bool:
        return self.held_bytes > self._max_bytes + self._max_bytes // OVERDRAFT_SHARE

    @property
    def room_bytes(self) -> int:
        """How many bytes an answer may have that could as well be smaller."""
        return max(LEAST_BYTES, self._max_bytes - self.held_bytes)

    def hold(self, size: int) -> None:
        self.held_bytes += size

    def release(self, size: int) -> None:
        self.held_bytes -= size

    def when_readable(self, read: Callable[[], None]) -> None:
        """Call it at once, or when others are done: each has to call `end_read`."""
        self._waiting.append(read)
        self._read_on()

    def end_read(self) -> None:
        self._reads -= 1
        self._read_on()

    def _read_on(self) -> None:
        while self._waiting and (self.has_room or self._reads < FEW_READS):
            self._reads += 1
            self._waiting.popleft()()
