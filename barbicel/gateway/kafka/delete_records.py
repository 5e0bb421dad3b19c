"""DeleteRecords (key 21), versions 0 to 2.

- -1 is the end: all that can be fetched goes. Beyond the end, or below -1, is OFFSET_OUT_OF_RANGE.
- An offset below the start changes nothing. The answer is the start as it is afterwards, which survives a
  power cut by then.
- It waits for the disk, so all partitions of a request are trimmed in a thread, one after the other.
- The timeout is for replicas to follow, of which there are none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DeleteRecordsResponse, Message
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.refusals import error_code_of

__all__ = ["API"]

_log = logging.getLogger(__name__)

TopicRow = DeleteRecordsResponse.DeleteRecordsTopicResult
PartitionRow = TopicRow.DeleteRecordsPartitionResult
THE_END = -1
UNKNOWN = -1


class Trim(NamedTuple):
    """What to give up of a partition; without one there is an error, or nothing to do."""

    number: int
    partition: Partition | None = None
    before_offset: int = UNKNOWN
    error_code: ErrorCode = ErrorCode.NONE


class Trimmed(NamedTuple):
    number: int
    low_watermark: int = UNKNOWN
    error_code: ErrorCode = ErrorCode.NONE


def respond(call: Call, request: Message) -> Reply:
    names = [topic.name for topic in request.topics]
    trims = [[_decide(call, topic.name, asked) for asked in topic.partitions] for topic in request.topics]
    done: Deferred[list[list[Trimmed]]] = call.broker.read_cold(
        lambda: [[_trim(call, trim) for trim in topic] for topic in trims]
    )
    return done.addCallback(lambda trimmed: _answer(names, trimmed))


def _decide(call: Call, name: str, asked: Any) -> Trim:
    partition = call.broker.topics.partition(name, asked.partition_index)
    if partition is None:
        return Trim(asked.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    # What is beyond this end is not durable yet: nobody can know of it.
    offset = partition.end_offset if asked.offset == THE_END else asked.offset
    if not 0 <= offset <= partition.end_offset:
        return Trim(asked.partition_index, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    return Trim(asked.partition_index, partition, offset)


def _trim(call: Call, trim: Trim) -> Trimmed:
    """In a thread."""
    partition, offset = trim.partition, trim.before_offset
    if partition is None:
        return Trimmed(trim.number, error_code=trim.error_code)
    try:
        if offset > partition.start_offset:
            _log.info(
                "%s-%d, deleted below %d by %s:%d", partition.topic.name, trim.number, offset, *call.peer
            )
        return Trimmed(trim.number, partition.log.truncate_before(offset))
    except BarbicelError as error:
        _log.warning("records of %s-%d stay: %s", partition.topic.name, trim.number, error)
        return Trimmed(trim.number, error_code=error_code_of(error))


def _answer(names: Sequence[str], trimmed: list[list[Trimmed]]) -> Message:
    return DeleteRecordsResponse(
        throttle_time_ms=0,
        topics=[
            TopicRow(
                name=name,
                partitions=[
                    PartitionRow(
                        partition_index=row.number, low_watermark=row.low_watermark, error_code=row.error_code
                    )
                    for row in partitions
                ],
            )
            for name, partitions in zip(names, trimmed, strict=True)
        ],
    )


API = Api(21, "DeleteRecords", 0, 2, respond)
