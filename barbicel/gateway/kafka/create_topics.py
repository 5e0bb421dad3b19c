"""CreateTopics (key 19), versions 2 to 7.

- -1 partitions or -1 copies mean the default. There is one broker: more than one copy is refused, and so is
  an assignment to any other broker. With an assignment both numbers must be -1.
- A topic that is named twice gets one row, INVALID_REQUEST. A setting that is given twice: the last counts.
- What is wrong is looked for in Kafka's order: the name, the settings, the numbers.
- More than 10,000 partitions in one request are POLICY_VIOLATION for all of it.
- Needs CREATE on the topic or on the cluster; without DESCRIBE_CONFIGS its settings are not told.
- A timeout of 0 or less is REQUEST_TIMED_OUT and nothing is done, as with Kafka 4. Later on it only ends the
  waiting: the topic may be there after all.
- Version 5 answers the topic's settings and numbers, 7 its id. Kafka makes up an id where a request only
  validates; here that has none, as it leads nowhere.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from barbicel.codecs.kafka.acls import Operation, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import CreateTopicsResponse, Message
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.assignments import (
    DEFAULT,
    REPLICATION_FACTOR,
    check_assignment,
    check_partition_numbers,
    check_replication,
)
from barbicel.gateway.broker.catalogue import MAX_PARTITIONS
from barbicel.gateway.broker.topic_errors import InvalidPartitions, InvalidRequest, TooManyPartitions
from barbicel.gateway.broker.topic_settings import check_settings, check_tiering, describe_settings
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import may
from barbicel.gateway.kafka.refusals import error_code_of, message_of, note_refusals
from barbicel.gateway.kafka.rows import gather, within

__all__ = ["API"]

_log = logging.getLogger(__name__)

TopicRow = CreateTopicsResponse.CreatableTopicResult
ConfigRow = TopicRow.CreatableTopicConfigs


class NewTopic(NamedTuple):
    name: str
    partitions: int
    settings: Mapping[str, str]


def respond(call: Call, request: Message) -> Reply:
    times = Counter(asked.name for asked in request.topics)
    asked_once = {asked.name: asked for asked in request.topics}
    if request.timeout_ms <= 0:
        late = (_problem(name, ErrorCode.REQUEST_TIMED_OUT) for name in asked_once)
        return gather(call, late, partial(_answer, call))
    if _count_partitions(call, request) > MAX_PARTITIONS:
        refusal = TooManyPartitions(f"more than {MAX_PARTITIONS} partitions in one request")
        return gather(call, (_refused(name, refusal) for name in asked_once), partial(_answer, call))
    return gather(
        call,
        (
            _row(call, request, asked)
            if times[name] == 1
            else _refused(name, InvalidRequest("the topic is named twice"))
            for name, asked in asked_once.items()
        ),
        partial(_answer, call),
        _size,
    )


def _size(row: Any) -> int:
    return 1 if isinstance(row, Deferred) else 1 + len(row.configs or ())


def _count_partitions(call: Call, request: Message) -> int:
    default = call.broker.config.num_partitions
    return sum(
        len(asked.assignments)
        or (default if asked.num_partitions == DEFAULT else max(0, asked.num_partitions))
        for asked in request.topics
    )


def _row(call: Call, request: Message, asked: Any) -> Any:
    """The row of a topic, now or when it was created."""
    if not _may_create(call, asked.name):
        return _problem(asked.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    try:
        wanted = _checked(call, asked)
    except BarbicelError as error:
        return _refused(asked.name, error)
    if request.validate_only:
        return _made(call, wanted, None)
    created: Deferred[Any] = call.broker.topics.create(*wanted).addCallbacks(
        lambda topic: _created(call, wanted, topic), lambda failure: _failed(asked.name, failure)
    )
    return within(
        call, request.timeout_ms, created, lambda: _problem(asked.name, ErrorCode.REQUEST_TIMED_OUT)
    )


def _may_create(call: Call, name: str) -> bool:
    return may(call, Operation.CREATE, Resource.CLUSTER, is_quiet=True) or may(
        call, Operation.CREATE, Resource.TOPIC, name
    )


def _checked(call: Call, asked: Any) -> NewTopic:
    # One partition is always allowed: how many are wanted is looked at last.
    call.broker.catalogue.check_new(asked.name, 1)
    settings = check_settings({setting.name: setting.value for setting in asked.configs})
    check_tiering({}, settings, call.broker.config)
    return NewTopic(asked.name, _partitions(call, asked), settings)


def _partitions(call: Call, asked: Any) -> int:
    if asked.assignments:
        return _assigned_partitions(call, asked)
    if asked.replication_factor < 1:  # an impossible one comes first, one that cannot be reached last
        check_replication(asked.replication_factor)
    if asked.num_partitions != DEFAULT and asked.num_partitions < 1:
        raise InvalidPartitions(
            f"{asked.num_partitions} partitions, it must be 1 or more, or -1 for the default"
        )
    check_replication(asked.replication_factor)
    return call.broker.config.num_partitions if asked.num_partitions == DEFAULT else int(asked.num_partitions)


def _assigned_partitions(call: Call, asked: Any) -> int:
    for name, value in (
        ("replication factor", asked.replication_factor),
        ("number of partitions", asked.num_partitions),
    ):
        if value != DEFAULT:
            raise InvalidRequest(f"partitions are assigned, so the {name} must be -1, not {value}")
    for assignment in asked.assignments:
        check_assignment(assignment.broker_ids, call.broker.node_id)
    check_partition_numbers([assignment.partition_index for assignment in asked.assignments])
    return len(asked.assignments)


def _created(call: Call, wanted: NewTopic, topic: OpenTopic) -> Message:
    _log.info("topic %s with %d partitions, created by %s", wanted.name, wanted.partitions, call.who)
    return _made(call, wanted, topic.topic.id)


def _failed(name: str, failure: Failure) -> Message:
    return _refused(name, failure.value)


def _made(call: Call, wanted: NewTopic, identity: UUID | None) -> Message:
    if not may(call, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, wanted.name, is_quiet=True):
        return TopicRow(
            name=wanted.name,
            topic_id=identity,
            error_code=ErrorCode.NONE,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            num_partitions=-1,
            replication_factor=-1,
            configs=None,
        )
    return TopicRow(
        name=wanted.name,
        topic_id=identity,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=wanted.partitions,
        replication_factor=REPLICATION_FACTOR,
        configs=[
            ConfigRow(
                name=setting.name,
                value=setting.value,
                read_only=False,
                config_source=setting.source,
                is_sensitive=False,
            )
            for setting in describe_settings(wanted.settings, call.broker.config)
        ],
    )


def _refused(name: str, error: BaseException | None) -> Message:
    return _problem(name, error_code_of(error), message_of(error))


def _problem(name: str, error_code: ErrorCode, message: str | None = None) -> Message:
    return TopicRow(name=name, topic_id=None, error_code=error_code, error_message=message, configs=[])


def _answer(call: Call, rows: list[Any]) -> Message:
    note_refusals(call, "CreateTopics", rows)
    return CreateTopicsResponse(throttle_time_ms=0, topics=rows)


API = Api(19, "CreateTopics", 2, 7, respond, is_alone=True)
