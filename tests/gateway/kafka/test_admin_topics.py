"""Topics created, deleted and given partitions over raw requests: every version, every refusal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode as E
from barbicel.codecs.kafka.messages import FetchRequest, Message
from tests.gateway.kafka.admin_requests import (
    NO_ID,
    create,
    create_partitions,
    create_request,
    delete,
    make_topic,
    new_topic,
    partitions_of,
    setting,
    topic_names,
)
from tests.gateway.kafka.raw_client import RawClient
from tests.support.gateway import Gateway, running_gateway

NODE_ID = 3
PARTITIONS = 2
HERE, ELSEWHERE = NODE_ID, NODE_ID + 1


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    directory = tmp_path_factory.mktemp("topics")
    with running_gateway(directory, node_id=str(NODE_ID), num_partitions=str(PARTITIONS)) as running:
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[RawClient]:
    with RawClient((gateway.host, gateway.port)) as connected:
        yield connected


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return f"topic-{random.Random(request.node.nodeid).getrandbits(64):x}"


# --- creating -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates_a_topic_with_the_defaults(client: RawClient, name: str, version: int) -> None:
    (row,) = create(client, new_topic(name), version=version)
    assert (row.name, row.error_code, row.error_message) == (name, E.NONE, None)
    assert partitions_of(client, name) == PARTITIONS
    if version >= 5:
        assert (row.num_partitions, row.replication_factor) == (PARTITIONS, 1)
        values = {config.name: config.value for config in row.configs}
        assert values["cleanup.policy"] == "delete"
        assert values["retention.ms"] == str(7 * 24 * 3600 * 1000)
    assert isinstance(row.topic_id, UUID) == (version >= 7)


def test_the_answer_has_the_settings_and_where_they_come_from(client: RawClient, name: str) -> None:
    wanted = new_topic(
        name, 5, 1, configs=[("retention.ms", "1"), ("retention.ms", "777"), ("flush.ms", "5")]
    )
    (row,) = create(client, wanted)
    assert (row.error_code, row.num_partitions) == (E.NONE, 5)
    found = {config.name: (config.value, config.config_source) for config in row.configs}
    assert found["retention.ms"] == ("777", 1)  # the last one counts
    assert found["flush.ms"] == ("5", 1)
    assert found["segment.ms"][1] == 5
    assert not any(config.read_only or config.is_sensitive for config in row.configs)
    assert setting(client, name, "retention.ms") == "777"


REFUSALS: list[tuple[str, dict[str, Any], E]] = [
    ("no partitions", {"partitions": 0}, E.INVALID_PARTITIONS),
    ("fewer than the default sign", {"partitions": -2}, E.INVALID_PARTITIONS),
    ("two copies", {"replication": 2}, E.INVALID_REPLICATION_FACTOR),
    ("no copies", {"replication": 0}, E.INVALID_REPLICATION_FACTOR),
    ("fewer copies than none", {"replication": -2}, E.INVALID_REPLICATION_FACTOR),
    ("no partitions, two copies", {"partitions": 0, "replication": 2}, E.INVALID_PARTITIONS),
    ("no partitions, no copies", {"partitions": 0, "replication": 0}, E.INVALID_REPLICATION_FACTOR),
    ("unknown setting", {"configs": [("foo", "1")]}, E.INVALID_CONFIG),
    ("bad value", {"configs": [("retention.ms", "soon")]}, E.INVALID_CONFIG),
    ("no value", {"configs": [("retention.ms", None)]}, E.INVALID_CONFIG),
    ("compaction", {"configs": [("cleanup.policy", "compact")]}, E.INVALID_CONFIG),
    ("setting before numbers", {"partitions": 0, "configs": [("foo", "1")]}, E.INVALID_CONFIG),
    ("another broker", {"assignments": [(0, [ELSEWHERE])]}, E.INVALID_REPLICA_ASSIGNMENT),
    ("another broker too", {"assignments": [(0, [HERE, ELSEWHERE])]}, E.INVALID_REPLICA_ASSIGNMENT),
    ("no broker", {"assignments": [(0, [])]}, E.INVALID_REPLICA_ASSIGNMENT),
    ("the broker twice", {"assignments": [(0, [HERE, HERE])]}, E.INVALID_REPLICA_ASSIGNMENT),
    ("a gap", {"assignments": [(0, [HERE]), (2, [HERE])]}, E.INVALID_REPLICA_ASSIGNMENT),
    ("not from 0", {"assignments": [(1, [HERE])]}, E.INVALID_REPLICA_ASSIGNMENT),
    ("a partition twice", {"assignments": [(0, [HERE]), (0, [HERE])]}, E.INVALID_REPLICA_ASSIGNMENT),
    ("assigned and copies", {"assignments": [(0, [HERE])], "replication": 1}, E.INVALID_REQUEST),
    ("assigned and counted", {"assignments": [(0, [HERE])], "partitions": 1}, E.INVALID_REQUEST),
]


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(("options", "code"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_what_cannot_be_is_refused(
    client: RawClient, name: str, options: dict[str, Any], code: E, validate_only: bool
) -> None:
    (row,) = create(client, new_topic(name, **options), validate_only=validate_only)
    assert (row.name, row.error_code) == (name, code)
    assert row.error_message
    assert (row.topic_id, row.num_partitions, row.replication_factor, row.configs) == (None, -1, -1, [])
    assert name not in topic_names(client)


@pytest.mark.parametrize("bad", ["", ".", "..", "a b", "a/b", "ä", "x" * 250])
def test_names_are_kafkas(client: RawClient, bad: str) -> None:
    (row,) = create(client, new_topic(bad, 0))
    assert (row.error_code, row.name) == (E.INVALID_TOPIC_EXCEPTION, bad)


def test_a_message_never_outgrows_an_old_versions_text(client: RawClient, name: str) -> None:
    (row,) = create(client, new_topic(name, configs=[("\x00" * 20_000, "1")]), version=2)
    assert row.error_code == E.INVALID_CONFIG
    assert len(row.error_message) == 1000


def test_partitions_may_be_assigned_to_this_broker(client: RawClient, name: str) -> None:
    (row,) = create(client, new_topic(name, assignments=[(1, [HERE]), (0, [HERE]), (2, [HERE])]))
    assert (row.error_code, row.num_partitions) == (E.NONE, 3)
    assert partitions_of(client, name) == 3


def test_validating_creates_nothing(client: RawClient, name: str) -> None:
    (row,) = create(client, new_topic(name, 4), validate_only=True)
    assert (row.error_code, row.num_partitions, row.topic_id) == (E.NONE, 4, None)
    assert row.configs
    assert name not in topic_names(client)


def test_a_topic_exists_once(client: RawClient, name: str) -> None:
    make_topic(client, name)
    for options in ({}, {"validate_only": True}):
        (row,) = create(client, new_topic(name, 3, 7), **options)
        assert row.error_code == E.TOPIC_ALREADY_EXISTS
    (row,) = create(client, new_topic(name.replace("-", ".")))
    assert row.error_code == E.NONE
    (row,) = create(client, new_topic(name.replace("-", "_")))
    assert row.error_code == E.INVALID_TOPIC_EXCEPTION  # '.' and '_' collide
    assert partitions_of(client, name) == 1


def test_each_topic_of_a_request_has_its_own_fate(client: RawClient, name: str) -> None:
    rows = create(
        client,
        new_topic(f"{name}-a"),
        new_topic(f"{name}-twice"),
        new_topic("a b"),
        new_topic(f"{name}-twice"),
    )
    assert [(row.name, row.error_code) for row in rows] == [
        (f"{name}-a", E.NONE),
        (f"{name}-twice", E.INVALID_REQUEST),
        ("a b", E.INVALID_TOPIC_EXCEPTION),
    ]
    assert f"{name}-twice" not in topic_names(client)
    assert create(client) == []


def test_too_many_partitions_at_once_are_against_the_policy(client: RawClient, name: str) -> None:
    for topics in (
        [new_topic(name, 10_001)],
        [new_topic(f"{name}-a", 5000), new_topic(f"{name}-b", 5000), new_topic(f"{name}-c")],
        [new_topic(name, assignments=[(number, [HERE]) for number in range(10_001)])],
        [new_topic(name, (1 << 31) - 1), new_topic(f"{name}-b", (1 << 31) - 1)],
    ):
        rows = create(client, *topics)
        assert {row.error_code for row in rows} == {E.POLICY_VIOLATION}
        assert len(rows) == len(topics)


@pytest.mark.parametrize("timeout_ms", [0, -1, -(1 << 31)])
def test_without_time_nothing_is_done(client: RawClient, name: str, timeout_ms: int) -> None:
    (row,) = create(client, new_topic(name), timeout_ms=timeout_ms)
    assert row.error_code == E.REQUEST_TIMED_OUT
    assert name not in topic_names(client)
    make_topic(client, name)
    (row,) = create_partitions(client, (name, 2, None), timeout_ms=timeout_ms)
    assert row.error_code == E.REQUEST_TIMED_OUT
    assert partitions_of(client, name) == 1
    (row,) = delete(client, name, timeout_ms=timeout_ms)
    assert row.error_code == E.REQUEST_TIMED_OUT
    assert name in topic_names(client)


def test_of_two_creators_at_once_one_wins(gateway: Gateway, name: str) -> None:
    with RawClient((gateway.host, gateway.port)) as one, RawClient((gateway.host, gateway.port)) as other:
        for client, partitions in ((one, 3), (other, 4), (one, 5)):
            client.send(create_request([new_topic(name, partitions)]), 7)
        rows = [client.receive().topics[0] for client in (one, other, one)]
        codes = [row.error_code for row in rows]
        assert sorted(codes) == [E.NONE, E.TOPIC_ALREADY_EXISTS, E.TOPIC_ALREADY_EXISTS]
        winner = rows[codes.index(E.NONE)]
        assert partitions_of(one, name) == winner.num_partitions


# --- deleting -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes_by_name(client: RawClient, name: str, version: int) -> None:
    identity = make_topic(client, name)
    gone, unknown = delete(client, name, "no-such-topic", version=version)
    assert (gone.name, gone.error_code) == (name, E.NONE)
    assert (unknown.name, unknown.error_code) == ("no-such-topic", E.UNKNOWN_TOPIC_OR_PARTITION)
    assert gone.topic_id == (identity if version >= 6 else None)
    assert bool(unknown.error_message) == (version >= 5)
    assert name not in topic_names(client)
    assert make_topic(client, name) != identity  # the name is free, the id is not


def test_a_topic_is_deleted_by_its_id(client: RawClient, name: str) -> None:
    identity, stranger = make_topic(client, name), UUID(int=77)
    gone, unknown = delete(client, identity, stranger)
    assert (gone.name, gone.topic_id, gone.error_code) == (name, identity, E.NONE)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (None, stranger, E.UNKNOWN_TOPIC_ID)
    assert delete(client, identity)[0].error_code == E.UNKNOWN_TOPIC_ID


def test_what_names_a_topic_twice_or_not_at_all_deletes_nothing(client: RawClient, name: str) -> None:
    identity = make_topic(client, name)
    for asked in (
        (name, name),
        (identity, identity),
        (name, identity),
        ((name, identity),),
        ((None, NO_ID),),
        ("nope", "nope"),
    ):
        rows = delete(client, *asked)
        assert {row.error_code for row in rows} == {E.INVALID_REQUEST}, asked
    assert delete(client, name, name, version=3)[0].error_code == E.INVALID_REQUEST
    assert delete(client) == []
    assert name in topic_names(client)


def test_deleting_wakes_whoever_waits_for_records(gateway: Gateway, client: RawClient, name: str) -> None:
    make_topic(client, name)
    with RawClient((gateway.host, gateway.port)) as consumer:
        consumer.send(_long_fetch(name), 12)
        assert delete(client, name)[0].error_code == E.NONE
        (topic,) = consumer.receive().responses  # long before max_wait_ms
        assert topic.partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION


def _long_fetch(name: str) -> Message:
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=0,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1000,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=10 * 60_000,
        min_bytes=1,
        max_bytes=1000,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[topic(topic=name, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
    )


def test_many_changes_of_one_topic_at_once_are_made_in_turn(gateway: Gateway, name: str) -> None:
    clients = [RawClient((gateway.host, gateway.port)) for _ in range(4)]
    for _ in range(5):
        for client in clients:
            client.send(create_request([new_topic(name)]), 7)
        codes = [client.receive().topics[0].error_code for client in clients]
        assert sorted(codes) == [E.NONE] + [E.TOPIC_ALREADY_EXISTS] * 3
        assert create_partitions(clients[0], (name, 3, None))[0].error_code == E.NONE
        assert delete(clients[1], name)[0].error_code == E.NONE
    for client in clients:
        client.close()


# --- partitions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions(client: RawClient, name: str, version: int) -> None:
    make_topic(client, name)
    (row,) = create_partitions(client, (name, 3, None), version=version)
    assert (row.name, row.error_code, row.error_message) == (name, E.NONE, None)
    assert partitions_of(client, name) == 3
    (row,) = create_partitions(client, (name, 5, [[HERE], [HERE]]), version=version)
    assert row.error_code == E.NONE
    assert partitions_of(client, name) == 5


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (2, None, E.INVALID_PARTITIONS),
        (1, None, E.INVALID_PARTITIONS),
        (0, None, E.INVALID_PARTITIONS),
        (-1, None, E.INVALID_PARTITIONS),
        (10_001, None, E.INVALID_PARTITIONS),
        (3, [], E.INVALID_REPLICA_ASSIGNMENT),
        (3, [[HERE], [HERE]], E.INVALID_REPLICA_ASSIGNMENT),
        (3, [[]], E.INVALID_REPLICA_ASSIGNMENT),
        (3, [[ELSEWHERE]], E.INVALID_REPLICA_ASSIGNMENT),
        (3, [[HERE, HERE]], E.INVALID_REPLICA_ASSIGNMENT),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_partitions_that_cannot_be_are_refused(
    client: RawClient,
    name: str,
    count: int,
    assignments: list[list[int]] | None,
    code: E,
    validate_only: bool,
) -> None:
    make_topic(client, name, 2)
    (row,) = create_partitions(client, (name, count, assignments), validate_only=validate_only)
    assert row.error_code == code
    assert row.error_message
    assert partitions_of(client, name) == 2


def test_validating_adds_no_partitions(client: RawClient, name: str) -> None:
    make_topic(client, name)
    (row,) = create_partitions(client, (name, 9, None), validate_only=True)
    assert row.error_code == E.NONE
    assert partitions_of(client, name) == 1


def test_partitions_of_unknown_and_repeated_topics(client: RawClient, name: str) -> None:
    make_topic(client, name)
    rows = create_partitions(client, (name, 2, None), ("nope", 2, None), (name, 3, None), ("a b", 2, None))
    assert {row.name: row.error_code for row in rows} == {
        name: E.INVALID_REQUEST,
        "nope": E.UNKNOWN_TOPIC_OR_PARTITION,
        "a b": E.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert len(rows) == 3
    assert partitions_of(client, name) == 1


# --- what is kept, and what is switched off -------------------------------------------------------------


def test_topics_are_there_after_a_kill(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_gateway(tmp_path_factory.mktemp("killed")) as gateway:
        with RawClient((gateway.host, gateway.port)) as client:
            identity = make_topic(client, "kept", 2, retention_ms="4711")
            assert create_partitions(client, ("kept", 3, None))[0].error_code == E.NONE
            make_topic(client, "gone")
            assert delete(client, "gone")[0].error_code == E.NONE
        gateway.kill()
        gateway.start()
        with RawClient((gateway.host, gateway.port)) as client:
            assert topic_names(client) == {"kept"}
            assert partitions_of(client, "kept") == 3
            assert setting(client, "kept", "retention.ms") == "4711"
            assert delete(client, identity)[0].error_code == E.NONE


def test_deleting_may_be_switched_off(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        running_gateway(tmp_path_factory.mktemp("off"), delete_topic_enable="false") as gateway,
        RawClient((gateway.host, gateway.port)) as client,
    ):
        make_topic(client, "kept")
        for version in range(1, 7):
            expected = E.INVALID_REQUEST if version < 3 else E.TOPIC_DELETION_DISABLED
            rows = delete(client, "kept", "nope", version=version)
            assert [row.error_code for row in rows] == [expected, expected]
        assert topic_names(client) == {"kept"}
