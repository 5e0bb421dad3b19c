"""The groups of Kestrel's queues, through Kafka's APIs: everybody may look, nobody may change them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import OffsetAndMetadata
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import InvalidGroupIdError

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import (
    VERSIONS,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
    SyncGroupRequest,
)
from barbicel.codecs.stroma_events import Ack, BumpAckedUntil, Commit, Event
from barbicel.disk import RealDisk
from barbicel.gateway.broker.data_layout import DataLayout
from barbicel.gateway.kafka import group_refusals
from barbicel.stroma import GroupKey, GroupStore
from tests.gateway.kafka.group_requests import commit, fetch, join, leave
from tests.gateway.kafka.in_memory import Client, Gateway, in_memory_gateway, untyped
from tests.support.gateway import running_gateway

RESERVED = ["kestrel", "kestrel+", "kestrel+audit"]
# Up to where the queue "q" was taken by each, in the order of their names.
FRONTIER = 7
INVALID = ErrorCode.INVALID_GROUP_ID
TIMEOUT_S = 20.0


def record(gateway: Gateway, key: GroupKey, event: Event) -> None:
    """As a queue does: nothing is committed, items are acked."""

    def run() -> None:
        gateway.broker.offsets.store.record(key, [event])
        gateway.broker.offsets.remember(key.group, key[:2])

    gateway.reactor.result(gateway.broker.offsets.submit(run, lambda result, errors: result))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with in_memory_gateway(tmp_path_factory.mktemp("reserved") / "data") as gateway:
        gateway.create("q")
        for group in RESERVED:
            record(gateway, GroupKey("q", 0, group), BumpAckedUntil(FRONTIER))
        yield gateway


@pytest.fixture
def client(gateway: Gateway) -> Client:
    return gateway.connect()


@pytest.fixture
def topic_id(gateway: Gateway) -> UUID:
    topic = gateway.broker.catalogue.by_name("q")
    assert topic is not None
    return topic.id


def fetched(client: Client, group: str, topics: dict[str, list[int]] | None, topic_id: UUID) -> Any:
    found = [
        fetch(untyped(client), version, group, topics, {"q": topic_id})
        for version in VERSIONS[9]
        if version >= 2
    ]
    assert all(one == found[0] for one in found)
    return found[0]


# --- changes are refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("group", RESERVED)
@pytest.mark.parametrize("version", VERSIONS[11])
def test_nobody_joins(client: Client, gateway: Gateway, group: str, version: int) -> None:
    answer = client.ask(join(group, "me"), version)
    assert (answer.error_code, answer.member_id, answer.members) == (INVALID, "me", [])
    assert gateway.broker.coordinator.list_groups() == []


@pytest.mark.parametrize("group", RESERVED)
@pytest.mark.parametrize("version", VERSIONS[14])
def test_nobody_syncs(client: Client, group: str, version: int) -> None:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id="me",
        group_instance_id=None,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    )
    assert client.ask(request, version).error_code == INVALID


@pytest.mark.parametrize("group", RESERVED)
@pytest.mark.parametrize("version", VERSIONS[12])
def test_nobody_sends_heartbeats(client: Client, group: str, version: int) -> None:
    request = HeartbeatRequest(group_id=group, generation_id=1, member_id="me", group_instance_id=None)
    assert client.ask(request, version).error_code == INVALID


@pytest.mark.parametrize("group", RESERVED)
@pytest.mark.parametrize("version", VERSIONS[13])
def test_nobody_leaves(client: Client, group: str, version: int) -> None:
    assert client.ask(leave(group, "me"), version).error_code == INVALID


@pytest.mark.parametrize("group", RESERVED)
@pytest.mark.parametrize("version", VERSIONS[8])
def test_nobody_commits(client: Client, topic_id: UUID, group: str, version: int) -> None:
    answer = client.ask(commit(group, "q", {0: 3, 1: 3}, topic_id=topic_id), version)
    errors = [row.error_code for topic in answer.topics for row in topic.partitions]
    assert errors == [INVALID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert fetched(client, group, {"q": [0]}, topic_id)["q", 0][0] == FRONTIER


@pytest.mark.parametrize("group", RESERVED)
def test_nobody_deletes_positions(client: Client, topic_id: UUID, group: str) -> None:
    row = OffsetDeleteRequest.OffsetDeleteRequestTopic
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[row(name="q", partitions=[row.OffsetDeleteRequestPartition(partition_index=0)])],
    )
    answer = client.ask(request, 0)
    assert (answer.error_code, answer.topics) == (INVALID, [])
    assert fetched(client, group, {"q": [0]}, topic_id)["q", 0][0] == FRONTIER


@pytest.mark.parametrize("version", VERSIONS[42])
def test_nobody_deletes_them(client: Client, gateway: Gateway, topic_id: UUID, version: int) -> None:
    record(gateway, GroupKey("q", 0, "mortal"), Commit(1, None, None))
    names = [RESERVED[0], "mortal", *RESERVED[1:], "kestrel+none"]
    answer = client.ask(DeleteGroupsRequest(groups_names=names), version)
    assert {row.group_id: row.error_code for row in answer.results} == {
        name: ErrorCode.NONE if name == "mortal" else INVALID for name in names
    }
    assert {group: fetched(client, group, None, topic_id)["q", 0][0] for group in RESERVED} == dict.fromkeys(
        RESERVED, FRONTIER
    )


def test_names_that_only_begin_like_it_are_free(client: Client, topic_id: UUID) -> None:
    for group in ("kestrels", "Kestrel", "kestrel-audit", "audit"):
        answer = client.ask(commit(group, "q", {0: 3}, topic_id=topic_id), 8)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert client.ask(DeleteGroupsRequest(groups_names=[group]), 2).results[0].error_code == 0


def test_one_line_is_logged_for_each_machine(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_refusals, "_told", set())
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.1"):
        for group in ("kestrel+new\nline", "kestrel"):
            gateway.connect(host).ask(join(group), 5)
    lines = [one.getMessage() for one in caplog.records if one.name == group_refusals.__name__]
    assert len(lines) == 2
    assert "10.0.0.1 wants to use the group 'kestrel+new\\nline'" in lines[0]


# --- looking is allowed -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS[16])
def test_they_are_listed(client: Client, version: int) -> None:
    answer = client.ask(ListGroupsRequest(states_filter=[], types_filter=[]), version)
    listed = {group.group_id: group for group in answer.groups}
    assert set(RESERVED) <= set(listed)
    for name in RESERVED:
        assert listed[name].protocol_type == ""
        assert version < 4 or listed[name].group_state == "Empty"


@pytest.mark.parametrize("version", VERSIONS[15])
def test_they_are_described(client: Client, version: int) -> None:
    request = DescribeGroupsRequest(groups=[*RESERVED, "kestrel+none"], include_authorized_operations=False)
    *known, unknown = client.ask(request, version).groups
    for name, group in zip(RESERVED, known, strict=True):
        assert (group.group_id, group.error_code, group.group_state) == (name, ErrorCode.NONE, "Empty")
        assert (group.protocol_type, group.members) == ("", [])
    assert unknown.group_state == "Dead"


@pytest.mark.parametrize("group", RESERVED)
def test_their_frontier_is_told_as_a_committed_offset(client: Client, topic_id: UUID, group: str) -> None:
    expected = {("q", 0): (FRONTIER, -1, "", ErrorCode.NONE)}
    assert fetched(client, group, {"q": [0]}, topic_id) == expected
    assert fetched(client, group, None, topic_id) == expected


def test_a_child_that_there_is_not_has_no_position(client: Client, topic_id: UUID) -> None:
    assert fetched(client, "kestrel+none", {"q": [0]}, topic_id)["q", 0][0] == -1
    assert fetched(client, "kestrel+none", None, topic_id) == {}


def test_the_frontier_moves_with_what_is_acked(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data") as gateway:
        identity = gateway.create("q").topic.id
        key, client = GroupKey("q", 0, "kestrel"), gateway.connect()
        offsets = []
        for event in (BumpAckedUntil(0), Ack(1), Ack(0), Ack(2)):
            record(gateway, key, event)
            offsets.append(fetched(client, "kestrel", {"q": [0]}, identity)["q", 0][0])
        # The acked item behind an open one does not count.
        assert offsets == [0, 0, 2, 3]


# --- real clients -----------------------------------------------------------------------------------


def test_admin_clients_see_a_queue_beside_a_consumer_group(tmp_path: Path) -> None:
    with running_gateway(tmp_path, num_partitions="1") as gateway:
        producer = Producer({"bootstrap.servers": gateway.bootstrap})
        for number in range(10):
            producer.produce("q", str(number).encode())
        assert producer.flush(TIMEOUT_S) == 0
        gateway.stop()
        with closing(GroupStore.open(DataLayout(str(gateway.data)).groups, disk=RealDisk())) as store:
            store.record(GroupKey("q", 0, "kestrel"), [BumpAckedUntil(4)])
            store.commit()
        gateway.start()
        place = PythonTopicPartition("q", 0)
        with closing(KafkaAdminClient(bootstrap_servers=gateway.bootstrap)) as admin:
            admin.alter_group_offsets("consumers", {place: OffsetAndMetadata(9, "", -1)})
            states = {group["group_id"]: group["group_state"] for group in admin.list_groups()}
            assert states == {"consumers": "Empty", "kestrel": "Empty"}
            kept = admin.list_group_offsets({"kestrel": None, "consumers": None})
            assert kept["kestrel"][place].offset == 4
            assert kept["consumers"][place].offset == 9
            refused = admin.alter_group_offsets("kestrel", {place: OffsetAndMetadata(0, "", -1)})
            assert refused == {place: InvalidGroupIdError}
        librdkafka = AdminClient({"bootstrap.servers": gateway.bootstrap})
        wanted = [ConsumerGroupTopicPartitions("kestrel", [TopicPartition("q", 0, 0)])]
        (altered,) = (
            librdkafka.alter_consumer_group_offsets(wanted)["kestrel"].result(TIMEOUT_S).topic_partitions
        )
        assert altered.error.name() == "INVALID_GROUP_ID"
        with pytest.raises(KafkaException, match="INVALID_GROUP_ID"):
            librdkafka.delete_consumer_groups(["kestrel"])["kestrel"].result(TIMEOUT_S)
        asked = [ConsumerGroupTopicPartitions("kestrel")]
        (found,) = librdkafka.list_consumer_group_offsets(asked)["kestrel"].result(TIMEOUT_S).topic_partitions
        assert found.offset == 4
