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
from hashlib import sha256
from typing import NamedTuple

from barbicel.closing import Closing
from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.codecs.producer_snapshot import MAX_SEQUENCE
from barbicel.errors import BarbicelError
from barbicel.gateway.migration.marks import StoredItem
from barbicel.kestrel_compat.names import QueueName

__all__ = [
    "LEDGER_TOPIC",
    "MAX_ITEM_BYTES",
    "NOT_NUMBERED",
    "Begun",
    "Completed",
    "Keeping",
    "Numbers",
    "Reading",
    "Target",
    "TargetGone",
    "TargetQueue",
    "TargetRefused",
    "check_here",
    "check_keeping",
    "check_topic",
    "parse_begun",
    "parse_completed",
    "render_begun",
    "render_completed",
]

LEDGER_TOPIC = "barbicel-imports"
LEDGER_SETTINGS = {"retention.ms": "-1", "retention.bytes": "-1"}
# What a log takes, and some room for what is around it.
MAX_ITEM_BYTES = (128 << 20) - (64 << 10)
# Producer ids from here on are imports': a gateway counts its own from 0.
FIRST_PRODUCER_ID = 1 << 62
# Behind the import's id where a group says what is under way.
AGAIN = "+"


class TargetRefused(BarbicelError):
    """The target cannot be used for this."""


class TargetGone(TargetRefused):
    """Nobody answers there, though it was waited for."""


class Numbers(NamedTuple):
    """What makes a batch the same one, whoever sends it and how often. A log stores it once."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    # It lies from here on.
    first_offset: int = 0


NOT_NUMBERED = Numbers(-1, -1, -1)


class Begun(NamedTuple):
    """An import that is under way."""

    import_id: str
    # Its records lie from here on.
    first_offset: int
    # Others were imported or begun before it, perhaps these very journals: its numbers are not theirs.
    is_again: bool = False

    def numbers(self, stored: int) -> Numbers:
        """Of the batch behind so many records. Whoever goes on with this import has the same ones."""
        name = f"{self.import_id}@{self.first_offset}" if self.is_again else self.import_id
        digest = int.from_bytes(sha256(name.encode()).digest()[:8], "big")
        producer_id = FIRST_PRODUCER_ID | digest & FIRST_PRODUCER_ID - 1
        return Numbers(producer_id, 0, stored & MAX_SEQUENCE, self.first_offset)


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
    """How far a line was read: offset by offset, and what can only be counted."""

    # All below is read.
    acked_until: int
    is_acked: Callable[[int], bool]
    # Given how many items of the line are not known to be read, and up to which offset they were looked for:
    # how many of them are gone all the same. None if `is_acked` knows all.
    count_taken: Callable[[int, int], int] | None = None


class Keeping(NamedTuple):
    """What a topic does with what it stores, as Kafka writes it."""

    retention_ms: str
    retention_bytes: str
    timestamp_type: str


class TargetQueue(Closing):
    """One queue's log. Use it in a `with` block."""

    @property
    @abstractmethod
    def groups(self) -> frozenset[str]:
        """Of all lines that it has."""

    @property
    @abstractmethod
    def start_offset(self) -> int: ...

    @property
    @abstractmethod
    def end_offset(self) -> int: ...

    @abstractmethod
    def begun(self) -> Begun | None: ...

    @abstractmethod
    def begin(self, import_id: str, *, is_again: bool = False) -> Begun:
        """From the log's end on. Durable on return; an earlier one that was under way is forgotten."""

    @abstractmethod
    def scan(self, from_offset: int) -> Iterator[StoredItem]: ...

    @abstractmethod
    def append(self, batch: Sequence[NewRecord], numbers: Numbers = NOT_NUMBERED) -> None:
        """One batch, stored once for each of its numbers. It need not be durable on return; `settle` says
        what became of it."""

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

    # It was waited for once, which is enough: a run may have thousands of queues.
    is_gone = False

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


def render_begun(begun: Begun) -> str:
    """For the metadata of the group's commit, whose offset is the first one."""
    return begun.import_id + AGAIN if begun.is_again else begun.import_id


def parse_begun(metadata: str, first_offset: int) -> Begun:
    return Begun(metadata.removesuffix(AGAIN), first_offset, metadata.endswith(AGAIN))


def check_here(target: Target) -> None:
    """Raises TargetGone."""
    if target.is_gone:
        raise TargetGone("not tried: the gateway is gone")


def check_topic(topic: str) -> None:
    """Raises TargetRefused for what can be no queue's topic."""
    if topic == LEDGER_TOPIC:
        raise TargetRefused(f"the topic {LEDGER_TOPIC!r} is where imports are noted: no queue can have it")


def check_keeping(topic: str, keeping: Keeping) -> None:
    """Raises TargetRefused for a topic that would lose items or their times. A queue's own topic does not."""
    if keeping.timestamp_type != "CreateTime":
        raise TargetRefused(
            f"topic {topic!r} gives records its own time, and items would lose theirs",
            hint="set its message.timestamp.type to CreateTime",
        )
    for name, value in (("retention.ms", keeping.retention_ms), ("retention.bytes", keeping.retention_bytes)):
        if int(value) >= 0:
            raise TargetRefused(
                f"topic {topic!r} has {name}={value}, which would delete items that nobody has read",
                hint=f"set its {name} to -1",
            )


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
