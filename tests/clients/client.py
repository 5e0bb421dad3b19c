"""What the checks ask of a Kafka client, in one form for all of them.

An adapter translates and nothing else: what it cannot do with its client's own calls is listed in `lacks`,
by the feature's name in features.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

__all__ = [
    "HEARTBEAT_MS",
    "SESSION_TIMEOUT_MS",
    "Admin",
    "Client",
    "Consumer",
    "Headers",
    "NewRecord",
    "Producer",
    "ProducerOptions",
    "StoredRecord",
    "send_all",
    "until",
]

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
T = TypeVar("T")

DEADLINE_S = 30.0
# Long enough for a busy machine to send a heartbeat, short enough to wait for after a crash.
SESSION_TIMEOUT_MS = 2_000
HEARTBEAT_MS = 200


class NewRecord(NamedTuple):
    """What is sent."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class StoredRecord(NamedTuple):
    """What comes back."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True)
class ProducerOptions:
    """Kafka's own words: a codec is none, gzip, snappy, lz4 or zstd; acks is 0, 1 or all."""

    codec: str = "none"
    acks: str = "all"
    idempotent: bool = False


class Producer(Protocol):
    def send(self, topic: str, partition: int, record: NewRecord) -> None:
        """Returns before the record is stored."""

    def flush(self) -> list[int]:
        """Waits until all that was sent is answered; the offsets of all of it, in the order of `send`."""


class Consumer(Protocol):
    """Reads by assignment or as a member of a group. Commits only when it is told to."""

    def assign(self, topic: str, partition: int, offset: int) -> None: ...

    def subscribe(self, topic: str) -> None: ...

    def poll(self) -> list[StoredRecord]:
        """What there is now, or comes within a moment."""

    def assignment(self) -> set[int]:
        """The partitions of the topic that it reads from."""

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None: ...

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Partition → the offset to go on from. Returns when it is stored."""


class Admin(Protocol):
    def brokers(self) -> list[tuple[str, int]]: ...

    def create_topic(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None: ...

    def topics(self) -> set[str]: ...

    def partitions_of(self, topic: str) -> int: ...

    def add_partitions(self, topic: str, total: int) -> None: ...

    def settings_of(self, topic: str) -> dict[str, str | None]: ...

    def change_setting(self, topic: str, name: str, value: str) -> None: ...

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """The first offset that is left."""

    def delete_topic(self, topic: str) -> None: ...

    def groups(self) -> set[str]: ...

    def state_of(self, group: str) -> str:
        """Kafka's word for it: Stable, Empty, ..."""

    def offsets_of(self, group: str, topic: str) -> dict[int, int]: ...

    def set_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None: ...

    def delete_group(self, group: str) -> None: ...


class Client(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def lacks(self) -> Collection[str]: ...

    def can_send(self, record: NewRecord) -> bool:
        """Whether the client takes such a record at all; some refuse what Kafka allows."""

    def producer(
        self, bootstrap: str, options: ProducerOptions = ...
    ) -> AbstractContextManager[Producer]: ...

    def consumer(self, bootstrap: str, group: str | None = None) -> AbstractContextManager[Consumer]: ...

    def admin(self, bootstrap: str) -> AbstractContextManager[Admin]: ...


def until(what: str, attempt: Callable[[], T | None]) -> T:
    """Try until there is something. The attempt itself waits for the server, so that this does not spin."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        result = attempt()
        if result:
            return result
    raise AssertionError(f"not within {DEADLINE_S} s: {what}")


def send_all(producer: Producer, topic: str, partition: int, records: Sequence[NewRecord]) -> list[int]:
    """The offsets of these records."""
    for record in records:
        producer.send(topic, partition, record)
    return producer.flush()[-len(records) :]
