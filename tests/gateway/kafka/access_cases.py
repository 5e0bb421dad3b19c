"""What each API needs, as Kafka's documents list it, and requests that need just that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from barbicel.codecs.kafka import messages as m
from barbicel.codecs.kafka.acls import CLUSTER_NAME, Acl, Operation, Pattern, Permission, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.config.listeners import Listener
from barbicel.gateway.access.access import Access
from barbicel.gateway.access.opening import opened_access
from barbicel.gateway.broker.consumption import Position
from barbicel.gateway.kafka.listening import kafka_factory
from tests.gateway.kafka import group_requests as groups
from tests.gateway.kafka.admin_requests import create_request, new_topic
from tests.gateway.kafka.in_memory import Client, Gateway, batch
from tests.gateway.kafka.requests import fetch, list_offsets, metadata, produce

__all__ = [
    "CASES",
    "CLUSTER_FAILED",
    "GROUP_FAILED",
    "PLAIN",
    "TOPIC_FAILED",
    "WHO",
    "WITH_ACLS",
    "Case",
    "Secured",
    "acl_filter",
    "create_acls",
]

PLAIN = Listener("PLAINTEXT", "127.0.0.1", 0)
WHO = "User:ANONYMOUS"
TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
WITH_ACLS: dict[str, Any] = {
    "authorizer_class_name": "StandardAuthorizer",
    "group_initial_rebalance_delay_ms": 0,
}


class Secured:
    """A gateway with ACLs, and one client that may do nothing yet."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.access: Access = opened_access(gateway.broker)
        factory = kafka_factory(gateway.server, PLAIN, self.access)
        gateway.server = factory
        self.topic_id: UUID = gateway.create("t").topic.id
        self.client: Client = gateway.connect()

    def allow(self, *rights: tuple[Operation, Resource], **changed: Any) -> None:
        self._change(created=[right(*one, **changed) for one in rights])

    def forbid_all(self) -> None:
        self._change(deleted=list(self.access.acls.acls))

    def _change(self, **changes: list[Acl]) -> None:
        done = self.access.change_acls(self.gateway.broker.change, **changes)
        self.gateway.reactor.result(done)

    def ask(self, request: Any, version: int) -> Any:
        return self.client.ask(request, version)


NAMES = {Resource.TOPIC: "t", Resource.GROUP: "g", Resource.CLUSTER: CLUSTER_NAME}


def right(
    operation: Operation, resource: Resource, permission: Permission = Permission.ALLOW, name: str = ""
) -> Acl:
    return Acl(resource, name or NAMES[resource], Pattern.LITERAL, WHO, "10.0.0.1", operation, permission)


class Case(NamedTuple):
    """What a request needs: all rights of one of these lists."""

    make: Callable[[Secured], Any]
    version: int
    refused: ErrorCode
    enough: tuple[tuple[tuple[Operation, Resource], ...], ...]


T, G, C = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER
O = Operation  # noqa: E741 - a column of the table below


def _describe_configs(resource_type: int, name: str) -> Callable[[Secured], Any]:
    row = m.DescribeConfigsRequest.DescribeConfigsResource
    asked = partial(row, resource_type=resource_type, resource_name=name, configuration_keys=None)
    return lambda _: m.DescribeConfigsRequest(
        resources=[asked()], include_synonyms=False, include_documentation=False
    )


def _alter_configs(kind: Any, resource_type: int, name: str) -> Callable[[Secured], Any]:
    return lambda _: kind(
        resources=[kind.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[])],
        validate_only=True,
    )


def _offset_fetch(secured: Secured) -> Any:
    group = m.OffsetFetchRequest.OffsetFetchRequestGroup
    topic = group.OffsetFetchRequestTopics(name="t", topic_id=secured.topic_id, partition_indexes=[0])
    asked = group(group_id="g", member_id=None, member_epoch=-1, topics=[topic])
    return m.OffsetFetchRequest(groups=[asked], group_id="g", topics=[], require_stable=False)


def _offset_delete(secured: Secured) -> Any:
    """Of a group that there is, or that would be the error."""
    position = Position(("t", 0), 0, None, "")
    secured.gateway.reactor.result(secured.gateway.broker.offsets.commit("g", [position]))
    topic = m.OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition = topic.OffsetDeleteRequestPartition(partition_index=0)
    return m.OffsetDeleteRequest(group_id="g", topics=[topic(name="t", partitions=[partition])])


def _leader_epoch(_: Secured) -> Any:
    topic = m.OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    partition = topic.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    return m.OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic(topic="t", partitions=[partition])])


def _delete_records(_: Secured) -> Any:
    topic = m.DeleteRecordsRequest.DeleteRecordsTopic
    partition = topic.DeleteRecordsPartition(partition_index=0, offset=0)
    return m.DeleteRecordsRequest(topics=[topic(name="t", partitions=[partition])], timeout_ms=1000)


def _delete_topics(_: Secured) -> Any:
    topic = m.DeleteTopicsRequest.DeleteTopicState(name="t", topic_id=None)
    return m.DeleteTopicsRequest(topics=[topic], topic_names=[], timeout_ms=1000)


def _create_partitions(_: Secured) -> Any:
    topic = m.CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=2, assignments=None)
    return m.CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=True)


def acl_filter(kind: Any) -> Any:
    return kind(
        resource_type_filter=Resource.USER,
        resource_name_filter="x",
        pattern_type_filter=Pattern.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )


def create_acls(_: Secured) -> Any:
    row = m.CreateAclsRequest.AclCreation(
        resource_type=Resource.TOPIC,
        resource_name="other",
        resource_pattern_type=Pattern.LITERAL,
        principal="User:x",
        host="*",
        operation=Operation.READ,
        permission_type=Permission.ALLOW,
    )
    return m.CreateAclsRequest(creations=[row])


def _delete_acls(_: Secured) -> Any:
    return m.DeleteAclsRequest(filters=[acl_filter(m.DeleteAclsRequest.DeleteAclsFilter)])


def _alter_users(_: Secured) -> Any:
    row = m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="x", mechanism=1, iterations=4096, salt=b"0" * 16, salted_password=b"1" * 32
    )
    return m.AlterUserScramCredentialsRequest(deletions=[], upsertions=[row])


def _group(kind: Any, **more: Any) -> Callable[[Secured], Any]:
    return lambda _: kind(group_id="g", generation_id=1, member_id="m", group_instance_id=None, **more)


def _producers(_: Secured) -> Any:
    topic = m.DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])
    return m.DescribeProducersRequest(topics=[topic])


def _topic_partitions(_: Secured) -> Any:
    topic = m.DescribeTopicPartitionsRequest.TopicRequest(name="t")
    return m.DescribeTopicPartitionsRequest(topics=[topic], response_partition_limit=10, cursor=None)


def _coordinator(_: Secured) -> Any:
    return m.FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=["g"])


def _join(_: Secured) -> Any:
    return groups.join("g")


def _describe_users(_: Secured) -> Any:
    return m.DescribeUserScramCredentialsRequest(users=None)


def _describe_quotas(_: Secured) -> Any:
    return m.DescribeClientQuotasRequest(components=[], strict=False)


def _alter_quotas(_: Secured) -> Any:
    row = m.AlterClientQuotasRequest.EntryData
    entity = row.EntityData(entity_type="user", entity_name="somebody")
    op = row.OpData(key="producer_byte_rate", value=1000.0, remove=False)
    return m.AlterClientQuotasRequest(entries=[row(entity=[entity], ops=[op])], validate_only=False)


def _describe_groups(_: Secured) -> Any:
    return m.DescribeGroupsRequest(groups=["g"], include_authorized_operations=False)


DESCRIBES_TOPIC = tuple(((one, T),) for one in (O.DESCRIBE, O.READ, O.WRITE, O.DELETE, O.ALTER, O.ALL))
# API key → the cases. In the order of Kafka's "Operations and Resources on Protocols".
CASES: dict[int, list[Case]] = {
    0: [
        Case(lambda _: produce(batch(b"x")), 9, TOPIC_FAILED, (((O.WRITE, T),), ((O.ALL, T),))),
        Case(
            lambda s: produce(batch(b"x"), topic_id=s.topic_id),
            13,
            TOPIC_FAILED,
            (((O.WRITE, T),),),
        ),
    ],
    1: [
        Case(lambda _: fetch(0), 12, TOPIC_FAILED, (((O.READ, T),), ((O.ALL, T),))),
        Case(lambda s: fetch(0, topic_id=s.topic_id), 13, TOPIC_FAILED, (((O.READ, T),),)),
    ],
    2: [Case(lambda _: list_offsets(-1), 7, TOPIC_FAILED, DESCRIBES_TOPIC)],
    3: [
        Case(lambda _: metadata("t"), 9, TOPIC_FAILED, DESCRIBES_TOPIC),
        Case(
            lambda _: metadata("fresh"),
            9,
            TOPIC_FAILED,
            (((O.DESCRIBE, T), (O.CREATE, T)), ((O.DESCRIBE, T), (O.CREATE, C))),
        ),
    ],
    8: [
        Case(lambda _: groups.commit("g", "t", {0: 0}), 8, GROUP_FAILED, (((O.READ, G), (O.READ, T)),)),
        Case(
            lambda s: groups.commit("g", "t", {0: 0}, topic_id=s.topic_id),
            10,
            GROUP_FAILED,
            (((O.READ, G), (O.READ, T)),),
        ),
    ],
    9: [
        Case(_offset_fetch, version, GROUP_FAILED, (((O.DESCRIBE, G), (O.DESCRIBE, T)),))
        for version in (8, 10)
    ],
    10: [
        Case(_coordinator, version, GROUP_FAILED, (((O.DESCRIBE, G),), ((O.READ, G),))) for version in (1, 6)
    ],
    11: [Case(_join, 9, GROUP_FAILED, (((O.READ, G),),))],
    12: [Case(_group(m.HeartbeatRequest), 4, GROUP_FAILED, (((O.READ, G),),))],
    13: [
        Case(lambda _: groups.leave("g", "m"), version, GROUP_FAILED, (((O.READ, G),),)) for version in (1, 5)
    ],
    14: [
        Case(
            _group(m.SyncGroupRequest, protocol_type="consumer", protocol_name="range", assignments=[]),
            5,
            GROUP_FAILED,
            (((O.READ, G),),),
        )
    ],
    15: [Case(_describe_groups, 5, GROUP_FAILED, (((O.DESCRIBE, G),), ((O.READ, G),), ((O.DELETE, G),)))],
    19: [
        Case(
            lambda _: create_request([new_topic("fresh", 1)], validate_only=True),
            7,
            TOPIC_FAILED,
            (((O.CREATE, T), (O.DESCRIBE_CONFIGS, T)), ((O.CREATE, C), (O.ALTER_CONFIGS, T))),
        )
    ],
    20: [Case(_delete_topics, 6, TOPIC_FAILED, (((O.DELETE, T),), ((O.DELETE, C),)))],
    21: [Case(_delete_records, 2, TOPIC_FAILED, (((O.DELETE, T),),))],
    22: [
        Case(
            lambda _: m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
            4,
            CLUSTER_FAILED,
            (((O.IDEMPOTENT_WRITE, C),), ((O.WRITE, T),)),
        )
    ],
    23: [Case(_leader_epoch, 4, TOPIC_FAILED, DESCRIBES_TOPIC)],
    29: [Case(lambda _: acl_filter(m.DescribeAclsRequest), 3, CLUSTER_FAILED, (((O.DESCRIBE, C),),))],
    30: [Case(create_acls, 3, CLUSTER_FAILED, (((O.ALTER, C),),))],
    31: [Case(_delete_acls, 3, CLUSTER_FAILED, (((O.ALTER, C),),))],
    32: [
        Case(
            _describe_configs(2, "t"), 4, TOPIC_FAILED, (((O.DESCRIBE_CONFIGS, T),), ((O.ALTER_CONFIGS, T),))
        ),
        Case(_describe_configs(4, "0"), 4, CLUSTER_FAILED, (((O.DESCRIBE_CONFIGS, C),),)),
    ],
    33: [
        Case(_alter_configs(m.AlterConfigsRequest, 2, "t"), 2, TOPIC_FAILED, (((O.ALTER_CONFIGS, T),),)),
        Case(_alter_configs(m.AlterConfigsRequest, 4, "0"), 2, CLUSTER_FAILED, (((O.ALTER_CONFIGS, C),),)),
    ],
    44: [
        Case(
            _alter_configs(m.IncrementalAlterConfigsRequest, 2, "t"),
            1,
            TOPIC_FAILED,
            (((O.ALTER_CONFIGS, T),),),
        ),
        Case(
            _alter_configs(m.IncrementalAlterConfigsRequest, 4, "0"),
            1,
            CLUSTER_FAILED,
            (((O.ALTER_CONFIGS, C),),),
        ),
    ],
    35: [Case(lambda _: m.DescribeLogDirsRequest(topics=None), 3, CLUSTER_FAILED, (((O.DESCRIBE, C),),))],
    37: [Case(_create_partitions, 3, TOPIC_FAILED, (((O.ALTER, T),),))],
    42: [Case(lambda _: m.DeleteGroupsRequest(groups_names=["g"]), 2, GROUP_FAILED, (((O.DELETE, G),),))],
    47: [Case(_offset_delete, 0, GROUP_FAILED, (((O.DELETE, G), (O.READ, T)),))],
    48: [Case(_describe_quotas, 1, CLUSTER_FAILED, (((O.DESCRIBE_CONFIGS, C),),))],
    49: [Case(_alter_quotas, 1, CLUSTER_FAILED, (((O.ALTER_CONFIGS, C),),))],
    50: [Case(_describe_users, 0, CLUSTER_FAILED, (((O.DESCRIBE, C),),))],
    51: [Case(_alter_users, 0, CLUSTER_FAILED, (((O.ALTER, C),),))],
    61: [Case(_producers, 0, TOPIC_FAILED, (((O.READ, T),),))],
    75: [Case(_topic_partitions, 0, TOPIC_FAILED, DESCRIBES_TOPIC)],
}
