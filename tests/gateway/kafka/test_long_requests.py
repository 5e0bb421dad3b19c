"""Requests of tens of thousands of rows: what is named twice is answered once, others are served meanwhile,
and what no client can mean is not read at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.acls import Operation, Pattern, Permission, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.kafka import api, connection
from barbicel.gateway.kafka.api import MAX_ROWS
from tests.gateway.kafka.group_requests import join
from tests.gateway.kafka.in_memory import Gateway, in_memory_gateway
from tests.gateway.kafka.requests import fetch, list_offsets, metadata, only

FEW, MANY = 3, 3000


def find_coordinators(names: list[str]) -> Any:
    return messages.FindCoordinatorRequest(key_type=0, coordinator_keys=names)


def describe_groups(names: list[str]) -> Any:
    return messages.DescribeGroupsRequest(groups=names, include_authorized_operations=False)


def fetch_offsets(names: list[str]) -> Any:
    kind = messages.OffsetFetchRequest.OffsetFetchRequestGroup
    return messages.OffsetFetchRequest(
        groups=[kind(group_id=name, topics=None) for name in names], require_stable=False
    )


def delete_groups(names: list[str]) -> Any:
    return messages.DeleteGroupsRequest(groups_names=names)


def create_topics(names: list[str]) -> Any:
    kind = messages.CreateTopicsRequest.CreatableTopic
    topics = [
        kind(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    return messages.CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=True)


def ask_metadata(names: list[str]) -> Any:
    return metadata(*names, allow_auto_topic_creation=False)


def describe_configs(names: list[str]) -> Any:
    kind = messages.DescribeConfigsRequest.DescribeConfigsResource
    return messages.DescribeConfigsRequest(
        resources=[kind(resource_type=2, resource_name=name, configuration_keys=None) for name in names],
        include_synonyms=False,
        include_documentation=False,
    )


def list_ends(names: list[str]) -> Any:
    request = list_offsets()
    kind = messages.ListOffsetsRequest.ListOffsetsTopic
    row = kind.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    request.topics = [kind(name=name, partitions=[row]) for name in names]
    return request


def epoch_ends(names: list[str]) -> Any:
    kind = messages.OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    row = kind.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    return messages.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[kind(topic=name, partitions=[row]) for name in names]
    )


def commit(names: list[str]) -> Any:
    kind = messages.OffsetCommitRequest.OffsetCommitRequestTopic
    row = kind.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
    )
    return messages.OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[kind(name=name, partitions=[row]) for name in names],
    )


def delete_records(names: list[str]) -> Any:
    kind = messages.DeleteRecordsRequest.DeleteRecordsTopic
    row = kind.DeleteRecordsPartition(partition_index=0, offset=0)
    return messages.DeleteRecordsRequest(
        topics=[kind(name=name, partitions=[row]) for name in names], timeout_ms=1000
    )


def describe_producers(names: list[str]) -> Any:
    kind = messages.DescribeProducersRequest.TopicRequest
    return messages.DescribeProducersRequest(
        topics=[kind(name=name, partition_indexes=[0]) for name in names]
    )


def describe_partitions(names: list[str]) -> Any:
    kind = messages.DescribeTopicPartitionsRequest.TopicRequest
    return messages.DescribeTopicPartitionsRequest(
        topics=[kind(name=name) for name in names], response_partition_limit=2000, cursor=None
    )


def delete_offsets(names: list[str]) -> Any:
    kind = messages.OffsetDeleteRequest.OffsetDeleteRequestTopic
    row = kind.OffsetDeleteRequestPartition(partition_index=0)
    return messages.OffsetDeleteRequest(
        group_id="g", topics=[kind(name=name, partitions=[row]) for name in names]
    )


def leave(names: list[str]) -> Any:
    kind = messages.LeaveGroupRequest.MemberIdentity
    members = [kind(member_id=name, group_instance_id=None, reason=None) for name in names]
    return messages.LeaveGroupRequest(group_id="g", members=members)


def describe_passwords(names: list[str]) -> Any:
    kind = messages.DescribeUserScramCredentialsRequest.UserName
    return messages.DescribeUserScramCredentialsRequest(users=[kind(name=name) for name in names])


def delete_passwords(names: list[str]) -> Any:
    kind = messages.AlterUserScramCredentialsRequest.ScramCredentialDeletion
    return messages.AlterUserScramCredentialsRequest(
        deletions=[kind(name=name, mechanism=1) for name in names], upsertions=[]
    )


def set_quotas(names: list[str]) -> Any:
    kind = messages.AlterClientQuotasRequest.EntryData
    return messages.AlterClientQuotasRequest(
        entries=[
            kind(
                entity=[kind.EntityData(entity_type="client-id", entity_name=name)],
                ops=[kind.OpData(key="producer_byte_rate", value=1.0, remove=False)],
            )
            for name in names
        ],
        validate_only=False,
    )


def create_acls(names: list[str]) -> Any:
    kind = messages.CreateAclsRequest.AclCreation
    creations = [
        kind(
            resource_type=Resource.TOPIC,
            resource_name=name,
            resource_pattern_type=Pattern.LITERAL,
            principal="User:a",
            host="*",
            operation=Operation.READ,
            permission_type=Permission.ALLOW,
        )
        for name in names
    ]
    return messages.CreateAclsRequest(creations=creations)


def delete_acls(names: list[str]) -> Any:
    kind = messages.DeleteAclsRequest.DeleteAclsFilter
    filters = [
        kind(
            resource_type_filter=Resource.TOPIC,
            resource_name_filter=name,
            pattern_type_filter=Pattern.LITERAL,
            principal_filter=None,
            host_filter=None,
            operation=Operation.READ,
            permission_type=Permission.ALLOW,
        )
        for name in names
    ]
    return messages.DeleteAclsRequest(filters=filters)


# Makes a request that names these, its version, and where the answer has its rows.
Case = tuple[Callable[[list[str]], Any], int, str]
DEDUPLICATED: list[Case] = [
    (find_coordinators, 4, "coordinators"),
    (describe_groups, 5, "groups"),
    (fetch_offsets, 8, "groups"),
    (delete_groups, 2, "results"),
    (create_topics, 7, "topics"),
    (ask_metadata, 12, "topics"),
    (describe_configs, 4, "results"),
    (list_ends, 7, "topics"),
    (delete_records, 2, "topics"),
    (describe_producers, 0, "topics"),
    (describe_partitions, 0, "topics"),
]
ALL: list[Case] = [
    *DEDUPLICATED,
    (epoch_ends, 4, "topics"),
    (commit, 9, "topics"),
    (delete_offsets, 0, "topics"),
    (leave, 5, "members"),
    (describe_passwords, 0, "results"),
    (delete_passwords, 0, "results"),
    (set_quotas, 1, "entries"),
]
# Of those whose rows do not say what they are about.
NAMELESS: list[Case] = [(create_acls, 3, "results"), (delete_acls, 3, "filter_results")]


@pytest.fixture
def read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a thread, so that what comes between a request and its answer is due to the answer alone."""
    monkeypatch.setattr(connection, "LONG_BODY_BYTES", 1 << 30)


@pytest.mark.parametrize(("request_of", "version", "rows"), DEDUPLICATED)
@pytest.mark.parametrize("count", [FEW, MANY])
def test_what_is_named_many_times_is_answered_once(
    gateway: Gateway, request_of: Callable[[list[str]], Any], version: int, rows: str, count: int
) -> None:
    answer = gateway.connect().ask(request_of(["b", "a"] * count), version)
    assert len(getattr(answer, rows)) == 2


@pytest.mark.usefixtures("read_at_once")
@pytest.mark.parametrize(("request_of", "version", "rows"), ALL)
def test_another_client_is_served_between_the_rows(
    gateway: Gateway, request_of: Callable[[list[str]], Any], version: int, rows: str
) -> None:
    gateway.broker.offsets.remember("g", ("t", 0))
    names = [f"name-{number:05}" for number in range(MANY)]
    answered = getattr(_answer_between_others(gateway, request_of(names), version), rows)
    assert len(answered) == MANY
    assert [_name(row) for row in answered] == names


@pytest.mark.usefixtures("read_at_once")
@pytest.mark.parametrize(("request_of", "version", "rows"), NAMELESS)
def test_another_client_is_served_between_the_rows_of_acls(
    gateway: Gateway, request_of: Callable[[list[str]], Any], version: int, rows: str
) -> None:
    answer = _answer_between_others(gateway, request_of(["a"] * MANY), version)
    assert [row.error_code for row in getattr(answer, rows)] == [ErrorCode.SECURITY_DISABLED] * MANY


@pytest.mark.parametrize("version", [1, 4])
def test_another_client_is_served_between_the_partitions_of_a_directory(
    gateway: Gateway, version: int
) -> None:
    gateway.create("wide", partitions=300)
    answer = _answer_between_others(gateway, messages.DescribeLogDirsRequest(topics=None), version)
    partitions = only(only(answer.results).topics).partitions
    assert [row.partition_index for row in partitions] == list(range(300))


def _answer_between_others(gateway: Gateway, request: Any, version: int) -> Any:
    busy, other = gateway.connect(port=1), gateway.connect(port=2)
    busy.send(request, version)
    assert not busy.has_answer
    # Not because a thread has something to do: it has begun with its rows, and lets others go first.
    assert any(turn.getTime() <= gateway.reactor.seconds() for turn in gateway.reactor.getDelayedCalls())
    other.send(messages.ApiVersionsRequest(), 0)
    assert other.has_answer
    return busy.answer()


def _name(row: Any) -> Any:
    if hasattr(row, "entity"):
        return only(row.entity).entity_name
    return next(
        getattr(row, field)
        for field in ("name", "key", "group_id", "resource_name", "topic", "member_id", "user")
        if hasattr(row, field)
    )


@pytest.mark.parametrize(("request_of", "version", "rows"), ALL + NAMELESS)
def test_too_many_rows_are_not_read(
    gateway: Gateway,
    request_of: Callable[[list[str]], Any],
    version: int,
    rows: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = gateway.connect()
    client.send(request_of(["a"] * (MAX_ROWS + 1)), version)
    gateway.reactor.until(lambda: client.is_closed)
    assert "too many rows" in caplog.text
    assert "10.0.0.1:40000" in caplog.text


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_fetch_of_too_many_partitions_is_not_read(
    gateway: Gateway, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.create("t")
    client = gateway.connect()
    many = client.ask(fetch(*[0] * (MAX_ROWS - 1), partitions=[0] * (MAX_ROWS - 1)), version)
    assert only(only(many.responses).partitions).error_code == ErrorCode.NONE
    client.send(fetch(*[0] * MAX_ROWS, partitions=[0] * MAX_ROWS), version)
    assert client.is_closed
    assert "too many rows" in caplog.text


def test_the_rows_are_not_read_in_the_reactors_thread(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def decode(*arguments: Any, **more: Any) -> Any:
        threads.append(threading.current_thread())
        return messages.decode_request(*arguments, **more)

    monkeypatch.setattr(api, "decode_request", decode)
    client = gateway.connect()
    assert len(client.ask(describe_groups([f"name-{number:05}" for number in range(MANY)]), 5).groups) == MANY
    assert len(client.ask(describe_groups(["a"]), 5).groups) == 1
    long, short = threads
    assert long is not threading.current_thread()
    assert short is threading.current_thread()


def test_nothing_overtakes_a_request_that_is_read_elsewhere(gateway: Gateway) -> None:
    client = gateway.connect()
    long = join("g", topics=("t" * 200,) * 200)
    listing = messages.ListGroupsRequest(states_filter=[], types_filter=[])
    client.connection.dataReceived(client.encoded(long, 4) + client.encoded(listing, 4))
    assert client.answer().error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert only(client.answer().groups).group_id == "g"


def test_who_goes_while_its_request_is_read_joins_nothing(gateway: Gateway) -> None:
    client = gateway.connect()
    client.send(join("g", topics=("t" * 200,) * 200), 3)
    client.lose()
    other = gateway.connect(port=2)
    # Behind it in the same threads.
    names = [f"name-{number:05}" for number in range(MANY)]
    assert len(other.ask(describe_groups(["g", *names]), 5).groups) == MANY + 1
    assert gateway.broker.coordinator.list_groups() == []


def test_many_groups_are_listed_between_others(gateway: Gateway) -> None:
    for number in range(MANY):
        gateway.broker.offsets.remember(f"group-{number:05}", ("t", 0))
    busy, other = gateway.connect(port=1), gateway.connect(port=2)
    busy.send(messages.ListGroupsRequest(states_filter=[], types_filter=[]), 4)
    assert not busy.has_answer
    other.send(messages.ApiVersionsRequest(), 0)
    assert other.has_answer
    assert [row.group_id for row in busy.answer().groups] == [f"group-{n:05}" for n in range(MANY)]


def test_as_many_partitions_as_a_group_may_have_are_committed_and_fetched(gateway: Gateway) -> None:
    gateway.create("wide", partitions=300)
    kind = messages.OffsetCommitRequest.OffsetCommitRequestTopic
    request = commit(["wide"])
    request.topics[0].partitions = [
        kind.OffsetCommitRequestPartition(
            partition_index=number,
            committed_offset=number,
            committed_leader_epoch=-1,
            committed_metadata=f"{number}",
        )
        for number in range(300)
    ]
    client = gateway.connect()
    committed = only(client.ask(request, 9).topics).partitions
    assert [(row.partition_index, row.error_code) for row in committed] == [(n, 0) for n in range(300)]
    found = only(only(client.ask(fetch_offsets(["g", "g"]), 8).groups).topics).partitions
    assert [(row.partition_index, row.committed_offset) for row in found] == [(n, n) for n in range(300)]


def test_positions_are_committed_with_as_much_to_say_as_each_may_have(gateway: Gateway) -> None:
    """More than 2 MiB in all."""
    gateway.create("wide", partitions=600)
    text = "m" * gateway.broker.config.offset_metadata_max_bytes
    kind = messages.OffsetCommitRequest.OffsetCommitRequestTopic
    request = commit(["wide"])
    request.topics[0].partitions = [
        kind.OffsetCommitRequestPartition(
            partition_index=number,
            committed_offset=number,
            committed_leader_epoch=-1,
            committed_metadata=text,
        )
        for number in range(600)
    ]
    client = gateway.connect()
    committed = only(client.ask(request, 9).topics).partitions
    assert [row.error_code for row in committed] == [ErrorCode.NONE] * 600
    found = only(only(client.ask(fetch_offsets(["g"]), 8).groups).topics).partitions
    assert {row.metadata for row in found} == {text}


def test_of_a_partition_that_is_committed_twice_the_last_offset_counts(gateway: Gateway) -> None:
    gateway.create("t")
    kind = messages.OffsetCommitRequest.OffsetCommitRequestTopic
    request = commit(["t", "t"])
    request.topics[1].partitions = [
        kind.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=7, committed_leader_epoch=-1, committed_metadata=""
        )
    ]
    client = gateway.connect()
    assert [only(topic.partitions).error_code for topic in client.ask(request, 9).topics] == [0, 0]
    found = only(only(client.ask(fetch_offsets(["g"]), 8).groups).topics).partitions
    assert only(found).committed_offset == 7


@pytest.mark.usefixtures("read_at_once")
def test_commits_keep_their_order_though_the_first_one_is_long(gateway: Gateway) -> None:
    gateway.create("t")
    client = gateway.connect()
    long, short = commit(["t", *(f"none-{number}" for number in range(MANY))]), commit(["t"])
    short.topics[0].partitions[0].committed_offset = 2
    long.topics[0].partitions = [
        messages.OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
        )
    ]
    client.connection.dataReceived(client.encoded(long, 9) + client.encoded(short, 9))
    client.answer()
    client.answer()
    found = only(only(client.ask(fetch_offsets(["g"]), 8).groups).topics).partitions
    assert only(found).committed_offset == 2


@pytest.fixture
def eager(tmp_path: Path) -> Iterator[Gateway]:
    """One that waits for no other members."""
    with in_memory_gateway(tmp_path / "data", group_initial_rebalance_delay_ms=0) as gateway:
        yield gateway


@pytest.mark.usefixtures("read_at_once")
def test_a_member_that_comes_while_positions_are_looked_at_keeps_its_own(eager: Gateway) -> None:
    eager.create("t")
    busy, other = eager.connect(port=1), eager.connect(port=2)
    assert only(only(other.ask(commit(["t"]), 9).topics).partitions).error_code == ErrorCode.NONE
    busy.send(delete_offsets(["t", *(f"none-{number}" for number in range(MANY))]), 0)
    assert other.ask(join("g"), 3).error_code == ErrorCode.NONE
    assert not busy.has_answer
    row = only(busy.answer().topics[0].partitions)
    assert row.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    found = only(only(other.ask(fetch_offsets(["g"]), 8).groups).topics).partitions
    assert only(found).committed_offset == 1


@pytest.mark.usefixtures("read_at_once")
def test_a_member_that_leaves_while_its_positions_are_looked_at_commits_nothing(eager: Gateway) -> None:
    eager.create("t")
    busy, other = eager.connect(port=1), eager.connect(port=2)
    member = busy.ask(join("g"), 3)
    request = commit(["t", *(f"none-{number}" for number in range(MANY))])
    request.member_id, request.generation_id_or_member_epoch = member.member_id, member.generation_id
    busy.send(request, 9)
    assert only(other.ask(leave([member.member_id]), 5).members).error_code == ErrorCode.NONE
    assert not busy.has_answer
    assert only(busy.answer().topics[0].partitions).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert only(other.ask(fetch_offsets(["g"]), 8).groups).topics == []


@pytest.mark.usefixtures("read_at_once")
def test_a_long_commit_leaves_nothing_in_a_topic_that_is_deleted_meanwhile(gateway: Gateway) -> None:
    gateway.create("t")
    client = gateway.connect()
    client.send(commit(["t", *(f"none-{number}" for number in range(MANY))]), 9)
    deletion = gateway.broker.topics.delete("t")
    row = only(client.answer().topics[0].partitions)
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    gateway.reactor.result(deletion)
    assert gateway.broker.offsets.groups() == []
