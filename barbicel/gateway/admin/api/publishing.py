"""POST /api/topics/<name>/messages, /api/queues/<name>/items: one message, as a client would send it.

Answered when it is as durable as the server's setting says.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import randrange
from typing import Any

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.new_batch import NewRecord, build_appendable
from barbicel.codecs.kafka.record_batch import Batch, decode_header
from barbicel.codecs.kafka.records import Headers
from barbicel.gateway.admin.api.fields import decode_field
from barbicel.gateway.admin.api.partitioning import partition_of
from barbicel.gateway.admin.api.topics import find_topic
from barbicel.gateway.admin.exchange import Asked, Refusal, parse_body
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.broker.partition import Partition, Produced
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.gateway.kestrel.queues import Queues

__all__ = ["PublishingApi", "put_item"]

MAX_HEADERS = 100
MAX_FLAGS = (1 << 32) - 1
# HTTP's status for what Kafka would answer.
STATUSES: Mapping[int, int] = {ErrorCode.MESSAGE_TOO_LARGE: 413, ErrorCode.KAFKA_STORAGE_ERROR: 503}


class PublishingApi:
    def __init__(self, broker: Broker, queues: Queues | None) -> None:
        self._broker = broker
        self._queues = queues

    async def publish(self, asked: Asked) -> dict[str, Any]:
        """To a topic that exists."""
        topic, body = find_topic(self._broker, asked.names["name"]), parse_body(asked)
        key = decode_field(body, "key")
        partition = _partition(topic, body.get("partition"), key)
        record = NewRecord(self._broker.clock(), key, decode_field(body, "value"), _headers(body))
        produced = await self._append(partition, record)
        if produced.error_code:
            name = ErrorCode(produced.error_code).name
            raise Refusal(STATUSES.get(produced.error_code, 400), produced.message or name)
        return {"topic": topic.name, "partition": partition.number, "offset": produced.base_offset}

    def _append(self, partition: Partition, record: NewRecord) -> Deferred[Produced]:
        data = memoryview(build_appendable([record]))
        limit = partition.values.max_message_bytes
        if len(data) > limit:
            raise Refusal(413, f"the message has {len(data)} bytes as a batch, {limit} are allowed")
        done: Deferred[Produced] = Deferred()
        partition.produce(Batch(decode_header(data), data), self._broker.append, done.callback)
        return done

    async def put(self, asked: Asked) -> dict[str, Any]:
        """Into a queue, which is made if there is none: that is what a set does."""
        assert self._queues is not None
        name, body = asked.names["name"], parse_body(asked)
        value = decode_field(body, "value")
        if value is None:
            raise Refusal(400, "value is missing")
        if len(value) > self._broker.config.kestrel_max_item_bytes:
            raise Refusal(413, "the item is larger than kestrel.max.item.bytes")
        flags = _whole(body, "flags", 0, MAX_FLAGS) or 0
        expiry_ms = _whole(body, "expiry_ms", 1, (1 << 63) - 1)
        if not await put_item(self._queues, name, value, flags, expiry_ms):
            raise Refusal(409, "the queue does not take it: it is full, or the item is too large for it")
        return {"queue": name}


async def put_item(queues: Queues, name: str, data: bytes, flags: int, expiry_ms: int | None) -> bool:
    """Whether the queue has stored it. Raises BadQueueName, and what the disk says."""
    done: Deferred[bool] = Deferred()
    queues.put(name, data, flags, expiry_ms, partial(_settle, done))
    return await done


def _settle(done: Deferred[bool], outcome: bool | Exception) -> None:
    if isinstance(outcome, Exception):
        done.errback(outcome)
    else:
        done.callback(outcome)


def _partition(topic: OpenTopic, number: object, key: bytes | None) -> Partition:
    """The one that is asked for, the key's, or any."""
    count = len(topic.partitions)
    if number is None:
        return topic.partitions[randrange(count) if key is None else partition_of(key, count)]
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < count:
        raise Refusal(400, f"partition is none of 0 to {count - 1}")
    return topic.partitions[number]


def _headers(body: Mapping[str, Any]) -> Headers:
    """[{"key": ..., "value": ...}], the values in the encoding of all."""
    rows = body.get("headers") or []
    if not isinstance(rows, list) or len(rows) > MAX_HEADERS:
        raise Refusal(400, f"headers is no list of up to {MAX_HEADERS}")
    return tuple(_header(row, body) for row in rows)


def _header(row: object, body: Mapping[str, Any]) -> tuple[bytes, bytes | None]:
    if not isinstance(row, dict) or not isinstance(row.get("key"), str):
        raise Refusal(400, "a header is no {key, value}")
    try:
        key = row["key"].encode()
    except UnicodeEncodeError:
        raise Refusal(400, "the key of a header is not utf-8") from None
    return key, decode_field({**row, "encoding": body.get("encoding", "utf-8")}, "value")


def _whole(body: Mapping[str, Any], name: str, lowest: int, highest: int) -> int | None:
    number = body.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not lowest <= number <= highest:
        raise Refusal(400, f"{name} is no whole number from {lowest} to {highest}")
    return number
