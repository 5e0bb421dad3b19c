"""The cluster, topics in portions, and access control that is not there, over raw requests."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode as E
from barbicel.codecs.kafka.messages import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
)
from barbicel.gateway.kafka import describe_topic_partitions
from barbicel.gateway.kafka.api import Address, Call
from tests.gateway.kafka.admin_requests import make_topic
from tests.gateway.kafka.raw_client import RawClient
from tests.support.gateway import Gateway, running_gateway

NODE_ID = 3
BROKERS, CONTROLLERS = 1, 2
# Names out of order, and how many partitions they have.
TOPICS = {"tc": 4, "ta": 3, "tb": 2}
EVERYTHING_ON_A_TOPIC = 3576
UNKNOWN_OPERATIONS = -(1 << 31)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running_gateway(tmp_path_factory.mktemp("cluster"), node_id=str(NODE_ID)) as running:
        with RawClient((running.host, running.port)) as client:
            for name, partitions in TOPICS.items():
                make_topic(client, name, partitions)
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[RawClient]:
    with RawClient((gateway.host, gateway.port)) as connected:
        yield connected


# --- the cluster ----------------------------------------------------------------------------------------


def cluster(
    client: RawClient, version: int, endpoint_type: int = BROKERS, *, operations: bool = False
) -> Any:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=operations,
        endpoint_type=endpoint_type,
        include_fenced_brokers=True,
    )
    return client.ask(request, version)


@pytest.mark.parametrize("version", range(3))
def test_every_version_describes_the_cluster(gateway: Gateway, client: RawClient, version: int) -> None:
    found = cluster(client, version)
    assert (found.error_code, found.error_message, found.endpoint_type) == (E.NONE, None, BROKERS)
    assert found.controller_id == NODE_ID
    (broker,) = found.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.rack, broker.is_fenced) == (
        NODE_ID,
        gateway.host,
        gateway.port,
        None,
        False,
    )
    assert found.authorized_operations is None
    assert found.cluster_id == client.ask(MetadataRequest(topics=[]), 9).cluster_id


def test_whoever_asks_is_told_that_everything_is_allowed(client: RawClient) -> None:
    assert cluster(client, 0, operations=True).authorized_operations == {5, 7, 8, 9, 10, 11, 12}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (CONTROLLERS, E.MISMATCHED_ENDPOINT_TYPE),
        (0, E.UNSUPPORTED_ENDPOINT_TYPE),
        (3, E.UNSUPPORTED_ENDPOINT_TYPE),
        (-1, E.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_this_is_no_controllers_endpoint(
    client: RawClient, version: int, endpoint_type: int, code: E
) -> None:
    found = cluster(client, version, endpoint_type)
    assert (found.error_code, found.cluster_id, found.controller_id, found.brokers) == (code, "", -1, [])
    assert found.error_message


# --- topics in portions ---------------------------------------------------------------------------------


def portion(
    client: RawClient, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[str, int, list[int]]], tuple[str, int] | None]:
    """(name, error code, partitions) of each topic, and where to go on."""
    answer = client.ask(_portion_request(names, limit, cursor), 0)
    rows = [
        (topic.name, topic.error_code, [row.partition_index for row in topic.partitions])
        for topic in answer.topics
    ]
    following = answer.next_cursor
    return rows, None if following is None else (following.topic_name, following.partition_index)


def _portion_request(names: list[str], limit: int, cursor: tuple[str, int] | None) -> Any:
    kind = DescribeTopicPartitionsRequest
    return kind(
        topics=[kind.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else kind.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def test_a_topic_is_described_whole(client: RawClient) -> None:
    (topic,) = client.ask(_portion_request(["tb"], 2000, None), 0).topics
    assert topic.topic_id is not None
    assert (topic.is_internal, topic.topic_authorized_operations) == (False, EVERYTHING_ON_A_TOPIC)
    assert len(topic.partitions) == 2
    for number, row in enumerate(topic.partitions):
        assert (row.error_code, row.partition_index, row.leader_id, row.leader_epoch) == (
            0,
            number,
            NODE_ID,
            0,
        )
        assert (row.replica_nodes, row.isr_nodes, row.offline_replicas) == ([NODE_ID], [NODE_ID], [])
        assert (row.eligible_leader_replicas, row.last_known_elr) == ([], [])


TA, TB, TC = ("ta", 0, [0, 1, 2]), ("tb", 0, [0, 1]), ("tc", 0, [0, 1, 2, 3])


@pytest.mark.parametrize("names", [["tc", "ta", "tb"], ["tc", "ta", "tb", "ta"], []])
def test_topics_come_once_and_in_order(client: RawClient, names: list[str]) -> None:
    assert portion(client, names) == ([TA, TB, TC], None)
    assert portion(client, names, 9) == ([TA, TB, TC], None)
    assert portion(client, names, 8) == ([TA, TB, ("tc", 0, [0, 1, 2])], ("tc", 3))
    assert portion(client, names, 3) == ([TA], ("tb", 0))
    assert portion(client, names, 4, ("tb", 1)) == ([("tb", 0, [1]), ("tc", 0, [0, 1, 2])], ("tc", 3))
    assert portion(client, names, 4, ("tc", 3)) == ([("tc", 0, [3])], None)
    assert portion(client, names, 9, ("tb", 7)) == ([("tb", 0, []), TC], None)


@pytest.mark.parametrize("limit", [1, 0, -1, -(1 << 31)])
def test_there_is_always_a_way_on(client: RawClient, limit: int) -> None:
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(sum(TOPICS.values())):
        rows, cursor = portion(client, [], limit, cursor)
        seen += [(name, number) for name, _, numbers in rows for number in numbers]
    assert cursor is None
    assert seen == [(name, number) for name in sorted(TOPICS) for number in range(TOPICS[name])]


def test_one_answer_has_two_thousand_partitions_at_most() -> None:
    topic = SimpleNamespace(name="t", topic=SimpleNamespace(id=UUID(int=1)), partitions=range(2001))
    broker: Any = SimpleNamespace(node_id=NODE_ID, topics=SimpleNamespace(by_name=lambda _: topic))
    call = Call(broker, 0, None, Address("client", 1), Address("server", 2))
    answer: Any = describe_topic_partitions.API.respond(call, _portion_request(["t"], 1 << 30, None))
    assert len(answer.topics[0].partitions) == 2000
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("t", 2000)


def test_unknown_topics_have_their_place_in_the_order(client: RawClient) -> None:
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION
    assert portion(client, ["ta", "nope", "tc"], 5) == (
        [("nope", unknown, []), TA, ("tc", 0, [0, 1])],
        ("tc", 2),
    )
    assert portion(client, ["ta", "zz"], 3) == ([TA], ("zz", 0))
    assert portion(client, ["ta", "zz"], 3, ("zz", 0)) == ([("zz", unknown, [])], None)
    # The cursor's topic was deleted meanwhile.
    assert portion(client, ["tab", "tb"], 3, ("tab", 5)) == ([("tab", unknown, []), TB], None)
    assert portion(client, [], 3, ("tab", 5)) == ([TB, ("tc", 0, [0])], ("tc", 1))
    bad = E.INVALID_TOPIC_EXCEPTION
    assert portion(client, ["ta", "a b", ""]) == ([("", bad, []), ("a b", bad, []), TA], None)


@pytest.mark.parametrize("cursor", [("tb", 0), ("", 0), ("ta", -1)])
def test_a_cursor_must_be_one_of_what_is_asked_for(client: RawClient, cursor: tuple[str, int]) -> None:
    refused: list[tuple[str, int, list[int]]] = [("tc", E.INVALID_REQUEST, []), ("ta", E.INVALID_REQUEST, [])]
    assert portion(client, ["tc", "ta"], 9, cursor) == (refused, None)
    (row, _) = client.ask(_portion_request(["tc", "ta"], 9, cursor), 0).topics
    assert row.topic_authorized_operations == UNKNOWN_OPERATIONS


# --- access control -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 4))
def test_every_version_says_that_there_is_no_access_control(client: RawClient, version: int) -> None:
    asked = {
        "resource_type_filter": 2,
        "resource_name_filter": None,
        "pattern_type_filter": 3,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    described = client.ask(DescribeAclsRequest(**asked), version)
    assert (described.error_code, described.resources) == (E.SECURITY_DISABLED, [])
    assert described.error_message
    rule = CreateAclsRequest.AclCreation(
        resource_type=2,
        resource_name="t",
        resource_pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    created = client.ask(CreateAclsRequest(creations=[rule, rule]), version).results
    assert [row.error_code for row in created] == [E.SECURITY_DISABLED] * 2
    filters = [DeleteAclsRequest.DeleteAclsFilter(**asked)] * 3
    deleted = client.ask(DeleteAclsRequest(filters=filters), version).filter_results
    assert [(row.error_code, row.matching_acls) for row in deleted] == [(E.SECURITY_DISABLED, [])] * 3
    assert client.ask(CreateAclsRequest(creations=[]), version).results == []
    assert client.ask(DeleteAclsRequest(filters=[]), version).filter_results == []
