"""OffsetForLeaderEpoch (key 23), versions 2 to 4.

There is one leader epoch, so it ends where the log ends. A newer one than ours is UNKNOWN_LEADER_EPOCH.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import Message, OffsetForLeaderEpochResponse
from barbicel.gateway.broker.partition import LEADER_EPOCH
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import topic_refusal
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

TopicRow = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
PartitionRow = TopicRow.EpochEndOffset
NOTHING = -1


def respond(call: Call, request: Message) -> Reply:
    rows = (_row(call, topic.topic, asked) for topic in request.topics for asked in topic.partitions)
    return gather(call, rows, partial(_answer, request.topics))


def _answer(topics: list[Any], rows: list[Any]) -> Message:
    found = iter(rows)
    return OffsetForLeaderEpochResponse(
        throttle_time_ms=0,
        topics=[
            TopicRow(topic=topic.topic, partitions=list(islice(found, len(topic.partitions))))
            for topic in topics
        ],
    )


def _row(call: Call, name: str, asked: Any) -> Any:
    partition = call.broker.topics.partition(name, asked.partition)
    error, epoch, end_offset = topic_refusal(call, Operation.DESCRIBE, name), NOTHING, NOTHING
    if error:
        pass
    elif partition is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif partition.is_offline:
        error = ErrorCode.KAFKA_STORAGE_ERROR
    elif asked.current_leader_epoch > LEADER_EPOCH:
        error = ErrorCode.UNKNOWN_LEADER_EPOCH
    elif asked.leader_epoch == LEADER_EPOCH:
        epoch, end_offset = LEADER_EPOCH, partition.end_offset
    return PartitionRow(
        error_code=error, partition=asked.partition, leader_epoch=epoch, end_offset=end_offset
    )


API = Api(23, "OffsetForLeaderEpoch", 2, 4, respond, is_alone=True)
