"""OffsetDelete (key 47), version 0.

- Of a group that is consuming, only positions in topics that no member subscribes to may go.
- A position that there is not counts as deleted, as in Kafka. A group that there is not is
  GROUP_ID_NOT_FOUND; one that has positions and no members is known by its positions alone.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import Message, OffsetDeleteResponse
from barbicel.gateway.broker.consumption import Outcomes, Place
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.group_refusals import group_error_code_of, group_refusal
from barbicel.gateway.kafka.permission import topic_refusal
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

TopicRow = OffsetDeleteResponse.OffsetDeleteResponseTopic
PartitionRow = TopicRow.OffsetDeleteResponsePartition


def respond(call: Call, request: Message) -> Reply:
    if refusal := group_refusal(call, request.group_id, Operation.DELETE) or _check_group(
        call, request.group_id
    ):
        return OffsetDeleteResponse(error_code=refusal, throttle_time_ms=0, topics=[])
    places = [
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    checked = (_check(call, *place) for place in places)
    return gather(call, checked, partial(_delete, call, request, places))


def _delete(call: Call, request: Message, places: list[Place], found: list[ErrorCode]) -> Reply:
    # Not before, for others are served while positions are looked at: a member may have come meanwhile.
    is_subscribed = call.broker.coordinator.is_subscribed
    subscribed = {topic.name for topic in request.topics if is_subscribed(request.group_id, topic.name)}
    errors = {
        place: error or (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if place[0] in subscribed else ErrorCode.NONE)
        for place, error in zip(places, found, strict=True)
    }
    allowed = [place for place, error in errors.items() if error is ErrorCode.NONE]
    deleted: Deferred[Outcomes] = call.broker.offsets.delete(request.group_id, allowed)
    return deleted.addCallback(partial(_answer, call, request.topics, errors))


def _check_group(call: Call, group_id: str) -> ErrorCode:
    error = call.broker.coordinator.check_offset_delete(group_id)
    if error is ErrorCode.GROUP_ID_NOT_FOUND and call.broker.offsets.places(group_id):
        return ErrorCode.NONE
    return error


def _check(call: Call, name: str, number: int) -> ErrorCode:
    if refusal := topic_refusal(call, Operation.READ, name):
        return refusal
    is_known = call.broker.topics.partition(name, number) is not None
    return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _answer(call: Call, topics: list[Any], errors: dict[Place, ErrorCode], deleted: Outcomes) -> Reply:
    rows = (
        PartitionRow(
            partition_index=partition.partition_index,
            error_code=errors[topic.name, partition.partition_index]
            or group_error_code_of(deleted.get((topic.name, partition.partition_index))),
        )
        for topic in topics
        for partition in topic.partitions
    )
    return gather(call, rows, partial(_response, topics))


def _response(topics: list[Any], rows: list[Any]) -> Message:
    partitions = iter(rows)
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        throttle_time_ms=0,
        topics=[
            TopicRow(name=topic.name, partitions=list(islice(partitions, len(topic.partitions))))
            for topic in topics
        ],
    )


API = Api(47, "OffsetDelete", 0, 0, respond, is_alone=True)
