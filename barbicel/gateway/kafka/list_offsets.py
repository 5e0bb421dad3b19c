"""ListOffsets (key 2), versions 1 to 11.

- -1 is the end, -2 the start, -3 (from 7) the record with the highest timestamp, -4 (8) the local log's
  start, -5 (9) the last tiered offset and -6 (11) the earliest that waits for tiering. A topic that is not
  tiered has neither of the last two: offset -1.
- By time: the first record, inside of its batch, whose timestamp is not below the given one; none is
  offset -1 without an error.
- Reading by time waits for the disk, or for the object store, and may open large batches. That happens in a
  thread, for one partition of a request after the other.
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

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import ListOffsetsResponse, Message
from barbicel.codecs.kafka.record_batch import BadBatch
from barbicel.codecs.kafka.records import TimedOffset, find_timestamp, max_timestamp_offset
from barbicel.gateway.broker.batch_opening import MAX_OPENED_BYTES
from barbicel.gateway.broker.partition import LEADER_EPOCH, Partition
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import topic_refusal
from barbicel.gateway.kafka.refusals import error_code_of
from barbicel.gateway.kafka.rows import OneByOne, gather
from barbicel.tier.local_log import StoredBatch

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
    if refusal := topic_refusal(call, Operation.DESCRIBE, name):
        return Found(refusal)
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
    place = PLACES.get(timestamp_ms)
    if place is not None and _is_known(call, timestamp_ms):
        offset = place(partition)
        return Found() if offset is None else Found(offset=offset, leader_epoch=LEADER_EPOCH)
    if timestamp_ms < 0 and not (timestamp_ms == MAX_TIMESTAMP and _is_known(call, timestamp_ms)):
        return Found(ErrorCode.UNSUPPORTED_VERSION)
    search = _latest if timestamp_ms == MAX_TIMESTAMP else _first_at_or_after
    call.on_lost = searches.give_up
    # Producers need the threads for long work, and a store may keep those who read from it waiting.
    is_remote = partition.stored.is_remote(partition.start_offset)
    found = searches.run(partial(search, partition, timestamp_ms), is_remote=is_remote)
    return found.addErrback(lambda failure: Found(error_code_of(failure.value)))


def _latest_tiered(partition: Partition) -> int | None:
    tiered = partition.stored.tiered
    return None if tiered is None or tiered.end_offset is None else tiered.end_offset - 1


def _earliest_pending(partition: Partition) -> int | None:
    if not partition.values.is_tiered or partition.stored.tiered is None:
        return None
    end_offset = partition.stored.tiered.end_offset
    return partition.log.start_offset if end_offset is None else end_offset


# Special timestamps → the offset that each means, None if there is none. Nobody waits for these.
PLACES: Mapping[int, Callable[[Partition], int | None]] = {
    EARLIEST: lambda partition: partition.start_offset,
    EARLIEST_LOCAL: lambda partition: max(partition.start_offset, partition.log.start_offset),
    LATEST_TIERED: _latest_tiered,
    EARLIEST_PENDING: _earliest_pending,
}


def _is_known(call: Call, timestamp_ms: int) -> bool:
    return call.version >= SINCE.get(timestamp_ms, 0)


def _first_at_or_after(partition: Partition, timestamp_ms: int) -> Found:
    """In a thread. A batch is found by its highest timestamp; the record is inside."""
    end_offset, wanted_from = partition.end_offset, partition.start_offset
    for batch in partition.stored.from_time(timestamp_ms):
        if batch.offset >= end_offset:
            break
        if batch.timestamp_ms < timestamp_ms:
            continue
        # Records of a batch that retention has cut through do not count, and its highest may be among them.
        found = _inside(
            batch, partial(find_timestamp, timestamp_ms=timestamp_ms, from_offset=wanted_from), wanted_from
        )
        if found is not None:
            return found
    return Found()


def _latest(partition: Partition, _: int) -> Found:
    batch = partition.stored.latest(partition.end_offset)
    return (batch and _inside(batch, max_timestamp_offset, partition.start_offset)) or Found()


def _inside(batch: StoredBatch, look: Callable[..., TimedOffset | None], start_offset: int) -> Found | None:
    try:
        inside = look(batch.payload, max_bytes=MAX_OPENED_BYTES)
    except BadBatch:
        inside = TimedOffset(max(batch.offset, start_offset), batch.timestamp_ms)
    return None if inside is None else Found(ErrorCode.NONE, inside.timestamp_ms, inside.offset, LEADER_EPOCH)


API = Api(2, "ListOffsets", 1, 11, respond, is_alone=True)
