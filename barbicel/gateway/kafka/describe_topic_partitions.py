"""DescribeTopicPartitions (key 75), version 0.

- Topics come in the order of their names, each once, and no topics means all of them. The answer ends after
  so many partitions, 2,000 at most and 1 at least, and says where to go on.
- A cursor goes on in the middle of its topic. Its topic must be among those that are asked for; it may have
  been deleted meanwhile, then that is said and the next one follows.
- Kafka 4 fails the whole request for a name that no topic can have; here that topic alone is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from barbicel.codecs.kafka.acls import Operation, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import (
    DescribeTopicPartitionsResponse,
    Message,
)
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.partition import LEADER_EPOCH
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.known_topic import known_topic
from barbicel.gateway.kafka.permission import may, operations, topic_refusal
from barbicel.gateway.kafka.refusals import error_code_of
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

TopicRow = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
PartitionRow = TopicRow.DescribeTopicPartitionsResponsePartition
CursorRow = DescribeTopicPartitionsResponse.Cursor

# Kafka's max.request.partition.size.limit.
MAX_PARTITIONS = 2000


class Cursor(NamedTuple):
    topic_name: str
    partition_index: int


def respond(call: Call, request: Message) -> Reply:
    cursor = None
    if request.cursor is not None:
        cursor = Cursor(request.cursor.topic_name, request.cursor.partition_index)
    names = {asked.name for asked in request.topics}
    if cursor is not None and (cursor.partition_index < 0 or (names and cursor.topic_name not in names)):
        return _answer([_problem(asked.name, ErrorCode.INVALID_REQUEST) for asked in request.topics], None)
    if not names:
        names = {
            topic.name
            for topic in call.broker.topics
            if may(call, Operation.DESCRIBE, Resource.TOPIC, topic.name, is_quiet=True)
        }
    wanted = sorted(name for name in names if cursor is None or name >= cursor.topic_name)
    limit = max(1, min(request.response_partition_limit, MAX_PARTITIONS))
    following: list[Cursor] = []
    return gather(
        call,
        _describe(call, wanted, cursor, limit, following),
        lambda rows: _answer(rows, following[0] if following else None),
    )


def _describe(
    call: Call, names: Iterable[str], cursor: Cursor | None, limit: int, following: list[Cursor]
) -> Iterator[Any]:
    """The rows; in `following`, where the next answer begins if these are not all."""
    for name in names:
        if not limit:
            following.append(Cursor(name, 0))
            return
        if refusal := topic_refusal(call, Operation.DESCRIBE, name):
            yield _problem(name, refusal)
            continue
        try:
            topic = known_topic(call, name)
        except BarbicelError as error:
            yield _problem(name, error_code_of(error), _operations(call, name))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        numbers = range(first, len(topic.partitions))[:limit]
        limit -= len(numbers)
        yield _row(call, topic, numbers)
        if numbers and numbers[-1] + 1 < len(topic.partitions):
            following.append(Cursor(name, numbers[-1] + 1))
            return


def _row(call: Call, topic: OpenTopic, numbers: range) -> Message:
    return TopicRow(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic.id,
        is_internal=False,
        partitions=[_partition(call.broker.node_id, number) for number in numbers],
        topic_authorized_operations=_operations(call, topic.name),
    )


def _operations(call: Call, name: str) -> int:
    """What the client may do, as a bit for each of Kafka's AclOperations."""
    return sum(1 << operation for operation in operations(call, Resource.TOPIC, name))


def _partition(node_id: int, number: int) -> Message:
    return PartitionRow(
        error_code=ErrorCode.NONE,
        partition_index=number,
        leader_id=node_id,
        leader_epoch=LEADER_EPOCH,
        replica_nodes=[node_id],
        isr_nodes=[node_id],
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[],
    )


def _problem(name: str, error_code: ErrorCode, operations: int = -(1 << 31)) -> Message:
    return TopicRow(
        error_code=error_code,
        name=name,
        topic_id=None,
        is_internal=False,
        partitions=[],
        topic_authorized_operations=operations,
    )


def _answer(rows: list[Any], cursor: Cursor | None) -> Message:
    return DescribeTopicPartitionsResponse(
        throttle_time_ms=0,
        topics=rows,
        next_cursor=None if cursor is None else CursorRow(**cursor._asdict()),
    )


API = Api(75, "DescribeTopicPartitions", 0, 0, respond, is_alone=True)
