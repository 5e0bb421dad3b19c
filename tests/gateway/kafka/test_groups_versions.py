"""Every group API in every version: a group's whole life over raw requests, and each refusal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import (
    VERSIONS,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
    MetadataRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from tests.gateway.kafka.group_requests import (
    ask_at,
    commit,
    create_topic,
    fetch,
    heartbeat,
    join,
    joined,
    leave,
    subscription,
    sync,
)
from tests.gateway.kafka.raw_client import RawClient
from tests.support.gateway import Gateway, running_gateway

GROUP_APIS = (8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47)
ALL_VERSIONS = range(max(VERSIONS[key][-1] for key in GROUP_APIS) + 1)
MAX_METADATA_BYTES = 64


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    directory: Path = tmp_path_factory.mktemp("versions")
    with running_gateway(
        directory, num_partitions="2", offset_metadata_max_bytes=str(MAX_METADATA_BYTES)
    ) as running:
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[RawClient]:
    with RawClient((gateway.host, gateway.port)) as connected:
        yield connected


@pytest.fixture
def topic_id(client: RawClient) -> UUID:
    return create_topic(client, "t")


def partition_errors(answer: Any) -> list[int]:
    return [row.error_code for topic in answer.topics for row in topic.partitions]


# --- a group's life ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_a_group_lives_and_is_deleted(client: RawClient, topic_id: UUID, version: int) -> None:
    group = f"life-{version}"
    member = become_the_only_member(client, group, version)
    commit_and_fetch(client, group, version, member, topic_id)
    assert ask_at(client, version, delete_groups(group)).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert listed(client, version, group) == shown(version, "consumer", "Stable")
    described = ask_at(client, version, describe(group)).groups[0]
    assert (described.error_code, described.group_state) == (ErrorCode.NONE, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    assert [row.member_id for row in described.members] == [member.member_id]
    assert described.members[0].client_id == "raw"
    assert described.members[0].client_host == "/127.0.0.1"
    assert described.members[0].member_metadata == subscription("t")
    assert described.members[0].member_assignment == b"all of it"

    assert ask_at(client, version, leave(group, member.member_id)).error_code == ErrorCode.NONE
    assert ask_at(client, version, heartbeat(group, member)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert listed(client, version, group) == shown(version, "", "Empty")
    emptied = ask_at(client, version, describe(group)).groups[0]
    assert (emptied.error_code, emptied.group_state, emptied.members) == (ErrorCode.NONE, "Empty", [])

    assert ask_at(client, version, delete_groups(group)).results[0].error_code == ErrorCode.NONE
    assert fetch(client, version, group, {"t": [0]}, {"t": topic_id}) == {("t", 0): (-1, -1, "", 0)}
    assert ask_at(client, version, delete_groups(group)).results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert listed(client, version, group) is None
    gone = ask_at(client, version, describe(group)).groups[0]
    is_told = version >= 6
    assert gone.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.NONE)
    assert (gone.group_state, gone.error_message is not None) == ("Dead", is_told)


def become_the_only_member(client: RawClient, group: str, version: int) -> Any:
    first = ask_at(client, version, join(group))
    if version >= 4:
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert first.protocol_name == (None if version >= 7 else "")
        first = ask_at(client, version, join(group, first.member_id))
    assert (first.error_code, first.generation_id, first.leader) == (ErrorCode.NONE, 1, first.member_id)
    assert first.member_id.startswith("raw-")
    assert first.protocol_name == "range"
    assert first.protocol_type == ("consumer" if version >= 7 else None)
    assert [(row.member_id, row.metadata) for row in first.members] == [(first.member_id, subscription("t"))]
    answer = ask_at(client, version, sync(group, first, {first.member_id: b"all of it"}))
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"all of it")
    assert answer.protocol_name == ("range" if version >= 5 else None)
    assert ask_at(client, version, heartbeat(group, first)).error_code == ErrorCode.NONE
    stale = heartbeat(group, first, generation_id=7)
    assert ask_at(client, version, stale).error_code == ErrorCode.ILLEGAL_GENERATION
    return first


def commit_and_fetch(client: RawClient, group: str, version: int, member: Any, topic_id: UUID) -> None:
    asking = {"topic_id": topic_id, "metadata": "m-ü", "epoch": 0, "member_id": member.member_id}
    right = commit(group, "t", {1: 5}, generation_id=member.generation_id, **asking)
    assert partition_errors(ask_at(client, version, right)) == [ErrorCode.NONE]
    stale = commit(group, "t", {1: 6}, generation_id=member.generation_id + 1, **asking)
    assert partition_errors(ask_at(client, version, stale)) == [ErrorCode.ILLEGAL_GENERATION]
    simple = commit(group, "t", {1: 6}, topic_id=topic_id)
    assert partition_errors(ask_at(client, version, simple)) == [ErrorCode.UNKNOWN_MEMBER_ID]

    ids = {"t": topic_id}
    kept = (5, 0 if version >= 6 else -1, "m-ü", 0)
    if version == 5:  # can tell an epoch, and OffsetCommit of that version could not
        kept = (5, -1, "m-ü", 0)
    assert fetch(client, version, group, {"t": [0, 1]}, ids) == {
        ("t", 0): (-1, -1, "", 0),
        ("t", 1): kept,
    }
    if version >= 2:
        assert fetch(client, version, group, None, ids) == {("t", 1): kept}
        assert fetch(client, version, "nobody", None, ids) == {}


def describe(*groups: str) -> Any:
    return DescribeGroupsRequest(groups=list(groups), include_authorized_operations=True)


def delete_groups(*groups: str) -> Any:
    return DeleteGroupsRequest(groups_names=list(groups))


def listed(
    client: RawClient, version: int, group: str, states: tuple[str, ...] = (), types: tuple[str, ...] = ()
) -> tuple[str, str, str] | None:
    answer = ask_at(client, version, ListGroupsRequest(states_filter=list(states), types_filter=list(types)))
    assert answer.error_code == ErrorCode.NONE
    rows = [row for row in answer.groups if row.group_id == group]
    assert len(rows) < 2
    return next(((row.protocol_type, row.group_state, row.group_type) for row in rows), None)


def shown(version: int, protocol_type: str, state: str) -> tuple[str, str, str]:
    return protocol_type, state if version >= 4 else "", "classic" if version >= 5 else ""


def test_groups_are_listed_by_state_and_type(client: RawClient, topic_id: UUID) -> None:
    client.ask(commit("filtered", "t", {0: 1}), 2)
    assert listed(client, 4, "filtered", states=("empty",)) is not None
    assert listed(client, 4, "filtered", states=("Stable", "Dead")) is None
    assert listed(client, 5, "filtered", types=("Classic",)) is not None
    assert listed(client, 5, "filtered", types=("consumer",)) is None
    assert listed(client, 5, "filtered", states=("EMPTY",), types=("share",)) is None


# --- finding the coordinator ------------------------------------------------------------------------


def found(client: RawClient, version: int, key_type: int, keys: list[str]) -> list[tuple[Any, ...]]:
    request = FindCoordinatorRequest(key=keys[0], key_type=key_type, coordinator_keys=keys)
    answer = client.ask(request, version)
    rows = answer.coordinators if version >= 4 else [answer]
    return [(row.error_code, row.node_id, row.host, row.port) for row in rows]


@pytest.mark.parametrize("version", VERSIONS[10])
def test_the_coordinator_is_the_node_of_metadata(client: RawClient, version: int) -> None:
    node = client.ask(MetadataRequest(topics=[]), 1).brokers[0]
    expected = (ErrorCode.NONE, node.node_id, node.host, node.port)
    assert found(client, version, 0, ["one"]) == [expected]
    if version >= 4:
        assert found(client, version, 0, ["one", "two"]) == [expected, expected]


@pytest.mark.parametrize("version", VERSIONS[10][1:])
def test_other_coordinators_are_refused_for_good(client: RawClient, version: int) -> None:
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert found(client, version, 1, ["transactional"]) == [(refused, -1, "", -1)]
    assert found(client, version, 2, ["group:topic:0"]) == [(ErrorCode.INVALID_REQUEST, -1, "", -1)]


# --- members ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS[11])
def test_a_second_member_makes_the_first_join_again(
    gateway: Gateway, client: RawClient, version: int
) -> None:
    group = f"two-{version}"
    first = joined(client, group, version)
    ask_at(client, version, sync(group, first, {}))
    with RawClient((gateway.host, gateway.port)) as other:
        request = join(group)
        if version >= 4:
            request = join(group, ask_at(other, version, request).member_id)
        other.send(request, version)
        until_rebalancing(client, group, version, first)
        again = ask_at(client, version, join(group, first.member_id))
        second = other.receive()
        assert (again.generation_id, second.generation_id) == (2, 2)
        assert (second.leader, second.members) == (first.member_id, [])
        assert {row.member_id for row in again.members} == {first.member_id, second.member_id}
        other.send(sync(group, second, {}), min(version, 5))
        parts = {first.member_id: b"one half", second.member_id: b"the other"}
        assert ask_at(client, version, sync(group, again, parts)).assignment == b"one half"
        assert other.receive().assignment == b"the other"


def until_rebalancing(client: RawClient, group: str, version: int, member: Any) -> None:
    """The other's request travels on a connection of its own."""
    for _ in range(10_000):
        error = ask_at(client, version, heartbeat(group, member)).error_code
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            return
        assert error == ErrorCode.NONE
    raise AssertionError("the group never rebalanced")


def test_a_lost_connection_does_not_end_a_membership(gateway: Gateway, client: RawClient) -> None:
    first = joined(client, "lost", 3)
    ask_at(client, 3, sync("lost", first, {}))
    with RawClient((gateway.host, gateway.port)) as other:
        other.send(join("lost"), 3)
        until_rebalancing(client, "lost", 3, first)
    again = ask_at(client, 3, join("lost", first.member_id))
    assert len(again.members) == 2


@pytest.mark.parametrize("version", VERSIONS[13])
def test_leaving_as_somebody_unknown(client: RawClient, version: int) -> None:
    answer = client.ask(leave("nobody", "ghost"), version)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    if version < 3:
        assert answer.error_code == unknown
    else:
        assert answer.error_code == ErrorCode.NONE
        assert [(row.member_id, row.error_code) for row in answer.members] == [("ghost", unknown)]
    assert client.ask(leave("", "ghost"), version).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_member_comes_back_without_a_rebalance(client: RawClient, version: int) -> None:
    group = f"static-{version}"
    first = joined(client, group, version, instance_id="i")
    assert first.members[0].group_instance_id == "i"
    ask_at(client, version, sync(group, first, {first.member_id: b"mine"}, instance_id="i"))
    again = joined(client, group, version, instance_id="i")
    assert again.generation_id == first.generation_id
    assert again.member_id != first.member_id
    assert again.skip_assignment == (version >= 9)
    answer = ask_at(client, version, sync(group, again, {}, instance_id="i"))
    assert answer.assignment == b"mine"
    fenced = ask_at(client, version, sync(group, first, {}, instance_id="i"))
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert ask_at(client, version, describe(group)).groups[0].members[0].group_instance_id == "i"
    assert client.ask(leave(group, "", "i"), min(version, 5)).members[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", VERSIONS[11])
def test_joining_with_what_is_not_allowed(client: RawClient, version: int) -> None:
    assert client.ask(join(""), version).error_code == ErrorCode.INVALID_GROUP_ID
    hasty = join("hasty", session_ms=1)
    assert client.ask(hasty, version).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    stranger = join("strangers", "somebody")
    assert client.ask(stranger, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


# --- offsets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS[8])
def test_commits_that_are_refused(client: RawClient, topic_id: UUID, version: int) -> None:
    def errors(topic: str, offsets: dict[int, int], metadata: str = "") -> list[int]:
        identity = topic_id if topic == "t" else UUID(int=5)
        request = commit(f"refused-{version}", topic, offsets, topic_id=identity, metadata=metadata)
        return partition_errors(client.ask(request, version))

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors("t", {0: 1, 2: 1, -1: 1}) == [ErrorCode.NONE, unknown, unknown]
    assert errors("absent", {0: 1}) == [ErrorCode.UNKNOWN_TOPIC_ID if version == 10 else unknown]
    assert errors("t", {0: -1, 1: 2}) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert errors("t", {0: 3}, "é" * (MAX_METADATA_BYTES // 2)) == [ErrorCode.NONE]
    too_long = "é" * (MAX_METADATA_BYTES // 2) + "."
    assert errors("t", {0: 4}, too_long) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    kept = fetch(client, 2, f"refused-{version}", None, {})
    assert {place: row[0] for place, row in kept.items()} == {("t", 0): 3, ("t", 1): 2}


def test_null_metadata_comes_back_as_nothing(client: RawClient, topic_id: UUID) -> None:
    client.ask(commit("plain", "t", {0: 2**62}, metadata=None), 9)
    assert fetch(client, 7, "plain", {"t": [0]}, {}) == {("t", 0): (2**62, -1, "", 0)}


@pytest.mark.parametrize("version", range(8, 11))
def test_many_groups_are_fetched_at_once(client: RawClient, topic_id: UUID, version: int) -> None:
    client.ask(commit("many-a", "t", {0: 1}), 2)
    client.ask(commit("many-b", "t", {1: 2}), 2)
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    one = group.OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=[0, 1])
    other = group.OffsetFetchRequestTopics(name="absent", topic_id=UUID(int=5), partition_indexes=[0])
    request = OffsetFetchRequest(
        groups=[
            group(group_id="many-a", topics=[one, other]),
            group(group_id="many-b", topics=None),
            group(group_id="nobody", topics=[one]),
        ],
        require_stable=True,
    )
    answer = client.ask(request, version)
    offsets = [
        (row.group_id, [[part.committed_offset for part in topic.partitions] for topic in row.topics])
        for row in answer.groups
    ]
    assert offsets == [("many-a", [[1, -1], [-1]]), ("many-b", [[2]]), ("nobody", [[-1, -1]])]
    absent = answer.groups[0].topics[1].partitions[0].error_code
    assert absent == (ErrorCode.UNKNOWN_TOPIC_ID if version == 10 else ErrorCode.NONE)
    if version == 10:
        assert [topic.topic_id for topic in answer.groups[0].topics] == [topic_id, UUID(int=5)]


def offset_delete(group: str, places: dict[str, list[int]]) -> Any:
    row = OffsetDeleteRequest.OffsetDeleteRequestTopic
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            row(
                name=name,
                partitions=[row.OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
            )
            for name, numbers in places.items()
        ],
    )


def test_offsets_are_deleted_of_topics_that_nobody_reads(client: RawClient, topic_id: UUID) -> None:
    create_topic(client, "other")
    client.ask(commit("fading", "t", {0: 1, 1: 2}), 2)
    client.ask(commit("fading", "other", {0: 3}), 2)
    member = joined(client, "fading", 3)
    client.ask(sync("fading", member, {}), 3)
    answer = client.ask(offset_delete("fading", {"t": [0], "other": [0, 1, 2], "absent": [0]}), 0)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.error_code == ErrorCode.NONE
    assert partition_errors(answer) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0, 0, unknown, unknown]
    assert set(fetch(client, 2, "fading", None, {})) == {("t", 0), ("t", 1)}
    client.ask(leave("fading", member.member_id), 0)
    assert partition_errors(client.ask(offset_delete("fading", {"t": [0]}), 0)) == [ErrorCode.NONE]
    assert set(fetch(client, 2, "fading", None, {})) == {("t", 1)}
    client.ask(offset_delete("fading", {"t": [1]}), 0)
    gone = client.ask(offset_delete("fading", {"t": [1]}), 0)
    assert (gone.error_code, gone.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_a_group_that_is_named_twice_is_deleted_once(client: RawClient, topic_id: UUID) -> None:
    client.ask(commit("twice", "t", {0: 1}), 2)
    answer = client.ask(delete_groups("twice", "twice", "absent"), 2)
    assert [(row.group_id, row.error_code) for row in answer.results] == [
        ("twice", ErrorCode.NONE),
        ("absent", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


def test_the_group_without_a_name_can_hold_offsets(client: RawClient, topic_id: UUID) -> None:
    """As in Kafka, for consumers from before groups had to have names."""
    assert partition_errors(client.ask(commit("", "t", {0: 8}), 2)) == [ErrorCode.NONE]
    assert fetch(client, 1, "", {"t": [0]}, {})["t", 0][0] == 8
    assert client.ask(delete_groups(""), 0).results[0].error_code == ErrorCode.NONE
