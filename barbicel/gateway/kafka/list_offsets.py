"""ListOffsets (key 2), versions 1 to 11.

- -1 is the end, -2 the start, -3 (from 7) the record with the highest timestamp, -4 (8) the local log's
  start, -5 (9) the last tiered offset and -6 (11) the earliest that waits for tiering, which are none.
- By time: the first record, inside of its batch, whose timestamp is not below the given one; none is
  offset -1 without an error.
- Reading by time waits for the disk and may open large batches. That happens in a thread, for one partition
  of a request after the other.
- A partition that is named twice is INVALID_REQUEST, as in Kafka.
- A batch whose inside cannot be read, or is very large, is answered with its first offset: nobody who seeks
  may miss a record, and one bad batch must not spoil a partition for everybody who seeks in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import ListOffsetsResponse, Message
from barbicel.codecs.kafka.record_batch import BadBatch
from barbicel.codecs.kafka.records import TimedOffset, find_timestamp, max_timestamp_offset
from barbicel.codecs.keratin_record import Record
from barbicel.gateway.broker.batch_opening import MAX_OPENED_BYTES
from barbicel.gateway.broker.partition import LEADER_EPOCH, Partition
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.refusals import error_code_of
from barbicel.gateway.kafka.rows import OneByOne, gather

__all__ = ["API"]

TopicRow = ListOffsetsResponse.ListOffsetsTopicResponse
PartitionRow = TopicRow.ListOffsetsPartitionResponse
NOTHING = -1

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
# The special timestamps that need a version, and which.
SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}


class Found(NamedTuple):
    error_code: int = ErrorCode.NONE
    timestamp_ms: int = NOTHING
    offset: int = NOTHING
    leader_epoch: int = NOTHING


def respond(call: Call, request: Message) -> Reply:
    wanted: dict[str, dict[int, list[Any]]] = {}
    for topic in request.topics:
        partitions = wanted.setdefault(topic.name, {})
        for asked in topic.partitions:
            partitions.setdefault(asked.partition_index, []).append(asked)
    searches = OneByOne(call)
    rows = (
        _found_row(call, searches, name, asked)
        for name, partitions in wanted.items()
        for asked in partitions.values()
    )
    return gather(call, rows, partial(_answer, wanted))


def _answer(wanted: Mapping[str, Sized], rows: list[Any]) -> Message:
    found = iter(rows)
    return ListOffsetsResponse(
        throttle_time_ms=0,
        topics=[
            TopicRow(name=name, partitions=list(islice(found, len(partitions))))
            for name, partitions in wanted.items()
        ],
    )


def _found_row(call: Call, searches: OneByOne, name: str, asked: list[Any]) -> Any:
    """The row of a partition, now or when it was searched."""
    if len(asked) > 1:
        return _row(asked[0], Found(ErrorCode.INVALID_REQUEST))
    found = _find(call, searches, name, asked[0])
    return (
        found.addCallback(partial(_row, asked[0])) if isinstance(found, Deferred) else _row(asked[0], found)
    )


def _row(asked: Any, found: Found) -> Any:
    return PartitionRow(
        partition_index=asked.partition_index,
        error_code=found.error_code,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _find(call: Call, searches: OneByOne, name: str, asked: Any) -> Found | Deferred[Found]:
    partition = call.broker.topics.partition(name, asked.partition_index)
    if partition is None:
        return Found(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.is_offline:
        return Found(ErrorCode.KAFKA_STORAGE_ERROR)
    if getattr(asked, "current_leader_epoch", NOTHING) > LEADER_EPOCH:
        return Found(ErrorCode.UNKNOWN_LEADER_EPOCH)
    timestamp_ms = asked.timestamp
    if timestamp_ms == LATEST:
        return Found(offset=partition.end_offset, leader_epoch=LEADER_EPOCH)
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL) and _is_known(call, timestamp_ms):
        return Found(offset=partition.start_offset, leader_epoch=LEADER_EPOCH)
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING) and _is_known(call, timestamp_ms):
        return Found()
    if timestamp_ms < 0 and not (timestamp_ms == MAX_TIMESTAMP and _is_known(call, timestamp_ms)):
        return Found(ErrorCode.UNSUPPORTED_VERSION)
    search = _latest if timestamp_ms == MAX_TIMESTAMP else _first_at_or_after
    call.on_lost = searches.give_up
    found = searches.run(partial(search, partition, timestamp_ms))
    return found.addErrback(lambda failure: Found(error_code_of(failure.value)))


def _is_known(call: Call, timestamp_ms: int) -> bool:
    return call.version >= SINCE.get(timestamp_ms, 0)


def _first_at_or_after(partition: Partition, timestamp_ms: int) -> Found:
    """In a thread. A batch is found by its highest timestamp; the record is inside."""
    end_offset, wanted_from = partition.end_offset, partition.start_offset
    for record in partition.log.scan_from_time(timestamp_ms):
        if record.offset >= end_offset:
            break
        if record.timestamp_ms < timestamp_ms:
            continue
        # Records of a batch that retention has cut through do not count, and its highest may be among them.
        found = _inside(
            record, partial(find_timestamp, timestamp_ms=timestamp_ms, from_offset=wanted_from), wanted_from
        )
        if found is not None:
            return found
    return Found()


def _latest(partition: Partition, _: int) -> Found:
    hit = partition.log.latest_time()
    if hit is None or hit.offset >= partition.end_offset:
        return Found()
    return _inside(partition.log.fetch(hit.offset), max_timestamp_offset, partition.start_offset) or Found()


def _inside(record: Record, look: Callable[..., TimedOffset | None], start_offset: int) -> Found | None:
    try:
        inside = look(record.payload, max_bytes=MAX_OPENED_BYTES)
    except BadBatch:
        inside = TimedOffset(max(record.offset, start_offset), record.timestamp_ms)
    return None if inside is None else Found(ErrorCode.NONE, inside.timestamp_ms, inside.offset, LEADER_EPOCH)


API = Api(2, "ListOffsets", 1, 11, respond, is_alone=True)
