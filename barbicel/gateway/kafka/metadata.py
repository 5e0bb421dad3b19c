"""Metadata (key 3), versions 0 to 13.

- Version 0: an empty list means all topics; from 1 on null does, and an empty list means none.
- Version 4 brought allow_auto_topic_creation; before it creation was always allowed.
- Version 10 brought topic ids, 12 lets clients ask by id alone.
- kafka-python, librdkafka and many test suites expect that asking for a topic creates it. Of more than a
  hundred in one request the rest are LEADER_NOT_AVAILABLE: clients then ask again.
- A topic that is named twice is answered once, as Kafka's sets of names do it.
- Topics need DESCRIBE: of all topics those without are left out, one that is named is
  TOPIC_AUTHORIZATION_FAILED, an id is not known. Creating one by asking needs CREATE on it or on the cluster.
- Authorized operations, from version 8 on if asked for, are what ACLs allow.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from barbicel.codecs.kafka.acls import Operation, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import Message, MetadataResponse
from barbicel.gateway.broker.partition import LEADER_EPOCH
from barbicel.gateway.broker.topic_errors import InvalidTopic, TopicExists
from barbicel.gateway.broker.topic_names import check_topic_name
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.gateway.kafka.advertised import advertised_address
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import may, operations, topic_refusal
from barbicel.gateway.kafka.refusals import error_code_of
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

_log = logging.getLogger(__name__)

TopicRow = MetadataResponse.MetadataResponseTopic
PartitionRow = TopicRow.MetadataResponsePartition
BrokerRow = MetadataResponse.MetadataResponseBroker
NO_ID = UUID(int=0)
AUTO_CREATION_SINCE = 4
NULL_NAME_SINCE = 12
# Each is some files and some syncs, and a request of a kilobyte can name hundreds.
MAX_CREATED = 100


class Asked(NamedTuple):
    """A topic by its name, or without one by its id."""

    name: str | None
    id: UUID


def respond(call: Call, request: Message) -> Reply:
    broker = call.broker
    if request.topics is None or (call.version == 0 and not request.topics):
        everything = (
            _row(broker.node_id, topic)
            for topic in broker.topics
            if may(call, Operation.DESCRIBE, Resource.TOPIC, topic.name, is_quiet=True)
        )
        return gather(call, everything, partial(_answer, call, request), _size)
    may_create = broker.config.auto_create_topics_enable and (
        call.version < AUTO_CREATION_SINCE or request.allow_auto_topic_creation
    )
    # Once, however often it is named: the answer is long and a name is short.
    wanted = dict.fromkeys(_asked(topic) for topic in request.topics)
    return gather(call, _rows(call, wanted, may_create), partial(_answer, call, request), _size)


def _asked(topic: Any) -> Asked:
    identity = getattr(topic, "topic_id", None) or NO_ID
    # Java's admin client sends an empty name with the id, and Kafka goes by the id.
    return Asked(None, identity) if topic.name is None or identity != NO_ID else Asked(topic.name, NO_ID)


def _rows(call: Call, wanted: Iterable[Asked], may_create: bool) -> Iterator[Any]:
    created = 0
    for asked in wanted:
        row = _find(call, asked, may_create, has_room=created < MAX_CREATED)
        created += isinstance(row, Deferred)
        yield row


def _find(call: Call, asked: Asked, may_create: bool, *, has_room: bool) -> Any:
    """The row of a topic, now or when it was created."""
    topics, node_id = call.broker.topics, call.broker.node_id
    if asked.name is None:
        known = topics.by_id(asked.id.bytes)
        if known is not None and may(call, Operation.DESCRIBE, Resource.TOPIC, known.name):
            return _row(node_id, known)
        return _unknown_id(call, asked.id)
    if refusal := topic_refusal(call, Operation.DESCRIBE, asked.name):
        return _problem(refusal, asked.name)
    known = topics.by_name(asked.name)
    if known is not None:
        return _row(node_id, known)
    try:
        check_topic_name(asked.name)
    except InvalidTopic:
        return _problem(ErrorCode.INVALID_TOPIC_EXCEPTION, asked.name)
    if not may_create:
        return _problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, asked.name)
    if not (
        may(call, Operation.CREATE, Resource.CLUSTER, is_quiet=True)
        or may(call, Operation.CREATE, Resource.TOPIC, asked.name)
    ):
        return _problem(ErrorCode.TOPIC_AUTHORIZATION_FAILED, asked.name)
    if not has_room:
        return _problem(ErrorCode.LEADER_NOT_AVAILABLE, asked.name)
    name, created = asked.name, topics.create(asked.name, call.broker.config.num_partitions, {})
    return created.addCallbacks(
        lambda topic: _created(call, topic), lambda failure: _not_created(call, name, failure)
    )


def _created(call: Call, topic: OpenTopic) -> Any:
    count = len(topic.partitions)
    _log.info("topic %s with %d partitions, created because %s asked for it", topic.name, count, call.who)
    return _row(call.broker.node_id, topic)


def _not_created(call: Call, name: str, failure: Failure) -> Any:
    known = call.broker.topics.by_name(name)
    if isinstance(failure.value, TopicExists) and known is not None:  # somebody was faster
        return _row(call.broker.node_id, known)
    call.broker.notes.tell(call.peer, f"topic {name} was not created: {failure.value}", logging.WARNING)
    return _problem(error_code_of(failure.value), name)


def _unknown_id(call: Call, identity: UUID) -> Any:
    """Before version 12 a name cannot be null, and no client asks by id."""
    name = None if call.version >= NULL_NAME_SINCE else ""
    return _problem(ErrorCode.UNKNOWN_TOPIC_ID, name, identity)


def _size(row: Any) -> int:
    return 1 if isinstance(row, Deferred) else 1 + len(row.partitions)


def _answer(call: Call, request: Message, topics: list[Any]) -> Message:
    host, port = advertised_address(call)
    if request.include_topic_authorized_operations:
        for row in topics:
            if not row.error_code:
                row.authorized_operations = operations(call, Resource.TOPIC, row.name)
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[BrokerRow(node_id=call.broker.node_id, host=host, port=port, rack=None)],
        cluster_id=call.broker.cluster_id,
        controller_id=call.broker.node_id,
        topics=topics,
        error_code=ErrorCode.NONE,
        authorized_operations=_cluster_operations(call, request),
    )


def _cluster_operations(call: Call, request: Message) -> frozenset[int] | None:
    if not request.include_cluster_authorized_operations:
        return None
    may_know = may(call, Operation.DESCRIBE, Resource.CLUSTER, is_quiet=True)
    return operations(call, Resource.CLUSTER) if may_know else frozenset()


def _problem(error_code: ErrorCode, name: str | None, identity: UUID = NO_ID) -> Any:
    return TopicRow(error_code=error_code, name=name, topic_id=identity, is_internal=False, partitions=[])


def _row(node_id: int, topic: OpenTopic) -> Any:
    return TopicRow(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic.id,
        is_internal=False,
        partitions=[_partition(node_id, number) for number in range(len(topic.partitions))],
    )


@cache
def _partition(node_id: int, number: int) -> Any:
    """The same for all topics, so that an answer about many is made of few objects."""
    return PartitionRow(
        error_code=ErrorCode.NONE,
        partition_index=number,
        leader_id=node_id,
        leader_epoch=LEADER_EPOCH,
        replica_nodes=[node_id],
        isr_nodes=[node_id],
        offline_replicas=[],
    )


API = Api(3, "Metadata", 0, 13, respond, is_alone=True)
