"""The resources that have settings: how DescribeConfigs, AlterConfigs and IncrementalAlterConfigs name them.

Topics and this broker are known. Kafka also has loggers, client metrics subscriptions and groups; here they
have no settings, and asking for them is INVALID_REQUEST, for that resource alone.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import Message
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.topic_errors import InvalidRequest
from barbicel.gateway.broker.topic_settings import check_tiering
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.gateway.kafka.api import Call
from barbicel.gateway.kafka.known_topic import known_topic
from barbicel.gateway.kafka.permission import cluster_refusal, topic_refusal
from barbicel.gateway.kafka.refusals import error_code_of, message_of

__all__ = ["Alteration", "Resource", "ResourceType", "Row", "alter", "broker_resource", "resource_refusal"]

_log = logging.getLogger(__name__)

# All brokers at once, in Kafka.
EVERY_BROKER = ""


class ResourceType(IntEnum):
    """KIP-133's numbers, of those that have settings here."""

    TOPIC = 2
    BROKER = 4


class Resource(NamedTuple):
    type: int
    name: str


class Alteration(NamedTuple):
    """What one request wants of one resource."""

    resource: Resource
    # The settings that get a value.
    set_names: Sequence[str]
    # Makes the new settings of a topic from those in force; may raise.
    change: Callable[[Mapping[str, str]], Mapping[str, str]]


# Makes a row of an answer: of which resource, how it went, and why.
Row: TypeAlias = Callable[[Resource, ErrorCode, str | None], Message]


def broker_resource(call: Call, name: str) -> bool:
    """Whether the name is this broker's, and not all brokers'. Raises InvalidRequest for any other."""
    if name == EVERY_BROKER:
        return False
    if name != str(call.broker.node_id):
        raise InvalidRequest(f"broker {name[:100]!r} is not here, only {call.broker.node_id} is")
    return True


def resource_refusal(call: Call, operation: Operation, resource: Resource) -> ErrorCode:
    """A broker's settings are the cluster's. Of what has no settings nothing is said here."""
    if resource.type == ResourceType.TOPIC:
        return topic_refusal(call, operation, resource.name)
    return cluster_refusal(call, operation)


def alter(call: Call, wanted: Sequence[Alteration], row: Row, *, validate_only: bool) -> Iterator[Any]:
    """A row for each resource, some of them later. Each resource is changed as a whole or not at all."""
    times = Counter(alteration.resource for alteration in wanted)
    once = {alteration.resource: alteration for alteration in wanted}
    twice = InvalidRequest("the resource is named twice")
    for resource, alteration in once.items():
        if times[resource] == 1:
            yield _alter(call, alteration, row, validate_only)
        else:
            yield row(resource, error_code_of(twice), message_of(twice))


def _alter(call: Call, wanted: Alteration, row: Row, validate_only: bool) -> Any:
    resource = wanted.resource
    if refusal := resource_refusal(call, Operation.ALTER_CONFIGS, resource):
        return row(resource, refusal, None)
    try:
        if resource.type == ResourceType.BROKER:
            _check_broker(call, wanted)
        elif resource.type == ResourceType.TOPIC:
            return _alter_topic(call, wanted, row, validate_only)
        else:
            raise InvalidRequest(f"resources of type {resource.type} have no settings here")
    except BarbicelError as error:
        return row(resource, error_code_of(error), message_of(error))
    return row(resource, ErrorCode.NONE, None)


def _check_broker(call: Call, wanted: Alteration) -> None:
    """Taking back what was never set changes nothing, and is no error in Kafka either."""
    broker_resource(call, wanted.resource.name)
    if wanted.set_names:
        names = ", ".join(wanted.set_names)[:500]
        raise InvalidRequest(f"cannot be changed while the server runs: {names}")


def _alter_topic(call: Call, wanted: Alteration, row: Row, validate_only: bool) -> Any:
    resource = wanted.resource
    if not resource.name:
        raise InvalidRequest("there are no settings for all topics")
    topic = known_topic(call, resource.name)
    # Looked at here too, so that what cannot be right costs the disk's thread nothing.
    check_tiering(topic.topic.settings, wanted.change(topic.topic.settings), call.broker.config)
    if validate_only:
        return row(resource, ErrorCode.NONE, None)

    def altered(topic: OpenTopic) -> Message:
        _log.info("topic %s, set by %s: %s", topic.name, call.who, dict(topic.topic.settings))
        return row(resource, ErrorCode.NONE, None)

    done: Deferred[OpenTopic] = call.broker.topics.change_settings(resource.name, wanted.change)
    return done.addCallbacks(
        altered, lambda failure: row(resource, error_code_of(failure.value), message_of(failure.value))
    )
