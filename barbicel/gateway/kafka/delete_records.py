"""DeleteRecords (key 21), versions 0 to 2.

- -1 is the end: all that can be fetched goes. Beyond the end, or below -1, is OFFSET_OUT_OF_RANGE.
- An offset below the start changes nothing. The answer is the start as it is afterwards, which survives a
  power cut by then.
- It waits for the disk, so the partitions of a request are trimmed in a thread, one after the other. Of one
  that is named twice the last offset counts.
- On a full disk a log that could not be recovered there is opened for writing first, if that is possible.
- The timeout is for replicas to follow, of which there are none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sized
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DeleteRecordsResponse, Message
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import topic_refusal
from barbicel.gateway.kafka.refusals import error_code_of, note_refusals
from barbicel.gateway.kafka.rows import OneByOne, gather

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
    # The last word counts, as in Kafka.
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = wanted.setdefault(topic.name, {})
        offsets.update((asked.partition_index, asked.offset) for asked in topic.partitions)
    trims = OneByOne(call)
    rows = (
        _trimmed(call, trims, _decide(call, name, number, offset))
        for name, offsets in wanted.items()
        for number, offset in offsets.items()
    )
    return gather(call, rows, partial(_answer, call, wanted))


def _trimmed(call: Call, trims: OneByOne, trim: Trim) -> Any:
    """The row of a partition, now or when it was trimmed."""
    if trim.partition is None:
        return _row(Trimmed(trim.number, error_code=trim.error_code))
    work = partial(_trim, call, trim, trim.partition)
    if trim.partition.ask_for_room is None:
        return trims.run(work).addCallback(_row)
    # Whoever deletes may want to make the room that it waits for.
    reopened = call.broker.topics.reopening.try_all()
    return reopened.addCallback(lambda _: trims.run(work)).addCallback(_row)


def _decide(call: Call, name: str, number: int, wanted_offset: int) -> Trim:
    if refusal := topic_refusal(call, Operation.DELETE, name):
        return Trim(number, error_code=refusal)
    partition = call.broker.topics.partition(name, number)
    if partition is None:
        return Trim(number, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    # What is beyond this end is not durable yet: nobody can know of it.
    offset = partition.end_offset if wanted_offset == THE_END else wanted_offset
    if not 0 <= offset <= partition.end_offset:
        return Trim(number, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    return Trim(number, partition, offset)


def _trim(call: Call, trim: Trim, partition: Partition) -> Trimmed:
    """In a thread."""
    offset = trim.before_offset
    try:
        if offset > partition.start_offset:
            _log.info("%s-%d, deleted below %d by %s", partition.topic.name, trim.number, offset, call.who)
        return Trimmed(trim.number, partition.stored.drop_before(offset))
    except BarbicelError as error:
        _log.warning("records of %s-%d stay: %s", partition.topic.name, trim.number, error)
        return Trimmed(trim.number, error_code=error_code_of(error))


def _row(trimmed: Trimmed) -> Message:
    return PartitionRow(
        partition_index=trimmed.number, low_watermark=trimmed.low_watermark, error_code=trimmed.error_code
    )


def _answer(call: Call, wanted: Mapping[str, Sized], rows: list[Any]) -> Message:
    note_refusals(call, "DeleteRecords", rows)
    trimmed = iter(rows)
    return DeleteRecordsResponse(
        throttle_time_ms=0,
        topics=[
            TopicRow(name=name, partitions=list(islice(trimmed, len(offsets))))
            for name, offsets in wanted.items()
        ],
    )


API = Api(21, "DeleteRecords", 0, 2, respond, is_alone=True)
