"""The ledger inside of a log: which of its records an import has put there, and how far it has come.

The last record of each imported batch has a header more, `kestrel-import`: the import's id, and how many
records it has stored with this one. A batch is appended whole or not at all, so the last mark in a log says
exactly where an import goes on, whenever it was killed. Whatever others append lies between the batches.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.codecs.kafka.records import Headers
from barbicel.kestrel_compat.items import EXPIRY_HEADER, FOR_HEADER, Audience, parse_number

__all__ = [
    "IMPORT_HEADER",
    "MAX_BATCH_RECORDS",
    "Mark",
    "StoredItem",
    "cut_batches",
    "imported_items",
    "last_count",
    "stored_item",
]

IMPORT_HEADER = b"kestrel-import"
MAX_BATCH_RECORDS = 4096
MAX_BATCH_BYTES = 512 << 10
# What a record takes beside its data, at least about.
RECORD_OVERHEAD_BYTES = 40
# A batch's timestamps are differences of 64 bits.
MAX_TIME_SPAN_MS = 1 << 60

_MARK = re.compile(rb"([0-9a-f]{16}):([0-9]{1,18})")


class Mark(NamedTuple):
    import_id: str
    # Records of this import up to here, this one included.
    total: int


class StoredItem(NamedTuple):
    """A record as whoever looks for imported ones sees it."""

    offset: int
    data: bytes
    added_ms: int
    expiry_ms: int | None
    audience: Audience
    mark: Mark | None

    def is_for(self, group: str) -> bool:
        return self.audience is None or group in self.audience


def cut_batches(
    records: Iterable[NewRecord], import_id: str, stored_before: int = 0
) -> Iterator[list[NewRecord]]:
    """Batches that a log takes and a Kafka consumer likes, each with its mark."""
    batch: list[NewRecord] = []
    # Room for bytes and for records, and the times that its records may have.
    left_bytes = left_records = earliest_ms = latest_ms = 0
    for record in records:
        timestamp_ms, _, data, _ = record
        left_bytes -= len(data or b"") + RECORD_OVERHEAD_BYTES
        left_records -= 1
        if left_bytes < 0 or left_records < 0 or not earliest_ms <= timestamp_ms <= latest_ms:
            if batch:
                stored_before += len(batch)
                yield _marked(batch, import_id, stored_before)
            batch = []
            left_bytes = MAX_BATCH_BYTES - len(data or b"") - RECORD_OVERHEAD_BYTES
            left_records = MAX_BATCH_RECORDS - 1
            earliest_ms, latest_ms = timestamp_ms - MAX_TIME_SPAN_MS, timestamp_ms + MAX_TIME_SPAN_MS
        batch.append(record)
    if batch:
        yield _marked(batch, import_id, stored_before + len(batch))


def _marked(batch: list[NewRecord], import_id: str, total: int) -> list[NewRecord]:
    last = batch[-1]
    mark = (IMPORT_HEADER, f"{import_id}:{total}".encode())
    batch[-1] = last._replace(headers=(*last.headers, mark))
    return batch


def stored_item(offset: int, added_ms: int, data: bytes, headers: Headers) -> StoredItem:
    expiry_ms, mark = None, None
    groups: list[str] = []
    for key, value in headers:
        if key == EXPIRY_HEADER:
            expiry_ms = parse_number(value)
        elif key == FOR_HEADER and value is not None:
            groups.append(value.decode("utf-8", "replace"))
        elif key == IMPORT_HEADER:
            mark = _parse_mark(value)
    return StoredItem(offset, data, added_ms, expiry_ms, frozenset(groups) if groups else None, mark)


def _parse_mark(value: bytes | None) -> Mark | None:
    """None for what is none: anybody can write headers."""
    found = _MARK.fullmatch(value or b"")
    return None if found is None else Mark(found[1].decode(), int(found[2]))


def last_count(stored: Iterable[StoredItem], import_id: str) -> int:
    """How many records of an import there are.

    Marks rise, but for those in records that somebody has read and put into the same topic once more.
    """
    marks = (item.mark for item in stored if item.mark is not None)
    return max((mark.total for mark in marks if mark.import_id == import_id), default=0)


def imported_items(
    stored: Iterable[StoredItem], import_id: str, repeated: Callable[[int], None] = lambda offset: None
) -> Iterator[StoredItem]:
    """Those of an import, in order. Holds a batch at a time, whatever lies in between.

    `repeated` is told the offset of a mark that does not go on: what ends there was stored before.
    """
    recent: deque[StoredItem] = deque()
    size, total = 0, 0
    for item in stored:
        recent.append(item)
        size += len(item.data)
        while len(recent) > MAX_BATCH_RECORDS or (size > MAX_BATCH_BYTES and len(recent) > 1):
            size -= len(recent.popleft().data)
        if item.mark is None or item.mark.import_id != import_id:
            continue
        count = item.mark.total - total
        if count > 0:
            total = item.mark.total
            yield from list(recent)[-count:]
        else:
            repeated(item.offset)
        recent.clear()
        size = 0
