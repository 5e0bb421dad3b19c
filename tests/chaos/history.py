"""What clients were told and have seen during a run: all that the checker knows.

Everything is noted where it happens, in the process that is not killed: by many threads, each of which only
adds to lists and dicts, and never changes what is there. It is checked when all of them have ended.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from traceback import extract_tb
from typing import NamedTuple, TypeAlias

__all__ = ["Commit", "Failure", "History", "Polls", "Position", "Seen", "Stream", "Value"]


class Stream(NamedTuple):
    """What one producer writes to one partition: the sequence numbers 0, 1, 2, ..."""

    producer: str
    partition: int


class Value(NamedTuple):
    """A record's content; no two records that were sent have the same."""

    stream: Stream
    sequence: int

    def __str__(self) -> str:
        return f"{self.stream.producer}/{self.sequence}"


class Seen(NamedTuple):
    """A record as a consumer was given it; without a value it is nothing that was ever sent."""

    offset: int
    value: Value | None


class Failure(NamedTuple):
    """A send that the client gave up. If it is certain, the gateway has said that it stored nothing."""

    reason: str
    is_certain: bool


class Commit(NamedTuple):
    """A commit of a group in a partition. `answered` is None if nobody said that it was stored."""

    asked: int
    answered: int | None
    offset: int
    who: str = ""


class Position(NamedTuple):
    """Where the gateway said that the group is, between two moments. Offset 0 is "nothing committed"."""

    asked: int
    answered: int
    offset: int


# What one consumer was given, in that order, by partition.
Polls: TypeAlias = dict[int, list[Seen]]


def _polls() -> Polls:
    return defaultdict(list)


@dataclass
class History:
    """A run. `tick` gives moments: of two, the later one is larger."""

    # How many values of a stream were handed to its client.
    sent: dict[Stream, int] = field(default_factory=dict)
    # The offset that an acknowledgement named, by stream and sequence; None if it named none.
    acked: dict[Stream, dict[int, int | None]] = field(default_factory=lambda: defaultdict(dict))
    failed: dict[Stream, dict[int, Failure]] = field(default_factory=lambda: defaultdict(dict))
    # Producers that are not idempotent: a retry may store a value twice.
    may_repeat: set[str] = field(default_factory=set)
    # Consumers that were assigned every partition from its start to the end of the run.
    readers: dict[str, Polls] = field(default_factory=lambda: defaultdict(_polls))
    # Members of the group, a new one with every assignment; they begin where the group was.
    members: dict[str, Polls] = field(default_factory=lambda: defaultdict(_polls))
    commits: dict[int, list[Commit]] = field(default_factory=lambda: defaultdict(list))
    positions: dict[int, list[Position]] = field(default_factory=lambda: defaultdict(list))
    # The log as it was read when all was over, from the first offset to the end that the gateway named.
    log: Polls = field(default_factory=_polls)
    ends: dict[int, int] = field(default_factory=dict)
    # What should not have happened and is not about records: a consumer that could not go on, a traceback.
    troubles: list[str] = field(default_factory=list)
    _ticks: count[int] = field(default_factory=lambda: count(1))

    def tick(self) -> int:
        return next(self._ticks)

    def note_end(self, name: str, error: Exception) -> None:
        """A client ended with an error; with the innermost lines that led to it."""
        frames = extract_tb(error.__traceback__)
        way = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
        self.troubles.append(f"{name} ended: {error!r} ({way})")

    @property
    def acked_count(self) -> int:
        return sum(map(len, list(self.acked.values())))
