"""GET /api/topics/<name>/messages: the records of a partition, from an offset or a time on, or the newest.

Read in a thread, a bounded number of bytes at a time. What cannot be read is a row with an error, and those
behind it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.record_batch import BadBatch, decode_header
from barbicel.codecs.kafka.records import KafkaRecord, decode_records
from barbicel.errors import CorruptLog, CorruptObject
from barbicel.gateway.admin.api.fields import encode_field
from barbicel.gateway.admin.api.topics import find_topic
from barbicel.gateway.admin.exchange import Asked, Refusal
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.broker.partition import Partition

__all__ = ["BrowsingApi", "message_row"]

T = TypeVar("T")

USUAL_MESSAGES = 50
MAX_MESSAGES = 500
# Of what is shown, and of what is looked through for it, as it is stored and as it is inside.
MAX_SHOWN_BYTES = 1 << 20
MAX_READ_BYTES = 16 << 20
# More than one batch may have, so that every look comes further.
MAX_LOOKED_THROUGH_BYTES = 64 << 20
READ_BYTES = 1 << 20
# How large a batch may be when it is decompressed.
MAX_OPENED_BYTES = 16 << 20
# Nobody reads that many. Compressed, millions of them take a few kilobytes, and in an answer gigabytes.
MAX_HEADERS = 1000
# What a row takes beside what is in it, and each of its headers.
ROW_BYTES = 100


class _Wanted(NamedTuple):
    """From an offset on, but none that is older than the time."""

    partition: Partition
    offset: int
    end_offset: int
    time_ms: int
    limit: int


class BrowsingApi:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def list_messages(self, asked: Asked) -> dict[str, Any]:
        partition = self._partition(asked)
        time_ms = _time_ms(asked.query.get("time", ""))
        limit = asked.whole("limit", USUAL_MESSAGES, 1, MAX_MESSAGES)
        start_offset, end_offset = partition.start_offset, partition.end_offset
        if time_ms is not None:
            offset = await self._read(partition, -1, partial(_offset_at, partition, time_ms, end_offset))
        else:
            # An empty field of a form is none.
            query = {name: text for name, text in asked.query.items() if text}
            offset = Asked("GET", "", query).whole("offset", max(start_offset, end_offset - limit))
        offset = min(max(offset, start_offset), end_offset)
        wanted = _Wanted(partition, offset, end_offset, -1 if time_ms is None else time_ms, limit)
        messages, next_offset = await self._read(partition, offset, partial(_read, wanted))
        return {
            "topic": partition.topic.name,
            "partition": partition.number,
            "start_offset": start_offset,
            "end_offset": end_offset,
            "offset": messages[0]["offset"] if messages else offset,
            "messages": messages,
            "next_offset": next_offset if next_offset < end_offset else None,
        }

    def _read(self, partition: Partition, offset: int, work: Callable[[], T]) -> Deferred[T]:
        """Where nobody waits for the network who only needs the disk."""
        is_remote = partition.stored.is_remote(offset)
        return self._broker.read_remote(work) if is_remote else self._broker.work_long(work)

    def _partition(self, asked: Asked) -> Partition:
        topic = find_topic(self._broker, asked.names["name"])
        number = asked.whole("partition", 0)
        if number >= len(topic.partitions):
            raise Refusal(404, f"the topic has {len(topic.partitions)} partitions")
        if topic.partitions[number].is_offline:
            raise Refusal(503, "this partition is offline: see the log of the server")
        return topic.partitions[number]


def _time_ms(text: str) -> int | None:
    """Milliseconds, or a time like 2026-11-16T18:30, which is UTC unless it says otherwise."""
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise Refusal(400, "time is neither milliseconds nor like 2026-11-16T18:30") from None
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return max(0, int(aware.timestamp() * 1000))


def _offset_at(partition: Partition, time_ms: int, end_offset: int) -> int:
    """In a thread: where the first batch begins that has something so new."""
    first = next(partition.stored.from_time(time_ms), None)
    return end_offset if first is None else min(first.offset, end_offset)


def _read(wanted: _Wanted) -> tuple[list[dict[str, Any]], int]:
    """In a thread: rows, and the offset behind the last one."""
    rows: list[dict[str, Any]] = []
    offset, left_bytes, shown_bytes, looked_through_bytes = wanted.offset, MAX_READ_BYTES, 0, 0
    while offset < wanted.end_offset and left_bytes > 0:
        batches, damage = _read_batches(wanted, offset)
        for row, end_offset, size in _rows(batches, offset, wanted.time_ms):
            offset, looked_through_bytes = end_offset, looked_through_bytes + size
            if row is not None:
                rows.append(row)
                shown_bytes += size
            is_enough = len(rows) >= wanted.limit or shown_bytes >= MAX_SHOWN_BYTES
            if is_enough or looked_through_bytes >= MAX_LOOKED_THROUGH_BYTES:
                return rows, offset
        left_bytes -= max(1, sum(map(len, batches)))
        if damage is not None:
            rows.append({"offset": damage.first_offset, "error": damage.message})
            offset = damage.end_offset
        elif not batches:
            offset = wanted.end_offset  # what a repair has given up
    return rows, offset


def _read_batches(wanted: _Wanted, offset: int) -> tuple[list[memoryview], CorruptLog | CorruptObject | None]:
    try:
        return wanted.partition.stored.read(offset, wanted.end_offset, READ_BYTES, at_least_one=True), None
    except (CorruptLog, CorruptObject) as damage:
        return [], damage


def _rows(
    batches: list[memoryview], offset: int, time_ms: int
) -> Iterator[tuple[dict[str, Any] | None, int, int]]:
    """(a row, where the next one begins, its bytes). A batch may begin before the offset.

    None for what is passed over: it has been opened and looked at all the same.
    """
    for batch in batches:
        header = decode_header(batch)
        offset = max(offset, header.base_offset)
        try:
            if not header.is_control:
                for record in decode_records(batch, max_bytes=MAX_OPENED_BYTES, max_headers=MAX_HEADERS):
                    if record.offset >= offset and record.timestamp_ms >= time_ms:
                        offset = record.offset + 1
                        yield message_row(record), offset, _size(record, ROW_BYTES)
                    else:
                        yield None, offset, _size(record, 0)
            yield None, header.end_offset, 0
        except BadBatch as problem:
            yield {"offset": offset, "error": problem.message}, header.end_offset, ROW_BYTES


def _size(record: KafkaRecord, row_bytes: int) -> int:
    headers = sum(row_bytes + len(key) + len(value or b"") for key, value in record.headers)
    return row_bytes + len(record.key or b"") + len(record.value or b"") + headers


def message_row(record: KafkaRecord) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": encode_field(record.key),
        "value": encode_field(record.value),
        "headers": [
            {"key": key.decode("utf-8", "backslashreplace"), "value": encode_field(value)}
            for key, value in record.headers
        ],
    }
