"""What describes the cluster: its brokers, partitions, directories, producers, and access control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barbicel.codecs.kafka.messages import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTopicPartitionsRequest,
    Message,
)
from tests.differential.asking import batch, new_topic, produced, versions
from tests.differential.script import Ask, Steps, conversations_of

__all__ = ["CONVERSATIONS"]


def clusters() -> Steps:
    for version in versions(DescribeClusterRequest):
        for label, fields in (
            ("brokers", {}),
            ("authorized operations", {"include_cluster_authorized_operations": True}),
            ("controllers", {"endpoint_type": 2}),
            ("unknown endpoints", {"endpoint_type": 9}),
            ("fenced brokers", {"include_fenced_brokers": True}),
        ):
            yield Ask(f"{label}, version {version}", DescribeClusterRequest(**fields), version)


def topic_partitions() -> Steps:
    yield from new_topic("parts-1", 3)
    yield from new_topic("parts-2", 2)
    for label, names, limit, cursor in (
        ("two topics", ("parts-1", "parts-2"), 2000, None),
        ("the other way round", ("parts-2", "parts-1"), 2000, None),
        ("unknown", ("parts-1", "parts-none"), 2000, None),
        ("bad", ("a b", ""), 2000, None),
        ("named twice", ("parts-1", "parts-1"), 2000, None),
        ("at most two", ("parts-1", "parts-2"), 2, None),
        ("at most three", ("parts-1", "parts-2"), 3, None),
        ("at most four", ("parts-1", "parts-2"), 4, None),
        ("none", ("parts-1",), 0, None),
        ("negative", ("parts-1",), -1, None),
        ("from a cursor", ("parts-1", "parts-2"), 2000, ("parts-1", 1)),
        ("from the second topic", ("parts-1", "parts-2"), 2000, ("parts-2", 1)),
        ("from beyond the end", ("parts-1", "parts-2"), 2000, ("parts-1", 9)),
        ("from an unknown topic", ("parts-1", "parts-2"), 2000, ("parts-1x", 0)),
        ("from a negative partition", ("parts-1",), 2000, ("parts-1", -1)),
    ):
        yield Ask(label, _parts(names, limit, cursor), 0)


def _parts(names: Sequence[str], limit: int, cursor: tuple[str, int] | None) -> Message:
    row, mark = DescribeTopicPartitionsRequest.TopicRequest, DescribeTopicPartitionsRequest.Cursor
    return DescribeTopicPartitionsRequest(
        topics=[row(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor and mark(topic_name=cursor[0], partition_index=cursor[1]),
    )


def log_directories() -> Steps:
    yield from new_topic("directories", 2)
    yield from produced("directories", batch(3))
    for version in versions(DescribeLogDirsRequest):
        for label, topics in (
            ("some", {"directories": [0, 1]}),
            ("unknown", {"directories": [0, 9], "directories-none": [0]}),
            ("nothing", {}),
        ):
            yield Ask(f"{label}, version {version}", _directories(topics), version)


def _directories(topics: Mapping[str, Sequence[int]]) -> Message:
    row = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(
        topics=[row(topic=name, partitions=list(numbers)) for name, numbers in topics.items()]
    )


def producers() -> Steps:
    yield from new_topic("producers")
    yield from produced("producers", batch(3, producer_id=1_000_400, producer_epoch=2, base_sequence=5))
    yield from produced("producers", batch(3))
    for label, topics in (
        ("known", {"producers": [0]}),
        ("unknown partition", {"producers": [0, 1]}),
        ("unknown topic", {"producers-none": [0]}),
        ("bad topic", {"a b": [0]}),
        ("nothing", {}),
    ):
        row = DescribeProducersRequest.TopicRequest
        rows = [row(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
        yield Ask(label, DescribeProducersRequest(topics=rows), 0)


ACL = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
FILTER = {
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def access_control() -> Steps:
    for version in versions(DescribeAclsRequest):
        yield Ask(
            f"described, version {version}", DescribeAclsRequest(resource_type_filter=1, **FILTER), version
        )
        one = CreateAclsRequest.AclCreation(**ACL)
        yield Ask(f"created, version {version}", CreateAclsRequest(creations=[one, one]), version)
        gone = DeleteAclsRequest.DeleteAclsFilter(resource_type_filter=1, **FILTER)
        yield Ask(f"deleted, version {version}", DeleteAclsRequest(filters=[gone, gone]), version)


CONVERSATIONS = conversations_of(clusters, topic_partitions, log_directories, producers, access_control)
