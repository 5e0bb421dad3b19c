"""DescribeProducers (key 61), version 0: the idempotent producers that a partition remembers.

There are no transactions, so no coordinator's epoch and no first offset of one. A partition is answered once
however often it is asked for: its producers may be many, and asking for it is a few bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from functools import partial
from itertools import islice
from typing import Any

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DescribeProducersResponse, Message
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.broker.topic_errors import UnknownTopic
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.known_topic import known_topic
from barbicel.gateway.kafka.permission import topic_refusal
from barbicel.gateway.kafka.refusals import error_code_of, message_of
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

TopicRow = DescribeProducersResponse.TopicResponse
PartitionRow = TopicRow.PartitionResponse
ProducerRow = PartitionRow.ProducerState


def respond(call: Call, request: Message) -> Reply:
    numbers: dict[str, dict[int, None]] = {}
    for asked in request.topics:
        numbers.setdefault(asked.name, {}).update(dict.fromkeys(asked.partition_indexes))
    rows = (_row(call, name, number) for name, wanted in numbers.items() for number in wanted)
    return gather(call, rows, partial(_answer, numbers), lambda row: 1 + len(row.active_producers))


def _answer(numbers: Mapping[str, Sized], rows: list[Any]) -> Message:
    found = iter(rows)
    return DescribeProducersResponse(
        throttle_time_ms=0,
        topics=[
            TopicRow(name=name, partitions=list(islice(found, len(wanted))))
            for name, wanted in numbers.items()
        ],
    )


def _row(call: Call, name: str, number: int) -> Message:
    if refusal := topic_refusal(call, Operation.READ, name):
        return PartitionRow(
            partition_index=number, error_code=refusal, error_message=None, active_producers=[]
        )
    try:
        return _producers(_partition(call, name, number))
    except BarbicelError as error:
        return PartitionRow(
            partition_index=number,
            error_code=error_code_of(error),
            error_message=message_of(error),
            active_producers=[],
        )


def _partition(call: Call, name: str, number: int) -> Partition:
    partitions = known_topic(call, name).partitions
    if not 0 <= number < len(partitions):
        raise UnknownTopic(f"topic {name!r} has no partition {number}")
    return partitions[number]


def _producers(partition: Partition) -> Message:
    rows: list[Any] = [ProducerRow(**row._asdict()) for row in partition.producers.describe()]
    return PartitionRow(
        partition_index=partition.number,
        error_code=ErrorCode.NONE,
        error_message=None,
        active_producers=rows,
    )


API = Api(61, "DescribeProducers", 0, 0, respond, is_alone=True)
