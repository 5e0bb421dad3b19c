"""DeleteTopics (key 20), versions 1 to 6.

- Version 6 names a topic by its name or by its id, never by both; 5 brought messages.
- A topic that is named twice, by its name and by its id too, is INVALID_REQUEST and stays.
- With delete.topic.enable off everything is TOPIC_DELETION_DISABLED, which versions before 3 do not know:
  those get INVALID_REQUEST.
- Needs DELETE on the topic or on the cluster.
- A timeout of 0 or less is REQUEST_TIMED_OUT and nothing is done, as with Kafka 4.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.acls import Operation, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DeleteTopicsResponse, Message
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import may
from barbicel.gateway.kafka.refusals import error_code_of, message_of, note_refusals
from barbicel.gateway.kafka.rows import gather, within

__all__ = ["API"]

_log = logging.getLogger(__name__)

TopicRow = DeleteTopicsResponse.DeletableTopicResult
STATES_SINCE = 6
DISABLED_SINCE = 3


class Asked(NamedTuple):
    """One topic of a request; `id` is None where it goes by its name."""

    name: str | None
    id: UUID | None = None


def respond(call: Call, request: Message) -> Reply:
    asked = _asked(call, request)
    if request.timeout_ms <= 0:
        late = (_problem(one, ErrorCode.REQUEST_TIMED_OUT) for one in dict.fromkeys(asked))
        return gather(call, late, partial(_answer, call))
    if not call.broker.config.delete_topic_enable:
        code = (
            ErrorCode.TOPIC_DELETION_DISABLED if call.version >= DISABLED_SINCE else ErrorCode.INVALID_REQUEST
        )
        disabled = (_problem(one, code, "delete.topic.enable is off") for one in dict.fromkeys(asked))
        return gather(call, disabled, partial(_answer, call))
    named_twice = _named_twice(call, asked)
    return gather(
        call,
        (
            _problem(one, ErrorCode.INVALID_REQUEST, "the topic is named twice")
            if one in named_twice
            else _row(call, request.timeout_ms, one)
            for one in dict.fromkeys(asked)
        ),
        partial(_answer, call),
    )


def _asked(call: Call, request: Message) -> list[Asked]:
    if call.version < STATES_SINCE:
        return [Asked(name) for name in request.topic_names]
    return [Asked(topic.name, topic.topic_id) for topic in request.topics]


def _named_twice(call: Call, asked: Sequence[Asked]) -> set[Asked]:
    found = {one: _find(call, one) for one in asked}
    times = Counter(asked)
    topics = Counter(topic.name for topic in found.values() if topic is not None)
    return {
        one
        for one, topic in found.items()
        if times[one] > 1 or (topic is not None and topics[topic.name] > 1)
    }


def _find(call: Call, one: Asked) -> OpenTopic | None:
    return call.broker.topics.find(one.name, None if one.id is None else one.id.bytes)


def _row(call: Call, timeout_ms: int, one: Asked) -> Any:
    """The row of a topic, now or when it was deleted."""
    if one.name is not None and one.id is not None:
        return _problem(one, ErrorCode.INVALID_REQUEST, "a topic has a name and an id here, one is allowed")
    if one == Asked(None):
        return _problem(one, ErrorCode.INVALID_REQUEST, "a topic has neither a name nor an id here")
    topic = _find(call, one)
    if refused := _refused(call, one, topic):
        return refused
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if one.name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _problem(one, unknown, "there is no such topic")
    known = Asked(topic.name, topic.topic.id)
    deleted: Deferred[Any] = call.broker.topics.delete(topic.name).addCallbacks(
        lambda _: _deleted(call, known),
        lambda failure: _problem(known, error_code_of(failure.value), message_of(failure.value)),
    )
    return within(call, timeout_ms, deleted, lambda: _problem(known, ErrorCode.REQUEST_TIMED_OUT))


def _refused(call: Call, one: Asked, topic: OpenTopic | None) -> Any:
    """None if it may be deleted. Who may not describe a topic does not learn the name of an id."""
    name = one.name if topic is None else topic.name
    if name is None or may(call, Operation.DELETE, Resource.CLUSTER, is_quiet=True):
        return None
    if may(call, Operation.DELETE, Resource.TOPIC, name):
        return None
    may_know = one.name is not None or may(call, Operation.DESCRIBE, Resource.TOPIC, name, is_quiet=True)
    shown = Asked(name if may_know else None, one.id)
    return _problem(shown, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")


def _deleted(call: Call, known: Asked) -> Message:
    _log.info("topic %s, deleted by %s", known.name, call.who)
    return _problem(known, ErrorCode.NONE)


def _problem(one: Asked, error_code: ErrorCode, message: str | None = None) -> Message:
    return TopicRow(name=one.name, topic_id=one.id, error_code=error_code, error_message=message)


def _answer(call: Call, rows: list[Any]) -> Message:
    note_refusals(call, "DeleteTopics", rows)
    return DeleteTopicsResponse(throttle_time_ms=0, responses=rows)


API = Api(20, "DeleteTopics", 1, 6, respond, is_alone=True)
