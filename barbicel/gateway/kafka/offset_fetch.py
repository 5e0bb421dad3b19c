"""OffsetFetch (key 9), versions 1 to 10.

- What was never committed is offset -1 without an error, also of groups, topics and partitions that do not
  exist. Metadata that was null comes back as "".
- From version 2 on null topics mean all that were committed; 8 brought many groups in a request, 10 topic ids
  in place of names.
- require_stable (7) asks to wait for transactions; there are none. The member and its epoch (9) are of
  the newer consumer protocol and are not checked, as Kafka does not for classic groups.
- Of a Kestrel queue's group it is told up to where everything was taken, though nobody ever commits that.
- What is asked twice, a partition or a group with the same partitions, is answered once.
- Needs DESCRIBE on the group and on each topic; of all topics those without are left out.
- A position that cannot be read is its partition's error: a consumer that was told -1 would begin anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.acls import Operation, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import Message, OffsetFetchResponse
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.consumption import Committed, Place
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.group_refusals import group_error_code_of
from barbicel.gateway.kafka.permission import group_access_refusal, may
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

# Up to version 7 the topics of the one group, from 8 on those of each group.
OldTopicRow = OffsetFetchResponse.OffsetFetchResponseTopic
OldPartitionRow = OldTopicRow.OffsetFetchResponsePartition
GroupRow = OffsetFetchResponse.OffsetFetchResponseGroup
TopicRow = GroupRow.OffsetFetchResponseTopics
PartitionRow = TopicRow.OffsetFetchResponsePartitions
GROUP_ERRORS_SINCE = 2
MANY_GROUPS_SINCE = 8
IDS_SINCE = 10
NOTHING = Committed(-1, -1, "")

Positions: TypeAlias = dict[Place, Committed | BarbicelError]


class Wanted(NamedTuple):
    """A topic that is asked for, or that a group has positions in. One of the two names it."""

    name: str | None
    id: UUID | None
    partitions: tuple[int, ...]
    # The client may not know of it.
    is_denied: bool = False


class Question(NamedTuple):
    """What is asked about a group; None for the topics means all that it has positions in."""

    group_id: str
    topics: tuple[Wanted, ...] | None


class Found(NamedTuple):
    group_id: str
    topics: Sequence[Wanted]
    positions: Positions
    error: ErrorCode = ErrorCode.NONE


def respond(call: Call, request: Message) -> Reply:
    groups = [request] if call.version < MANY_GROUPS_SINCE else request.groups
    questions = dict.fromkeys(_question(call, group) for group in groups)
    return gather(call, (_find(call, question) for question in questions), partial(_found, call))


def _question(call: Call, group: Any) -> Question:
    if group.topics is None:
        return Question(group.group_id, None)
    wanted: dict[tuple[str | None, UUID | None], dict[int, None]] = {}
    for topic in group.topics:
        partitions = wanted.setdefault(_name_and_id(call, topic), {})
        partitions.update(dict.fromkeys(topic.partition_indexes))
    topics = (Wanted(*key, tuple(numbers), _is_denied(call, key[0])) for key, numbers in wanted.items())
    return Question(group.group_id, tuple(topics))


def _is_denied(call: Call, name: str | None) -> bool:
    return name is not None and not may(call, Operation.DESCRIBE, Resource.TOPIC, name)


def _name_and_id(call: Call, topic: Any) -> tuple[str | None, UUID | None]:
    if call.version < IDS_SINCE:
        return topic.name, None
    known = call.broker.topics.find(None, topic.topic_id.bytes if topic.topic_id else None)
    return (None if known is None else known.name), topic.topic_id


def _find(call: Call, question: Question) -> Found | Deferred[Found]:
    topics = question.topics
    if refusal := group_access_refusal(call, Operation.DESCRIBE, question.group_id):
        # The first version has no place for an error but its partitions.
        asked = topics if topics is not None and call.version < GROUP_ERRORS_SINCE else ()
        return Found(question.group_id, asked, {}, refusal)
    places = None if topics is None else [place for topic in topics for place in _places(topic)]
    found: Deferred[Any] = call.broker.offsets.fetch(question.group_id, places)
    return found.addCallback(
        lambda positions: Found(
            question.group_id, _all_of(call, positions) if topics is None else topics, positions
        )
    )


def _places(topic: Wanted) -> list[Place]:
    if topic.name is None or topic.is_denied:
        return []
    return [(topic.name, number) for number in topic.partitions]


def _found(call: Call, found: list[Found]) -> Reply:
    """A group's positions may be as many as there are partitions, so their rows are gathered anew."""
    partition_row = OldPartitionRow if call.version < MANY_GROUPS_SINCE else PartitionRow
    rows = (
        partition_row(partition_index=number, **_position(group, topic, number))
        for group in found
        for topic in group.topics
        for number in topic.partitions
    )
    return gather(call, rows, partial(_answer, call, found))


def _answer(call: Call, found: list[Found], rows: list[Any]) -> Reply:
    partitions = iter(rows)
    if call.version < MANY_GROUPS_SINCE:
        topics = _topic_rows(call, OldTopicRow, found[0], partitions)
        return OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=found[0].error, groups=[])
    groups = (
        GroupRow(
            group_id=group.group_id,
            topics=_topic_rows(call, TopicRow, group, partitions),
            error_code=group.error,
        )
        for group in found
    )
    return gather(
        call,
        groups,
        lambda group_rows: OffsetFetchResponse(throttle_time_ms=0, topics=[], groups=group_rows),
        lambda group_row: 1 + len(group_row.topics),
    )


def _topic_rows(call: Call, kind: Any, group: Found, partitions: Iterator[Any]) -> list[Any]:
    return [
        kind(**_topic_name(call, topic), partitions=list(islice(partitions, len(topic.partitions))))
        for topic in group.topics
    ]


def _all_of(call: Call, found: Positions) -> Sequence[Wanted]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for name, number in found:
        numbers[name].append(number)
    topics = [
        (name, call.broker.topics.by_name(name))
        for name in numbers
        if may(call, Operation.DESCRIBE, Resource.TOPIC, name, is_quiet=True)
    ]
    return [
        Wanted(name, None if known is None else known.topic.id, tuple(numbers[name]))
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


def _position(group: Found, topic: Wanted, number: int) -> dict[str, Any]:
    error, position = group.error, NOTHING
    if error:
        pass
    elif topic.is_denied:
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif topic.name is None:
        error = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        known = group.positions.get((topic.name, number), NOTHING)
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


API = Api(9, "OffsetFetch", 1, 10, respond, is_alone=True)
