"""CreatePartitions (key 37), versions 0 to 3.

- `count` is how many partitions the topic has afterwards, and must be more than it has now.
- Assignments, where there are any, are one for each new partition, and to this broker.
- A topic that is named twice gets one row, INVALID_REQUEST.
- Needs ALTER on the topic.
- A timeout of 0 or less is REQUEST_TIMED_OUT and nothing is done, as with Kafka 4.
- Version 3 may be answered THROTTLING_QUOTA_EXCEEDED, which nothing here is.
"""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import CreatePartitionsResponse, Message
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.assignments import check_assignment
from barbicel.gateway.broker.topic_errors import InvalidAssignment, InvalidRequest
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import topic_refusal
from barbicel.gateway.kafka.refusals import error_code_of, message_of, note_refusals
from barbicel.gateway.kafka.rows import gather, within

__all__ = ["API"]

_log = logging.getLogger(__name__)

TopicRow = CreatePartitionsResponse.CreatePartitionsTopicResult


def respond(call: Call, request: Message) -> Reply:
    times = Counter(asked.name for asked in request.topics)
    asked_once = {asked.name: asked for asked in request.topics}
    if request.timeout_ms <= 0:
        late = (_result(name, ErrorCode.REQUEST_TIMED_OUT) for name in asked_once)
        return gather(call, late, partial(_answer, call))
    return gather(
        call,
        (
            _row(call, request, asked)
            if times[name] == 1
            else _refused(name, InvalidRequest("the topic is named twice"))
            for name, asked in asked_once.items()
        ),
        partial(_answer, call),
    )


def _row(call: Call, request: Message, asked: Any) -> Any:
    """The row of a topic, now or when its partitions are there."""
    if refusal := topic_refusal(call, Operation.ALTER, asked.name):
        return _result(asked.name, refusal, "The topic authorization is failed.")
    try:
        _check(call, asked)
    except BarbicelError as error:
        return _refused(asked.name, error)
    if request.validate_only:
        return _result(asked.name, ErrorCode.NONE)
    added: Deferred[Any] = call.broker.topics.add_partitions(asked.name, asked.count).addCallbacks(
        lambda _: _added(call, asked), lambda failure: _refused(asked.name, failure.value)
    )
    return within(call, request.timeout_ms, added, lambda: _result(asked.name, ErrorCode.REQUEST_TIMED_OUT))


def _check(call: Call, asked: Any) -> None:
    topic = call.broker.catalogue.check_partitions(asked.name, asked.count)
    if asked.assignments is None:
        return
    fresh = asked.count - topic.partitions
    if len(asked.assignments) != fresh:
        raise InvalidAssignment(f"{fresh} partitions are new, {len(asked.assignments)} are assigned")
    for assignment in asked.assignments:
        check_assignment(assignment.broker_ids, call.broker.node_id)


def _added(call: Call, asked: Any) -> Message:
    _log.info("topic %s has %d partitions now, asked for by %s", asked.name, asked.count, call.who)
    return _result(asked.name, ErrorCode.NONE)


def _refused(name: str, error: BaseException) -> Message:
    return _result(name, error_code_of(error), message_of(error))


def _result(name: str, error_code: ErrorCode, message: str | None = None) -> Message:
    return TopicRow(name=name, error_code=error_code, error_message=message)


def _answer(call: Call, rows: list[Any]) -> Message:
    note_refusals(call, "CreatePartitions", rows)
    return CreatePartitionsResponse(throttle_time_ms=0, results=rows)


API = Api(37, "CreatePartitions", 0, 3, respond, is_alone=True)
