"""Where queues go: what an import, its verification and its ledger need of a data directory or a gateway.

What must happen in which order, so that a kill at any moment costs nothing:

    topic and groups exist, durably → the import has begun, durably → batches, each with its mark
    → the import is in the ledger, durably → it is not under way any more

While an import is under way a group of its own holds the log from where it began: a queue's log gives up what
all groups are past, and with it would go the marks. What is complete is in a topic of its own, for the same
reason: a queue that was imported, read to its end and trimmed must not be imported again.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from barbicel.closing import Closing
from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.errors import BarbicelError
from barbicel.gateway.migration.marks import StoredItem
from barbicel.kestrel_compat.names import QueueName

__all__ = [
    "LEDGER_TOPIC",
    "MAX_ITEM_BYTES",
    "Begun",
    "Completed",
    "Reading",
    "Target",
    "TargetQueue",
    "TargetRefused",
    "guard_group",
    "parse_completed",
    "render_completed",
]

LEDGER_TOPIC = "barbicel-imports"
LEDGER_SETTINGS = {"retention.ms": "-1", "retention.bytes": "-1"}
# What a log takes, and some room for what is around it.
MAX_ITEM_BYTES = (128 << 20) - (64 << 10)


class TargetRefused(BarbicelError):
    """The target cannot be used for this."""


class Begun(NamedTuple):
    """An import that is under way."""

    import_id: str
    # Its records lie from here on.
    first_offset: int


class Completed(NamedTuple):
    """An entry of the ledger."""

    topic: str
    # A queue that was deleted and made anew has another one.
    topic_id: str
    import_id: str
    first_offset: int
    # In the log; fewer than items if lines share them.
    records: int
    completed_ms: int


class Reading(NamedTuple):
    """How far a line was read: offset by offset, or only how many items it has, whatever can be known."""

    is_acked: Callable[[int], bool] | None
    # Given how many are expected: a gateway counts in the background, and is waited for if it has fewer.
    count_items: Callable[[int], int] | None


class TargetQueue(Closing):
    """One queue's log. Use it in a `with` block."""

    @property
    @abstractmethod
    def groups(self) -> frozenset[str]:
        """Of all lines that it has."""

    @property
    @abstractmethod
    def start_offset(self) -> int: ...

    @abstractmethod
    def begun(self) -> Begun | None: ...

    @abstractmethod
    def begin(self, import_id: str) -> Begun:
        """From the log's end on. Durable on return; an earlier one that was under way is forgotten."""

    @abstractmethod
    def scan(self, from_offset: int) -> Iterator[StoredItem]: ...

    @abstractmethod
    def append(self, batch: Sequence[NewRecord]) -> None:
        """One batch. It need not be durable on return; `settle` says what became of it."""

    @abstractmethod
    def settle(self) -> None:
        """On return all that was appended is durable; raises what has failed since."""

    @abstractmethod
    def keep_open(self, group: str, offsets: Sequence[int], deadline_ms: int) -> None: ...

    @abstractmethod
    def end(self) -> None:
        """No import is under way any more."""

    @abstractmethod
    def reading(self, group: str) -> Reading | None:
        """None if there is no such line."""


class Target(Closing):
    """All queues, and the ledger."""

    @abstractmethod
    def find(self, topic: str) -> TargetQueue | None: ...

    @abstractmethod
    def topic_id(self, topic: str) -> str | None:
        """None if there is no such topic."""

    @abstractmethod
    def make(self, names: Sequence[QueueName]) -> TargetQueue:
        """The queue of these lines. On return its topic and their groups exist, durably; groups that are new
        begin at the log's end."""

    @abstractmethod
    def completed(self) -> list[Completed]:
        """The ledger, oldest first."""

    @abstractmethod
    def note_completed(self, entry: Completed) -> None:
        """Durable on return."""


def guard_group(topic: str) -> str:
    """The group that holds the log of a topic while an import is under way."""
    return f"barbicel-import.{topic}"


def render_completed(entry: Completed) -> bytes:
    return json.dumps(entry._asdict(), sort_keys=True).encode()


def parse_completed(text: bytes) -> Completed | None:
    """None for what is no entry: it is a topic like any other, and anybody can write to it."""
    try:
        fields = json.loads(text)
        entry = Completed(**fields)
    except (ValueError, TypeError, RecursionError):
        return None
    texts, numbers = entry[:3], entry[3:]
    if not all(isinstance(one, str) for one in texts) or not all(type(one) is int for one in numbers):
        return None
    return entry
