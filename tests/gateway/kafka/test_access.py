"""Every API under ACLs: refused with Kafka's error, allowed by exactly what Kafka's documents list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barbicel.codecs.kafka import messages as m
from barbicel.codecs.kafka.acls import Operation, Pattern, Permission, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.access import scram
from barbicel.gateway.access.opening import opened_access
from barbicel.gateway.broker.consumption import Position
from barbicel.gateway.broker.topic_errors import InvalidRequest
from barbicel.gateway.kafka.listening import kafka_factory
from barbicel.gateway.kafka.table import TABLE
from tests.gateway.kafka import group_requests as groups
from tests.gateway.kafka.access_cases import (
    CASES,
    CLUSTER_FAILED,
    GROUP_FAILED,
    PLAIN,
    TOPIC_FAILED,
    WHO,
    WITH_ACLS,
    Case,
    Secured,
    acl_filter,
    create_acls,
)
from tests.gateway.kafka.admin_requests import create_request, new_topic
from tests.gateway.kafka.in_memory import batch, in_memory_gateway
from tests.gateway.kafka.requests import fetch, metadata, only, produce

T, G, C = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER
O = Operation  # noqa: E741 - it stands in many lines


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    with in_memory_gateway(tmp_path / "data", **WITH_ACLS) as gateway:
        yield Secured(gateway)


def errors_in(answer: Any) -> set[ErrorCode]:
    """All error codes that are anywhere in an answer."""
    found: set[ErrorCode] = set()
    _collect(answer.to_dict(), found)
    return found - {ErrorCode.NONE}


def _collect(value: Any, found: set[ErrorCode]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith("error_code"):
                found.add(ErrorCode(inner))
            _collect(inner, found)
    elif isinstance(value, list):
        for inner in value:
            _collect(inner, found)


# More than are made at a time.
MANY_ACLS = 300

# Those that everybody may ask; what they tell depends on the client, and is looked at below.
FREE = {16, 17, 18, 36, 60}
ALL_CASES = [
    pytest.param(case, id=f"{TABLE[key].name}-{number}")
    for key in CASES
    for number, case in enumerate(CASES[key])
]
DENIALS = {TOPIC_FAILED, GROUP_FAILED, CLUSTER_FAILED}


def test_every_api_has_its_case() -> None:
    assert set(CASES) | FREE == set(TABLE)


def wanted_name(case: Case, secured: Secured) -> str:
    """Of the topic that the case is about."""
    return "fresh" if "fresh" in str(case.make(secured)) else "t"


def grant(secured: Secured, case: Case, rights: tuple[tuple[Operation, Resource], ...]) -> None:
    for one in rights:
        secured.allow(one, name=wanted_name(case, secured) if one[1] is T else "")


@pytest.mark.parametrize("case", ALL_CASES)
def test_without_rights_it_is_refused_and_changes_nothing(secured: Secured, case: Case) -> None:
    request = case.make(secured)
    before = _state(secured)
    assert errors_in(secured.ask(request, case.version)) == {case.refused}
    assert _state(secured) == before


def test_a_topic_that_may_not_be_created_is_not_there(secured: Secured) -> None:
    assert errors_in(secured.ask(create_request([new_topic("fresh", 1)]), 7)) == {TOPIC_FAILED}
    assert secured.gateway.broker.topics.by_name("fresh") is None


def test_the_log_says_who_changed_what(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    """The client's name, and not its address alone: that may be everybody's."""
    caplog.set_level("INFO")
    secured.access.authorizer = None
    secured.ask(produce(batch(b"x")), 9)
    position = Position(("t", 0), 0, None, "")
    secured.gateway.reactor.result(secured.gateway.broker.offsets.commit("g", [position]))
    for request, version in changes():
        assert errors_in(secured.ask(request, version)) == set()
    who = "User:ANONYMOUS at 10.0.0.1:40000"
    for told in (
        f"topic fresh with 1 partitions, created by {who}",
        f"topic by-itself with 1 partitions, created because {who} asked for it",
        f"topic t has 2 partitions now, asked for by {who}",
        f"topic t, set by {who}: {{'retention.ms': '5000'}}",
        f"t-0, deleted below 1 by {who}",
        f"group g, deleted by {who}",
        f"topic t, deleted by {who}",
    ):
        assert told in caplog.messages


def changes() -> Iterator[tuple[Any, int]]:
    """One of each kind, and the versions to ask in."""
    yield create_request([new_topic("fresh", 1)]), 7
    yield metadata("by-itself"), 9
    row: Any = m.CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=2, assignments=None)
    yield m.CreatePartitionsRequest(topics=[row], timeout_ms=1000, validate_only=False), 3
    row = m.AlterConfigsRequest.AlterConfigsResource
    row = row(
        resource_type=2, resource_name="t", configs=[row.AlterableConfig(name="retention.ms", value="5000")]
    )
    yield m.AlterConfigsRequest(resources=[row], validate_only=False), 2
    row = m.DeleteRecordsRequest.DeleteRecordsTopic
    row = row(name="t", partitions=[row.DeleteRecordsPartition(partition_index=0, offset=1)])
    yield m.DeleteRecordsRequest(topics=[row], timeout_ms=1000), 2
    yield m.DeleteGroupsRequest(groups_names=["g"]), 2
    row = m.DeleteTopicsRequest.DeleteTopicState(name="t", topic_id=None)
    yield m.DeleteTopicsRequest(topics=[row], topic_names=[], timeout_ms=1000), 6


def _state(secured: Secured) -> Any:
    broker = secured.gateway.broker
    return (
        [(topic.name, [one.end_offset for one in topic.partitions]) for topic in broker.topics],
        sorted(broker.offsets.groups()),
        secured.access.acls.acls,
        dict(secured.access.users.credentials),
        dict(secured.access.quotas.quotas),
    )


@pytest.mark.parametrize("case", ALL_CASES)
def test_what_is_enough_is_enough_and_nothing_less(secured: Secured, case: Case) -> None:
    for rights in case.enough:
        for missing in rights:
            grant(secured, case, tuple(one for one in rights if one != missing))
            assert errors_in(secured.ask(case.make(secured), case.version)) & DENIALS, (rights, missing)
            secured.forbid_all()
    rights = case.enough[-1]
    grant(secured, case, rights)
    assert not errors_in(secured.ask(case.make(secured), case.version)) & DENIALS, rights


@pytest.mark.parametrize("case", ALL_CASES)
def test_each_way_is_enough(secured: Secured, case: Case) -> None:
    for rights in case.enough[:-1]:
        grant(secured, case, rights)
        assert not errors_in(secured.ask(case.make(secured), case.version)) & DENIALS, rights
        if TABLE[secured_key(case)].name in ("DeleteTopics", "CreateTopics", "Metadata"):
            return  # it has changed what there is
        secured.forbid_all()


def secured_key(case: Case) -> int:
    return next(key for key, cases in CASES.items() if case in cases)


@pytest.mark.parametrize("case", ALL_CASES)
def test_deny_wins(secured: Secured, case: Case) -> None:
    rights = case.enough[0]
    grant(secured, case, rights)
    for _, resource in rights:
        name = wanted_name(case, secured) if resource is T else ""
        secured.allow((Operation.ALL, resource), permission=Permission.DENY, name=name)
    assert errors_in(secured.ask(case.make(secured), case.version)) & DENIALS


def test_a_revoked_acl_does_not_hold_any_more(secured: Secured) -> None:
    secured.allow((O.WRITE, T))
    assert not errors_in(secured.ask(produce(batch(b"x")), 9))
    secured.forbid_all()
    assert errors_in(secured.ask(produce(batch(b"x")), 9)) == {TOPIC_FAILED}


# --- what is shown ----------------------------------------------------------------------------------------


def test_a_list_shows_what_the_client_may_see(secured: Secured) -> None:
    secured.gateway.create("hidden")
    assert secured.ask(metadata(everything=True), 9).topics == []
    secured.allow((O.READ, T))
    assert [topic.name for topic in secured.ask(metadata(everything=True), 9).topics] == ["t"]
    everything = m.DescribeTopicPartitionsRequest(topics=[], response_partition_limit=10, cursor=None)
    assert [topic.name for topic in secured.ask(everything, 0).topics] == ["t"]


def test_an_id_tells_nothing_to_those_who_may_not_know(secured: Secured) -> None:
    asked = m.MetadataRequest(
        topics=[m.MetadataRequest.MetadataRequestTopic(name=None, topic_id=secured.topic_id)],
        allow_auto_topic_creation=False,
    )
    row = only(secured.ask(asked, 12).topics)
    assert (row.error_code, row.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    by_id = m.DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=secured.topic_id)
    deletion = m.DeleteTopicsRequest(topics=[by_id], topic_names=[], timeout_ms=1000)
    row = only(secured.ask(deletion, 6).responses)
    assert (row.error_code, row.name) == (TOPIC_FAILED, None)


def test_topics_that_there_are_not_look_like_those_that_one_may_not_see(secured: Secured) -> None:
    for request, version in ((produce(batch(b"x"), topic="none"), 9), (fetch(0, topic="none"), 12)):
        assert errors_in(secured.ask(request, version)) == {TOPIC_FAILED}
    assert errors_in(secured.ask(metadata("none"), 9)) == {TOPIC_FAILED}


def test_groups_are_listed_for_those_who_may_describe_them(secured: Secured) -> None:
    secured.allow((O.READ, T), (O.READ, G))
    assert not errors_in(secured.ask(groups.commit("g", "t", {0: 0}), 8))
    listed = m.ListGroupsRequest(states_filter=[], types_filter=[])
    assert [group.group_id for group in secured.ask(listed, 4).groups] == ["g"]
    secured.forbid_all()
    assert secured.ask(listed, 4).groups == []
    secured.allow((O.DESCRIBE, C))
    assert [group.group_id for group in secured.ask(listed, 4).groups] == ["g"]


def test_what_one_may_do_is_told(secured: Secured) -> None:
    asked = metadata("t")
    asked.include_topic_authorized_operations = asked.include_cluster_authorized_operations = True
    secured.allow((O.READ, T))
    answer = secured.ask(asked, 9)
    assert set(only(answer.topics).authorized_operations) == {O.READ, O.DESCRIBE}
    assert not answer.authorized_operations
    secured.allow((O.DESCRIBE, C), (O.CREATE, C))
    assert set(secured.ask(asked, 9).authorized_operations) == {O.DESCRIBE, O.CREATE}
    cluster = m.DescribeClusterRequest(include_cluster_authorized_operations=True, endpoint_type=1)
    assert set(secured.ask(cluster, 1).authorized_operations) == {O.DESCRIBE, O.CREATE}


def test_settings_of_a_new_topic_are_told_to_those_who_may_know(secured: Secured) -> None:
    secured.allow((O.CREATE, C))
    row = only(secured.ask(create_request([new_topic("fresh", 1)]), 7).topics)
    assert (row.error_code, row.topic_config_error_code) == (ErrorCode.NONE, TOPIC_FAILED)
    assert row.configs is None


def test_cve_2018_1288_nobody_fetches_as_a_replica(secured: Secured) -> None:
    secured.allow((O.ALL, T), (O.ALL, C))
    assert secured.ask(fetch(0, replica_id=1), 12).error_code == CLUSTER_FAILED


def test_cve_2018_17196_a_transactional_id_is_no_way_around(secured: Secured) -> None:
    answer = secured.ask(produce(batch(b"x"), transactional_id="tx"), 9)
    assert errors_in(answer) == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}


def test_telemetry_whose_size_cannot_be_checked_is_not_advertised() -> None:
    assert not {71, 72} & set(TABLE)


def test_who_is_refused_is_in_the_log(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    secured.ask(produce(batch(b"x")), 9)
    assert "10.0.0.1:40000, User:ANONYMOUS may not WRITE TOPIC t" in caplog.text


# --- ACLs as clients manage them --------------------------------------------------------------------------


def test_acls_come_and_go_and_survive_a_restart(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**WITH_ACLS, "super_users": WHO}
    with in_memory_gateway(tmp_path / "data", **settings) as gateway:
        secured = Secured(gateway)
        assert not errors_in(secured.ask(create_acls(secured), 3))
    with in_memory_gateway(tmp_path / "data", **settings) as gateway:
        access = opened_access(gateway.broker)
        gateway.server = kafka_factory(gateway.server, PLAIN, access)
        client = gateway.connect()
        asked = acl_filter(m.DescribeAclsRequest)
        asked.resource_type_filter, asked.resource_name_filter = Resource.ANY, None
        asked.pattern_type_filter = Pattern.ANY
        row = only(client.ask(asked, 3).resources)
        assert (row.resource_type, row.resource_name, row.pattern_type) == (2, "other", 3)
        assert [(acl.principal, acl.host, acl.operation) for acl in row.acls] == [("User:x", "*", 3)]
        filter_ = acl_filter(m.DeleteAclsRequest.DeleteAclsFilter)
        filter_.resource_type_filter, filter_.resource_name_filter = Resource.TOPIC, "other"
        deleted = client.ask(m.DeleteAclsRequest(filters=[filter_]), 3)
        assert [acl.principal for acl in only(deleted.filter_results).matching_acls] == ["User:x"]
        assert client.ask(asked, 3).resources == []


@pytest.mark.parametrize("field", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
def test_an_acl_that_cannot_be_is_refused_alone(tmp_path: Path, field: str) -> None:
    with in_memory_gateway(tmp_path / "data", **WITH_ACLS, super_users=WHO) as gateway:
        secured = Secured(gateway)
        for value in (0, 1, 99):
            good, bad = create_acls(secured).creations[0], create_acls(secured).creations[0]
            setattr(bad, field, value)
            answer = secured.ask(m.CreateAclsRequest(creations=[bad, good]), 3)
            assert [row.error_code for row in answer.results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]


def test_many_acls_come_and_go(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", **WITH_ACLS, super_users=WHO) as gateway:
        secured = Secured(gateway)
        rows = [only(create_acls(secured).creations) for _ in range(MANY_ACLS)]
        for number, row in enumerate(rows):
            row.resource_name = f"topic-{number:03}"
        every = acl_filter(m.DeleteAclsRequest.DeleteAclsFilter)
        every.resource_type_filter, every.resource_name_filter = Resource.TOPIC, None
        every.pattern_type_filter = Pattern.ANY
        created = secured.ask(m.CreateAclsRequest(creations=rows), 3).results
        assert [row.error_code for row in created] == [ErrorCode.NONE] * MANY_ACLS
        deleted = secured.ask(m.DeleteAclsRequest(filters=[every]), 3)
        matching = only(deleted.filter_results).matching_acls
        assert [acl.resource_name for acl in matching] == [row.resource_name for row in rows]
        assert not secured.access.acls.acls


def test_no_more_acls_are_taken_than_the_next_start_reads(tmp_path: Path) -> None:
    """Otherwise the server would answer them, and never start again."""
    settings: dict[str, Any] = {**WITH_ACLS, "super_users": WHO}
    with in_memory_gateway(tmp_path / "data", **settings) as gateway:
        secured = Secured(gateway)
        assert not errors_in(secured.ask(create_acls(secured), 3))
        before = secured.access.acls.acls
        fresh = {
            before_._replace(name="\U0001f600" * 990 + str(number))
            for before_ in before
            for number in range(1500)
        }
        refused = secured.access.change_acls(gateway.broker.change, created=list(fresh))
        with pytest.raises(InvalidRequest, match="larger than 16777216 bytes"):
            gateway.reactor.result(refused)
        assert secured.access.acls.acls == before
    with in_memory_gateway(tmp_path / "data", **settings) as gateway:
        assert opened_access(gateway.broker).acls.acls == before


def test_making_keys_needs_the_right_to(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are made of every row of a request, and one of 2 MiB has tens of thousands."""
    made: list[object] = []
    monkeypatch.setattr(scram, "credential_of_salted_password", lambda *given: made.append(given))
    (case,) = CASES[51]
    assert errors_in(secured.ask(case.make(secured), case.version)) == {CLUSTER_FAILED}
    assert not made


def test_a_fetch_that_waits_gives_nothing_to_whom_it_was_revoked(secured: Secured) -> None:
    """It may wait for days: max_wait_ms is the client's choice."""
    secured.allow((O.READ, T), (O.WRITE, T))
    end = secured.gateway.broker.topics.by_name("t")
    assert end is not None
    waiting = secured.gateway.connect(port=2)
    waiting.send(fetch(end.partitions[0].end_offset, max_wait_ms=86_400_000, min_bytes=1), 12)
    assert not waiting.has_answer
    secured.forbid_all()
    secured.allow((O.WRITE, T))
    assert not errors_in(secured.ask(produce(batch(b"secret")), 9))
    answer = waiting.answer()
    assert errors_in(answer) == {TOPIC_FAILED}
    assert not only(only(answer.responses).partitions).records
