"""OffsetCommit (key 8), versions 2 to 10.

- The answer comes when the positions are written: they survive kill -9, and a power cut 100 ms later. If one
  is lost, messages are read again; none is lost with it.
- A consumer without a group's membership commits with generation -1 and no member id.
- Needs READ on the group and on each topic.
- An offset beyond the log's end is taken, as Kafka takes it: its consumer gets OFFSET_OUT_OF_RANGE. Kafka
  takes negative ones too, and answers them as if nothing was committed; here they are INVALID_REQUEST.
- Version 6 brought leader epochs, 7 static members, 10 topic ids in place of names. The retention time of 2
  to 4 has no meaning: positions stay until they are deleted.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import Message, OffsetCommitResponse
from barbicel.gateway.broker.consumption import Outcomes, Place, Position
from barbicel.gateway.broker.membership import Commit
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.group_refusals import group_error_code_of, group_refusal
from barbicel.gateway.kafka.permission import topic_refusal
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

TopicRow = OffsetCommitResponse.OffsetCommitResponseTopic
PartitionRow = TopicRow.OffsetCommitResponsePartition
IDS_SINCE = 10


class Asked(NamedTuple):
    """A topic of the request. The name is None if there is no such id."""

    topic: Any
    name: str | None


class Checked(NamedTuple):
    position: Position
    error: ErrorCode


def respond(call: Call, request: Message) -> Reply:
    topics = [Asked(topic, _name(call, topic)) for topic in request.topics]
    committer = Commit(
        request.group_id, request.generation_id_or_member_epoch, request.member_id, request.group_instance_id
    )
    refusal = group_refusal(call, request.group_id)
    is_denied = refusal is ErrorCode.GROUP_AUTHORIZATION_FAILED
    checked = (
        Checked(position, refusal if is_denied else _check(call, position))
        for asked in topics
        for position in _positions(asked)
    )
    return gather(call, checked, partial(_commit, call, committer, refusal, topics))


def _commit(
    call: Call, committer: Commit, refusal: ErrorCode, topics: list[Asked], checked: list[Checked]
) -> Reply:
    # Not before, for others are served while positions are looked at: its place may be another member's now.
    refusal = refusal or call.broker.coordinator.check_commit(committer, call.broker.steady_clock())
    call.broker.watch_groups()
    # Of a partition that is named twice the last position counts. It is looked for once more: a commit behind
    # a topic's deletion would be a position in the next one of its name.
    errors = {
        position.place: error or _check_place(call, position.place) or refusal for position, error in checked
    }
    allowed = {
        position.place: position for position, _ in checked if errors[position.place] is ErrorCode.NONE
    }
    if not allowed:
        return _answer(call, topics, errors, {})
    written: Deferred[Outcomes] = call.broker.offsets.commit(committer.group_id, list(allowed.values()))
    return written.addCallback(partial(_answer, call, topics, errors))


def _name(call: Call, topic: Any) -> str | None:
    if call.version < IDS_SINCE:
        return str(topic.name)
    known = call.broker.topics.find(None, topic.topic_id.bytes if topic.topic_id else None)
    return None if known is None else known.name


def _positions(asked: Asked) -> list[Position]:
    if asked.name is None:
        return []
    return [
        Position(
            (asked.name, partition.partition_index),
            partition.committed_offset,
            partition.committed_leader_epoch if partition.committed_leader_epoch >= 0 else None,
            partition.committed_metadata,
        )
        for partition in asked.topic.partitions
    ]


def _check_place(call: Call, place: Place) -> ErrorCode:
    is_known = call.broker.topics.partition(*place) is not None
    return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _check(call: Call, position: Position) -> ErrorCode:
    if refusal := topic_refusal(call, Operation.READ, position.place[0]):
        return refusal
    if unknown := _check_place(call, position.place):
        return unknown
    if len((position.metadata or "").encode()) > call.broker.config.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.INVALID_REQUEST if position.offset < 0 else ErrorCode.NONE


def _answer(call: Call, topics: list[Asked], errors: dict[Place, ErrorCode], written: Outcomes) -> Reply:
    rows = (
        PartitionRow(
            partition_index=partition.partition_index,
            error_code=_error(asked.name, partition.partition_index, errors, written),
        )
        for asked in topics
        for partition in asked.topic.partitions
    )
    return gather(call, rows, partial(_response, topics))


def _response(topics: list[Asked], rows: list[Any]) -> Message:
    partitions = iter(rows)
    return OffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            TopicRow(
                name=asked.name,
                topic_id=asked.topic.topic_id,
                partitions=list(islice(partitions, len(asked.topic.partitions))),
            )
            for asked in topics
        ],
    )


def _error(name: str | None, number: int, errors: dict[Place, ErrorCode], written: Outcomes) -> ErrorCode:
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return errors[name, number] or group_error_code_of(written.get((name, number)))


API = Api(8, "OffsetCommit", 2, 10, respond, is_alone=True)
