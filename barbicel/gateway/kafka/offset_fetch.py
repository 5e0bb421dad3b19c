"""OffsetFetch (key 9), versions 1 to 10.

- What was never committed is offset -1 without an error, also of groups, topics and partitions that do not
  exist. Metadata that was null comes back as "".
- From version 2 on null topics mean all that were committed; 8 brought many groups in a request, 10 topic ids
  in place of names.
- require_stable (7) asks to wait for transactions; there are none. The member and its epoch (9) are of
  the newer consumer protocol and are not checked, as Kafka does not for classic groups.
- Of a Kestrel queue's group it is told up to where everything was taken, though nobody ever commits that.
- A position that cannot be read is its partition's error: a consumer that was told -1 would begin anew.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from twisted.internet.defer import Deferred, gatherResults

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import Message, OffsetFetchResponse
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.consumption import Committed, Place
from barbicel.gateway.kafka.api import Api, Call
from barbicel.gateway.kafka.group_refusals import group_error_code_of

__all__ = ["API"]

# Up to version 7 the topics of the one group, from 8 on those of each group.
OldTopicRow = OffsetFetchResponse.OffsetFetchResponseTopic
OldPartitionRow = OldTopicRow.OffsetFetchResponsePartition
GroupRow = OffsetFetchResponse.OffsetFetchResponseGroup
TopicRow = GroupRow.OffsetFetchResponseTopics
PartitionRow = TopicRow.OffsetFetchResponsePartitions
MANY_GROUPS_SINCE = 8
IDS_SINCE = 10
NOTHING = Committed(-1, -1, "")


class Wanted(NamedTuple):
    """A topic that is asked for, or that a group has positions in. One of the two names it."""

    name: str | None
    id: UUID | None
    partitions: list[int]


def respond(call: Call, request: Message) -> Deferred[Message]:
    if call.version < MANY_GROUPS_SINCE:
        return _find(call, request.group_id, request.topics).addCallback(
            lambda topics: OffsetFetchResponse(
                throttle_time_ms=0, topics=topics, error_code=ErrorCode.NONE, groups=[]
            )
        )
    rows = [
        _find(call, group.group_id, group.topics).addCallback(partial(_group_row, group.group_id))
        for group in request.groups
    ]
    return gatherResults(rows, consumeErrors=True).addCallback(
        lambda groups: OffsetFetchResponse(throttle_time_ms=0, topics=[], groups=groups)
    )


def _group_row(group_id: str, topics: list[Any]) -> Any:
    return GroupRow(group_id=group_id, topics=topics, error_code=ErrorCode.NONE)


def _find(call: Call, group_id: str, topics: list[Any] | None) -> Deferred[list[Any]]:
    """The rows of a group's topics."""
    wanted = None if topics is None else [_wanted(call, topic) for topic in topics]
    places = None if wanted is None else [place for topic in wanted for place in _places(topic)]
    found: Deferred[Any] = call.broker.offsets.fetch(group_id, places)
    return found.addCallback(partial(_rows, call, wanted))


def _wanted(call: Call, topic: Any) -> Wanted:
    if call.version < IDS_SINCE:
        return Wanted(topic.name, None, topic.partition_indexes)
    known = call.broker.topics.find(None, topic.topic_id.bytes if topic.topic_id else None)
    return Wanted(None if known is None else known.name, topic.topic_id, topic.partition_indexes)


def _places(topic: Wanted) -> list[Place]:
    return [] if topic.name is None else [(topic.name, number) for number in topic.partitions]


def _rows(
    call: Call, wanted: list[Wanted] | None, found: dict[Place, Committed | BarbicelError]
) -> list[Any]:
    topic_row, partition_row = (
        (OldTopicRow, OldPartitionRow) if call.version < MANY_GROUPS_SINCE else (TopicRow, PartitionRow)
    )
    return [
        topic_row(
            **_topic_name(call, topic),
            partitions=[
                partition_row(partition_index=number, **_position(topic, number, found))
                for number in topic.partitions
            ],
        )
        for topic in (_all_of(call, found) if wanted is None else wanted)
    ]


def _all_of(call: Call, found: dict[Place, Any]) -> list[Wanted]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for name, number in found:
        numbers[name].append(number)
    topics = [(name, call.broker.topics.by_name(name)) for name in numbers]
    return [
        Wanted(name, None if known is None else known.topic.id, numbers[name])
        for name, known in topics
        # A topic that is just being deleted has no id any more.
        if known is not None or call.version < IDS_SINCE
    ]


def _topic_name(call: Call, topic: Wanted) -> dict[str, Any]:
    return (
        {"name": topic.name}
        if call.version < MANY_GROUPS_SINCE
        else {
            "name": topic.name,
            "topic_id": topic.id,
        }
    )


def _position(topic: Wanted, number: int, found: dict[Place, Committed | BarbicelError]) -> dict[str, Any]:
    error, position = ErrorCode.NONE, NOTHING
    if topic.name is None:
        error = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        known = found.get((topic.name, number), NOTHING)
        if isinstance(known, BarbicelError):
            error = group_error_code_of(known)
        else:
            position = known
    return {
        "committed_offset": position.offset,
        "committed_leader_epoch": position.leader_epoch,
        "metadata": position.metadata or "",
        "error_code": error,
    }


API = Api(9, "OffsetFetch", 1, 10, respond)
