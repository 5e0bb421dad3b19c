"""Settings of topics and of the broker, described and changed over raw requests, and their effect."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import MessageSizeTooLargeError

from barbicel.codecs.kafka.error_codes import ErrorCode as E
from barbicel.gateway.broker.topic_settings import TOPIC_SETTINGS
from tests.gateway.kafka.admin_requests import (
    BROKER,
    TOPIC,
    alter,
    describe,
    earliest,
    eventually,
    increment,
    make_topic,
    setting,
)
from tests.gateway.kafka.raw_client import RawClient
from tests.support.gateway import Gateway, running_gateway

NODE_ID = 3
NODE = str(NODE_ID)
LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OF_TOPIC, OF_BROKER, DEFAULT = 1, 4, 5
LONG, LIST = 5, 7


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    directory = tmp_path_factory.mktemp("configs")
    with running_gateway(
        directory, node_id=NODE, log_retention_ms="86400000", log_retention_check_interval_ms="50"
    ) as running:
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[RawClient]:
    with RawClient((gateway.host, gateway.port)) as connected:
        yield connected


@pytest.fixture
def topic(client: RawClient, request: pytest.FixtureRequest) -> str:
    name = f"topic-{random.Random(request.node.nodeid).getrandbits(64):x}"
    make_topic(client, name, retention_ms="1000000")
    return name


def codes(rows: list[Any]) -> list[int]:
    return [row.error_code for row in rows]


# --- describing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_describes_a_topic(client: RawClient, topic: str, version: int) -> None:
    (row,) = describe(client, (TOPIC, topic, None), version=version, synonyms=True, documentation=True)
    assert (row.error_code, row.error_message, row.resource_type, row.resource_name) == (0, "", TOPIC, topic)
    found = {config.name: config for config in row.configs}
    assert set(found) == set(TOPIC_SETTINGS)
    retention = found["retention.ms"]
    assert (retention.value, retention.config_source) == ("1000000", OF_TOPIC)
    assert (retention.read_only, retention.is_sensitive) == (False, False)
    assert [(one.name, one.value, one.source) for one in retention.synonyms] == [
        ("retention.ms", "1000000", OF_TOPIC),
        ("log.retention.ms", "86400000", OF_BROKER),
        ("log.retention.ms", "604800000", DEFAULT),
    ]
    assert (found["flush.ms"].config_source, found["cleanup.policy"].value) == (DEFAULT, "delete")
    types = {name: found[name].config_type for name in ("retention.ms", "cleanup.policy")}
    assert types == (
        {"retention.ms": LONG, "cleanup.policy": LIST} if version >= 3 else dict.fromkeys(types, 0)
    )
    assert all(bool(config.documentation) == (version >= 3) for config in row.configs)


def test_only_what_is_asked_for_is_described(client: RawClient, topic: str) -> None:
    (row,) = describe(client, (TOPIC, topic, ["flush.ms", "nope", "flush.ms", "retention.ms"]))
    assert [config.name for config in row.configs] == ["flush.ms", "retention.ms"]
    assert not any(config.synonyms or config.documentation for config in row.configs)
    (row,) = describe(client, (TOPIC, topic, []))
    assert len(row.configs) == len(TOPIC_SETTINGS)
    (row,) = describe(client, (TOPIC, topic, ["nope"]))
    assert (row.error_code, row.configs) == (E.NONE, [])


def test_a_question_is_answered_once_however_often_it_is_asked(client: RawClient, topic: str) -> None:
    question = (TOPIC, topic, None)
    rows = describe(client, *[question] * 1000, (TOPIC, topic, ["flush.ms"]))
    assert [len(row.configs) for row in rows] == [len(TOPIC_SETTINGS), 1]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", E.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", E.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", E.INVALID_TOPIC_EXCEPTION),
        (BROKER, str(NODE_ID + 1), E.INVALID_REQUEST),
        (BROKER, "x", E.INVALID_REQUEST),
        (LOGGER, NODE, E.INVALID_REQUEST),
        (CLIENT_METRICS, "x", E.INVALID_REQUEST),
        (GROUP, "x", E.INVALID_REQUEST),
        (0, "", E.INVALID_REQUEST),
        (99, "x", E.INVALID_REQUEST),
        (-1, "x", E.INVALID_REQUEST),
    ],
)
def test_an_unknown_resource_is_refused_alone(
    client: RawClient, topic: str, kind: int, name: str, code: E
) -> None:
    rows = describe(client, (kind, name, None), (TOPIC, topic, ["flush.ms"]))
    assert codes(rows) == [code, E.NONE]
    assert (rows[0].resource_type, rows[0].resource_name, rows[0].configs) == (kind, name, [])
    assert rows[0].error_message


def test_the_broker_tells_its_settings(gateway: Gateway, client: RawClient) -> None:
    (row,) = describe(client, (BROKER, NODE, None), synonyms=True, documentation=True)
    found = {config.name: config for config in row.configs}
    values = {name: config.value for name, config in found.items()}
    assert values["delete.topic.enable"] == "true"
    assert values["inter.broker.protocol.version"].startswith("4.")
    assert values["node.id"] == values["broker.id"] == NODE
    assert values["log.dirs"] == str(gateway.data.resolve())
    assert values["default.replication.factor"] == values["min.insync.replicas"] == "1"
    assert values["log.cleanup.policy"] == "delete"
    assert list(found) == sorted(found)
    assert all(config.read_only and not config.is_sensitive for config in row.configs)
    assert all(config.documentation for config in row.configs)
    retention = found["log.retention.ms"]
    assert (retention.config_source, retention.config_type) == (OF_BROKER, LONG)
    assert [(one.value, one.source) for one in retention.synonyms] == [
        ("86400000", OF_BROKER),
        ("604800000", DEFAULT),
    ]
    assert found["num.partitions"].config_source == DEFAULT


def test_nothing_is_set_on_all_brokers(client: RawClient) -> None:
    (row,) = describe(client, (BROKER, "", None))
    assert (row.error_code, row.configs) == (E.NONE, [])


# --- replacing all settings -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_every_version_replaces_all_settings(client: RawClient, topic: str, version: int) -> None:
    (row,) = alter(client, (TOPIC, topic, [("flush.ms", "5")]), version=version)
    assert (row.error_code, row.error_message, row.resource_type, row.resource_name) == (
        0,
        None,
        TOPIC,
        topic,
    )
    assert setting(client, topic, "flush.ms") == "5"
    assert setting(client, topic, "retention.ms") == "86400000"  # was left out


ALTERATION_REFUSALS: list[tuple[int, str | None, list[tuple[str, str | None]], E]] = [
    (TOPIC, None, [("foo", "1")], E.INVALID_CONFIG),
    (TOPIC, None, [("flush.ms", "soon")], E.INVALID_CONFIG),
    (TOPIC, None, [("flush.ms", "1"), ("foo", "1")], E.INVALID_CONFIG),
    (TOPIC, None, [("flush.ms", None)], E.INVALID_REQUEST),
    (TOPIC, None, [("flush.ms", "1"), ("flush.ms", "2")], E.INVALID_REQUEST),
    (TOPIC, "nope", [("flush.ms", "1")], E.UNKNOWN_TOPIC_OR_PARTITION),
    (TOPIC, "a b", [("flush.ms", "1")], E.INVALID_TOPIC_EXCEPTION),
    (TOPIC, "", [], E.INVALID_REQUEST),
    (BROKER, NODE, [("log.retention.ms", "1")], E.INVALID_REQUEST),
    (BROKER, NODE, [("foo", "1")], E.INVALID_REQUEST),
    (BROKER, "", [("log.retention.ms", "1")], E.INVALID_REQUEST),
    (BROKER, "77", [], E.INVALID_REQUEST),
    (LOGGER, NODE, [("root", "INFO")], E.INVALID_REQUEST),
    (GROUP, "g", [("consumer.session.timeout.ms", "1")], E.INVALID_REQUEST),
    (0, "", [], E.INVALID_REQUEST),
]


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(("kind", "name", "pairs", "code"), ALTERATION_REFUSALS)
def test_both_ways_of_changing_refuse_the_same(
    client: RawClient,
    topic: str,
    kind: int,
    name: str | None,
    pairs: list[tuple[str, str | None]],
    code: E,
    validate_only: bool,
) -> None:
    resource = topic if name is None else name
    (row,) = alter(client, (kind, resource, pairs), validate_only=validate_only)
    assert (row.error_code, row.resource_type, row.resource_name) == (code, kind, resource)
    assert row.error_message
    changes = [(key, SET, value) for key, value in pairs]
    (row,) = increment(client, (kind, resource, changes), validate_only=validate_only)
    assert (row.error_code, row.resource_type, row.resource_name) == (code, kind, resource)
    assert row.error_message
    assert setting(client, topic, "retention.ms") == "1000000"
    assert setting(client, topic, "flush.ms") == str((1 << 63) - 1)


def test_validating_changes_nothing(client: RawClient, topic: str) -> None:
    assert codes(alter(client, (TOPIC, topic, [("retention.ms", "5")]), validate_only=True)) == [E.NONE]
    assert codes(increment(client, (TOPIC, topic, [("retention.ms", SET, "5")]), validate_only=True)) == [0]
    assert setting(client, topic, "retention.ms") == "1000000"


def test_a_resource_is_changed_once_in_a_request(client: RawClient, topic: str) -> None:
    rows = alter(client, (TOPIC, topic, [("flush.ms", "1")]), (BROKER, NODE, []), (TOPIC, topic, []))
    assert [(row.resource_type, row.error_code) for row in rows] == [
        (TOPIC, E.INVALID_REQUEST),
        (BROKER, E.NONE),
    ]
    rows = increment(client, (TOPIC, topic, []), (TOPIC, topic, []))
    assert codes(rows) == [E.INVALID_REQUEST]
    assert setting(client, topic, "retention.ms") == "1000000"


# --- single settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2))
def test_every_version_changes_single_settings(client: RawClient, topic: str, version: int) -> None:
    (row,) = increment(client, (TOPIC, topic, [("flush.ms", SET, "5")]), version=version)
    assert (row.error_code, row.error_message) == (E.NONE, None)
    assert setting(client, topic, "flush.ms") == "5"
    assert setting(client, topic, "retention.ms") == "1000000"
    (row,) = increment(client, (TOPIC, topic, [("retention.ms", DELETE, None)]), version=version)
    assert row.error_code == E.NONE
    assert setting(client, topic, "retention.ms") == "86400000"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("cleanup.policy", APPEND, "delete"), E.NONE),
        (("cleanup.policy", APPEND, "compact"), E.INVALID_CONFIG),
        (("cleanup.policy", SUBTRACT, "compact"), E.NONE),
        (("retention.ms", APPEND, "1"), E.INVALID_CONFIG),
        (("retention.ms", SUBTRACT, "1"), E.INVALID_CONFIG),
        (("cleanup.policy", APPEND, None), E.INVALID_REQUEST),
        (("retention.ms", DELETE, "whatever"), E.NONE),
        (("foo", DELETE, None), E.NONE),
        (("retention.ms", 4, "1"), E.INVALID_REQUEST),
        (("retention.ms", -1, "1"), E.INVALID_REQUEST),
    ],
)
def test_operations(client: RawClient, topic: str, change: tuple[str, int, str | None], code: E) -> None:
    assert codes(increment(client, (TOPIC, topic, [change]))) == [code]
    assert setting(client, topic, "cleanup.policy") == "delete"


def test_taking_back_what_was_never_set_on_the_broker_is_no_error(client: RawClient) -> None:
    assert codes(increment(client, (BROKER, NODE, [("log.retention.ms", DELETE, None)]))) == [E.NONE]
    assert codes(alter(client, (BROKER, NODE, []))) == [E.NONE]


def test_changes_from_many_at_once_all_count(gateway: Gateway, client: RawClient, topic: str) -> None:
    names = ["flush.ms", "segment.jitter.ms", "delete.retention.ms", "min.compaction.lag.ms"]
    clients = [RawClient((gateway.host, gateway.port)) for _ in names]
    for value in range(100, 110):
        for other, name in zip(clients, names, strict=True):
            assert codes(increment(other, (TOPIC, topic, [(name, SET, str(value))]))) == [E.NONE]
    assert {setting(client, topic, name) for name in names} == {"109"}
    for other in clients:
        other.close()


# --- the effect -----------------------------------------------------------------------------------------


@pytest.fixture
def producer(gateway: Gateway) -> Iterator[Any]:
    made = KafkaProducer(bootstrap_servers=gateway.bootstrap, enable_idempotence=False, retries=0)
    yield made
    made.close()


def test_a_new_limit_holds_at_once(client: RawClient, topic: str, producer: Any) -> None:
    producer.send(topic, b"x" * 5000).get(20)
    assert codes(increment(client, (TOPIC, topic, [("max.message.bytes", SET, "1000")]))) == [E.NONE]
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, b"x" * 5000).get(20)
    assert codes(increment(client, (TOPIC, topic, [("max.message.bytes", DELETE, None)]))) == [E.NONE]
    assert producer.send(topic, b"x" * 5000).get(20).offset == 1


def test_new_retention_drops_what_is_there(client: RawClient, topic: str, producer: Any) -> None:
    for _ in range(3):
        producer.send(topic, b"x").get(20)
    assert earliest(client, topic) == 0
    assert codes(increment(client, (TOPIC, topic, [("retention.ms", SET, "1")]))) == [E.NONE]
    eventually(lambda: earliest(client, topic) == 3)
