"""DescribeConfigs (key 32), versions 1 to 4.

- Topics (2) and this broker (4). The broker "" means what was set on all brokers while they run, which is
  nothing. Other kinds of resources are INVALID_REQUEST, for that resource alone; Kafka 4 fails the whole
  request for a kind that it does not know.
- No keys, or null, means all settings; a key that is no setting is passed over.
- Version 1 brought synonyms, 3 types and documentation. `is_default` was dropped with version 0.
- A question that is asked twice is answered once: an answer is a thousand times as long as its question.
- Needs DESCRIBE_CONFIGS on the topic, or on the cluster.
- The broker's settings are all read-only: tools must not offer to change them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DescribeConfigsResponse, Message
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.server_settings import describe_server
from barbicel.gateway.broker.topic_errors import InvalidRequest
from barbicel.gateway.broker.topic_settings import Described, describe_settings
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.config_resources import (
    Resource,
    ResourceType,
    broker_resource,
    resource_refusal,
)
from barbicel.gateway.kafka.known_topic import known_topic
from barbicel.gateway.kafka.refusals import error_code_of, message_of
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

ResourceRow = DescribeConfigsResponse.DescribeConfigsResult
ConfigRow = ResourceRow.DescribeConfigsResourceResult
SynonymRow = ConfigRow.DescribeConfigsSynonym


def respond(call: Call, request: Message) -> Reply:
    describe = cache(partial(_describe, call))
    questions = dict.fromkeys(
        (Resource(asked.resource_type, asked.resource_name), frozenset(asked.configuration_keys or ()))
        for asked in request.resources
    )
    return gather(
        call,
        (_result(call, request, resource, keys, describe) for resource, keys in questions),
        lambda rows: DescribeConfigsResponse(throttle_time_ms=0, results=rows),
        lambda row: 1 + len(row.configs),
    )


def _result(
    call: Call,
    request: Message,
    resource: Resource,
    keys: frozenset[str],
    describe: Callable[[Resource], Sequence[Described]],
) -> Message:
    if refusal := resource_refusal(call, Operation.DESCRIBE_CONFIGS, resource):
        return _row(resource, refusal, "", [])
    try:
        found = describe(resource)
    except BarbicelError as error:
        return _row(resource, error_code_of(error), message_of(error), [])
    wanted = [setting for setting in found if not keys or setting.name in keys]
    is_read_only = resource.type != ResourceType.TOPIC
    # Kafka answers an empty message here, not null.
    return _row(resource, ErrorCode.NONE, "", [_config(request, one, is_read_only) for one in wanted])


def _describe(call: Call, resource: Resource) -> Sequence[Described]:
    broker = call.broker
    if resource.type == ResourceType.TOPIC:
        topic = known_topic(call, resource.name)
        return describe_settings(topic.topic.settings, broker.config)
    if resource.type == ResourceType.BROKER:
        is_this = broker_resource(call, resource.name)
        return describe_server(broker.config, broker.data_directory) if is_this else ()
    raise InvalidRequest(f"resources of type {resource.type} have no settings here")


def _row(resource: Resource, error_code: ErrorCode, message: str, configs: list[Message]) -> Message:
    return ResourceRow(
        error_code=error_code,
        error_message=message,
        resource_type=resource.type,
        resource_name=resource.name,
        configs=configs,
    )


def _config(request: Message, setting: Described, is_read_only: bool) -> Message:
    synonyms = setting.synonyms if request.include_synonyms else ()
    return ConfigRow(
        name=setting.name,
        value=setting.value,
        read_only=is_read_only,
        config_source=setting.source,
        is_sensitive=False,
        synonyms=[SynonymRow(name=one.name, value=one.value, source=one.source) for one in synonyms],
        config_type=setting.type,
        documentation=setting.doc if request.include_documentation else None,
    )


API = Api(32, "DescribeConfigs", 1, 4, respond, is_alone=True)
