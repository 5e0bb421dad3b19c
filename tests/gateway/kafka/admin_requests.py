"""The requests of admin APIs, short to write; answers come as their rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from barbicel.codecs.kafka.messages import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListOffsetsRequest,
    Message,
    MetadataRequest,
)
from tests.gateway.kafka.raw_client import RawClient

__all__ = [
    "BROKER",
    "NO_ID",
    "TOPIC",
    "alter",
    "create",
    "create_partitions",
    "create_request",
    "delete",
    "delete_records",
    "describe",
    "earliest",
    "eventually",
    "increment",
    "make_topic",
    "new_topic",
    "partitions_of",
    "setting",
    "topic_names",
]

TIMEOUT_MS = 30_000
DEADLINE_S = 20.0
POLL_S = 0.01
TOPIC, BROKER = 2, 4
NO_ID = UUID(int=0)

NewTopic = CreateTopicsRequest.CreatableTopic
Pairs = Sequence[tuple[str, str | None]]


def new_topic(
    name: str,
    partitions: int = -1,
    replication: int = -1,
    *,
    assignments: Sequence[tuple[int, Sequence[int]]] = (),
    configs: Pairs = (),
) -> Message:
    return NewTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        assignments=[
            NewTopic.CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in assignments
        ],
        configs=[NewTopic.CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


def create_request(
    topics: Sequence[Message], *, validate_only: bool = False, timeout_ms: int = TIMEOUT_MS
) -> Message:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)


def create(client: RawClient, *topics: Message, version: int = 7, **options: Any) -> list[Any]:
    rows: list[Any] = client.ask(create_request(topics, **options), version).topics
    return rows


def make_topic(client: RawClient, name: str, partitions: int = 1, **configs: str) -> UUID:
    """Setting names with underscores for dots."""
    pairs = [(key.replace("_", "."), value) for key, value in configs.items()]
    (row,) = create(client, new_topic(name, partitions, configs=pairs))
    assert (row.error_code, row.error_message) == (0, None)
    assert isinstance(row.topic_id, UUID)
    return row.topic_id


def delete(
    client: RawClient,
    *topics: str | UUID | tuple[str | None, UUID],
    version: int = 6,
    timeout_ms: int = TIMEOUT_MS,
) -> list[Any]:
    if version < 6:
        request = DeleteTopicsRequest(topic_names=list(topics), timeout_ms=timeout_ms)
    else:
        state = DeleteTopicsRequest.DeleteTopicState
        pairs = [_name_and_id(topic) for topic in topics]
        request = DeleteTopicsRequest(
            topics=[state(name=name, topic_id=identity) for name, identity in pairs], timeout_ms=timeout_ms
        )
    rows: list[Any] = client.ask(request, version).responses
    return rows


def _name_and_id(topic: str | UUID | tuple[str | None, UUID]) -> tuple[str | None, UUID]:
    if isinstance(topic, tuple):
        return topic
    return (None, topic) if isinstance(topic, UUID) else (topic, NO_ID)


def create_partitions(
    client: RawClient,
    *topics: tuple[str, int, Sequence[Sequence[int]] | None],
    version: int = 3,
    validate_only: bool = False,
    timeout_ms: int = TIMEOUT_MS,
) -> list[Any]:
    row = CreatePartitionsRequest.CreatePartitionsTopic
    request = CreatePartitionsRequest(
        topics=[
            row(
                name=name,
                count=count,
                assignments=None
                if brokers is None
                else [row.CreatePartitionsAssignment(broker_ids=list(ids)) for ids in brokers],
            )
            for name, count, brokers in topics
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )
    rows: list[Any] = client.ask(request, version).results
    return rows


def delete_records(
    client: RawClient, name: str, *partitions: tuple[int, int], version: int = 2
) -> list[tuple[int, int, int]]:
    """(partition, error code, low watermark) of each."""
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    asked = [
        topic.DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in partitions
    ]
    request = DeleteRecordsRequest(topics=[topic(name=name, partitions=asked)], timeout_ms=TIMEOUT_MS)
    (answered,) = client.ask(request, version).topics
    assert answered.name == name
    return [(row.partition_index, row.error_code, row.low_watermark) for row in answered.partitions]


def describe(
    client: RawClient,
    *resources: tuple[int, str, Sequence[str] | None],
    version: int = 4,
    synonyms: bool = False,
    documentation: bool = False,
) -> list[Any]:
    row = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            row(
                resource_type=kind,
                resource_name=name,
                configuration_keys=None if keys is None else list(keys),
            )
            for kind, name, keys in resources
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    rows: list[Any] = client.ask(request, version).results
    return rows


def setting(client: RawClient, topic: str, name: str) -> str:
    """The value in force."""
    (row,) = describe(client, (TOPIC, topic, [name]))
    (config,) = row.configs
    return str(config.value)


def alter(
    client: RawClient,
    *resources: tuple[int, str, Pairs],
    version: int = 2,
    validate_only: bool = False,
) -> list[Any]:
    row = AlterConfigsRequest.AlterConfigsResource
    request = AlterConfigsRequest(
        resources=[
            row(
                resource_type=kind,
                resource_name=name,
                configs=[row.AlterableConfig(name=key, value=value) for key, value in pairs],
            )
            for kind, name, pairs in resources
        ],
        validate_only=validate_only,
    )
    rows: list[Any] = client.ask(request, version).responses
    return rows


def increment(
    client: RawClient,
    *resources: tuple[int, str, Sequence[tuple[str, int, str | None]]],
    version: int = 1,
    validate_only: bool = False,
) -> list[Any]:
    row = IncrementalAlterConfigsRequest.AlterConfigsResource
    request = IncrementalAlterConfigsRequest(
        resources=[
            row(
                resource_type=kind,
                resource_name=name,
                configs=[
                    row.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )
    rows: list[Any] = client.ask(request, version).responses
    return rows


def topic_names(client: RawClient) -> set[str]:
    answer = client.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 9)
    return {topic.name for topic in answer.topics}


def partitions_of(client: RawClient, name: str) -> int:
    asked = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None)]
    (topic,) = client.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 9).topics
    assert topic.error_code == 0
    return len(topic.partitions)


def earliest(client: RawClient, name: str, partition: int = 0) -> int:
    topic = ListOffsetsRequest.ListOffsetsTopic
    asked = topic.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=-2)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[topic(name=name, partitions=[asked])], timeout_ms=0
    )
    (answered,) = client.ask(request, 7).topics
    (row,) = answered.partitions
    assert row.error_code == 0
    return int(row.offset)


def eventually(is_so: Callable[[], bool]) -> None:
    """For what the server does by itself, in its own time."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(POLL_S)
