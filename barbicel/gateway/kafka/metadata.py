"""Metadata (key 3), versions 0 to 13.

- Version 0: an empty list means all topics; from 1 on null does, and an empty list means none.
- Version 4 brought allow_auto_topic_creation; before it creation was always allowed.
- Version 10 brought topic ids, 12 lets clients ask by id alone.
- kafka-python, librdkafka and many test suites expect that asking for a topic creates it. Of more than a
  hundred in one request the rest are LEADER_NOT_AVAILABLE: clients then ask again.
- Authorized operations, from version 8 on if asked for, are all of them: there is no access control.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import Message, MetadataResponse
from barbicel.gateway.broker.partition import LEADER_EPOCH
from barbicel.gateway.broker.topic_errors import InvalidTopic, TopicExists
from barbicel.gateway.broker.topic_names import check_topic_name
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.gateway.kafka.advertised import advertised_address
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from barbicel.gateway.kafka.refusals import error_code_of

__all__ = ["API"]

TopicRow = MetadataResponse.MetadataResponseTopic
PartitionRow = TopicRow.MetadataResponsePartition
BrokerRow = MetadataResponse.MetadataResponseBroker
NO_ID = UUID(int=0)
AUTO_CREATION_SINCE = 4
# Each is some files and some syncs, and a request of a kilobyte can name hundreds.
MAX_CREATED = 100


def respond(call: Call, request: Message) -> Reply:
    broker = call.broker
    if request.topics is None or (call.version == 0 and not request.topics):
        return _answer(call, request, [_row(broker.node_id, topic) for topic in broker.topics])
    may_create = broker.config.auto_create_topics_enable and (
        call.version < AUTO_CREATION_SINCE or request.allow_auto_topic_creation
    )
    rows: list[Any] = []
    created: list[Deferred[Any]] = []
    for asked in request.topics:
        row = _find(call, asked, may_create, has_room=len(created) < MAX_CREATED)
        rows.append(row)
        if isinstance(row, Deferred):
            created.append(row)
    if not created:
        return _answer(call, request, rows)
    return DeferredList(created).addCallback(lambda _: _answer(call, request, [_result(row) for row in rows]))


def _find(call: Call, asked: Any, may_create: bool, *, has_room: bool) -> Any:
    """The row of a topic, now or when it was created."""
    topics, node_id = call.broker.topics, call.broker.node_id
    identity = getattr(asked, "topic_id", None) or NO_ID
    # Java's admin client sends an empty name with the id, and Kafka goes by the id.
    if asked.name is None or identity != NO_ID:
        known = topics.by_id(identity.bytes)
        return _problem(ErrorCode.UNKNOWN_TOPIC_ID, None, identity) if known is None else _row(node_id, known)
    known = topics.by_name(asked.name)
    if known is not None:
        return _row(node_id, known)
    try:
        check_topic_name(asked.name)
    except InvalidTopic:
        return _problem(ErrorCode.INVALID_TOPIC_EXCEPTION, asked.name)
    if not may_create:
        return _problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, asked.name)
    if not has_room:
        return _problem(ErrorCode.LEADER_NOT_AVAILABLE, asked.name)
    created = topics.create(asked.name, call.broker.config.num_partitions, {})
    return created.addCallbacks(
        lambda topic: _row(node_id, topic), lambda failure: _not_created(call, asked.name, failure)
    )


def _not_created(call: Call, name: str, failure: Failure) -> Any:
    known = call.broker.topics.by_name(name)
    if isinstance(failure.value, TopicExists) and known is not None:  # somebody was faster
        return _row(call.broker.node_id, known)
    return _problem(error_code_of(failure.value), name)


def _result(row: Any) -> Any:
    return row.result if isinstance(row, Deferred) else row


def _answer(call: Call, request: Message, topics: list[Any]) -> Message:
    host, port = advertised_address(call)
    if request.include_topic_authorized_operations:
        for row in topics:
            if not row.error_code:
                row.authorized_operations = TOPIC_OPERATIONS
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[BrokerRow(node_id=call.broker.node_id, host=host, port=port, rack=None)],
        cluster_id=call.broker.cluster_id,
        controller_id=call.broker.node_id,
        topics=topics,
        error_code=ErrorCode.NONE,
        authorized_operations=CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else None,
    )


def _problem(error_code: ErrorCode, name: str | None, identity: UUID = NO_ID) -> Any:
    return TopicRow(error_code=error_code, name=name, topic_id=identity, is_internal=False, partitions=[])


def _row(node_id: int, topic: OpenTopic) -> Any:
    return TopicRow(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic.id,
        is_internal=False,
        partitions=[
            PartitionRow(
                error_code=ErrorCode.NONE,
                partition_index=number,
                leader_id=node_id,
                leader_epoch=LEADER_EPOCH,
                replica_nodes=[node_id],
                isr_nodes=[node_id],
                offline_replicas=[],
            )
            for number in range(len(topic.partitions))
        ],
    )


API = Api(3, "Metadata", 0, 13, respond)
