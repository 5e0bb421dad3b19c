"""How many bytes of answers may be in memory: read for a fetch, or written and not taken by the client yet.

Fetches ask how large they may be; when the budget is used up they still get a little, so that everybody
moves on. Reactor thread only.
"""

from __future__ import annotations

__all__ = ["AnswerBudget"]

# A fetch may be answered with so much whatever others hold.
LEAST_BYTES = 1 << 20


class AnswerBudget:
    def __init__(self, max_bytes: int = (1 << 31) - 1) -> None:
        self._max_bytes = max_bytes
        self.held_bytes = 0

    @property
    def room_bytes(self) -> int:
        """How many bytes an answer may have that could as well be smaller."""
        return max(LEAST_BYTES, self._max_bytes - self.held_bytes)

    def hold(self, size: int) -> None:
        self.held_bytes += size

    def release(self, size: int) -> None:
        self.held_bytes -= size
