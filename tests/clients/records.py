"""Records that try what a record may hold, and what must come back of them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from tests.clients.client import Client, Consumer, Headers, NewRecord, StoredRecord, until

__all__ = [
    "EVERY_PARTITION",
    "FIRST_TIMESTAMP_MS",
    "mixed_records",
    "numbered",
    "read",
    "stored",
    "take",
    "unique",
]

# Of a topic that its first record creates. More than one, so that a group has something to share.
EVERY_PARTITION = frozenset(range(4))
# Not now, and not so old that retention would delete them while a test reads them.
FIRST_TIMESTAMP_MS = int(time.time() * 1000) - 3_600_000


def unique(prefix: str) -> str:
    """A name that no other test has."""
    return f"{prefix}-{uuid.uuid4()}"


def mixed_records(client: Client, count: int = 60) -> list[NewRecord]:
    """Null keys, null values, empty ones, headers that repeat or are null: what the client can send of it."""
    records = (
        NewRecord(
            value=None if number % 5 == 0 else b"value %d " % number * (number % 7),
            key=None if number % 3 == 0 else b"key %d" % number if number % 4 else b"",
            headers=_headers(number),
            timestamp_ms=FIRST_TIMESTAMP_MS + number,
        )
        for number in range(count)
    )
    return list(filter(client.can_send, records))


def _headers(number: int) -> Headers:
    repeated: Headers = tuple(("same", b"header %d" % turn) for turn in range(number % 4))
    special: Headers = (("null", None), ("empty", b""), ("größe", b"\x00\xff"))
    return repeated + special if number % 6 == 0 else repeated


def numbered(first: int, end: int) -> list[NewRecord]:
    """Records with the values "0", "1", ... and times that rise with them."""
    return [
        NewRecord(b"%d" % number, timestamp_ms=FIRST_TIMESTAMP_MS + 10 * number)
        for number in range(first, end)
    ]


def stored(partition: int, records: Sequence[NewRecord]) -> list[StoredRecord]:
    """What a partition that was empty has to give back."""
    return [
        StoredRecord(partition, offset, record.timestamp_ms or 0, record.key, record.value, record.headers)
        for offset, record in enumerate(records)
    ]


def take(consumer: Consumer, count: int) -> list[StoredRecord]:
    """Poll until there are as many."""
    taken: list[StoredRecord] = []

    def enough() -> bool:
        taken.extend(consumer.poll())
        return len(taken) >= count

    until(f"{count} records", enough)
    return taken


def read(client: Client, bootstrap: str, topic: str, partition: int, count: int) -> list[StoredRecord]:
    """A partition from its beginning."""
    with client.consumer(bootstrap) as consumer:
        consumer.assign(topic, partition, 0)
        return take(consumer, count)
