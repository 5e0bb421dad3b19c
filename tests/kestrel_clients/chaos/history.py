"""What clients were told and have seen during a run: all that the checker knows.

It is noted in the process that is not killed, by many threads: each only adds to lists and dicts, and changes
only its own deliveries. It is checked when all of them have ended. Moments are seconds of one clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Delivery", "History"]


@dataclass(slots=True)
class Delivery:
    """One time that an item was given to somebody. A line is a queue's own readers, or those of a child."""

    line: str
    item: bytes
    who: str
    given: float
    # Since when it is not open any more for all that the reader knows: it is being closed or aborted, or the
    # connection is gone.
    ended: float | None = None
    # When the close was asked for, and when that was answered.
    closing: float | None = None
    confirmed: float | None = None

    def __str__(self) -> str:
        return f"{self.item[:40]!r} in {self.line} to {self.who} at {self.given:.3f}"


@dataclass
class History:
    sent: dict[bytes, float] = field(default_factory=dict)
    # Answered STORED.
    stored: dict[bytes, float] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    # Just before each.
    kills: list[float] = field(default_factory=list)
    # By line: what somebody asked to close.
    closed: dict[str, set[bytes]] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    def backlog(self) -> int:
        """How much the slowest line has still to read; it is not exact while threads work."""
        return max((len(self.stored) - len(closed) for closed in self.closed.values()), default=0)

    def is_read(self) -> bool:
        """Whether everything that was answered STORED is read in every line."""
        return all(self.stored.keys() <= closed for closed in self.closed.values())
