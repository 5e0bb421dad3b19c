"""What administrators are refused is in the log, with who asked and why."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Any

import pytest

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.error_codes import ErrorCode
from tests.gateway.kafka.in_memory import Gateway, in_memory_gateway
from tests.gateway.kafka.requests import metadata, only
from tests.support.fault_disk import FaultDisk


def create(*names: str) -> Any:
    kind = messages.CreateTopicsRequest.CreatableTopic
    topics = [
        kind(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    return messages.CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=False)


def delete() -> Any:
    return messages.DeleteTopicsRequest(topic_names=["none"], timeout_ms=1000)


def add_partitions() -> Any:
    kind = messages.CreatePartitionsRequest.CreatePartitionsTopic
    return messages.CreatePartitionsRequest(
        topics=[kind(name="none", count=3, assignments=None)], timeout_ms=1000, validate_only=False
    )


def alter() -> Any:
    kind = messages.AlterConfigsRequest.AlterConfigsResource
    return messages.AlterConfigsRequest(
        resources=[kind(resource_type=2, resource_name="none", configs=[])], validate_only=False
    )


def alter_some() -> Any:
    kind = messages.IncrementalAlterConfigsRequest.AlterConfigsResource
    return messages.IncrementalAlterConfigsRequest(
        resources=[kind(resource_type=2, resource_name="none", configs=[])], validate_only=False
    )


def delete_groups() -> Any:
    return messages.DeleteGroupsRequest(groups_names=["none"])


def delete_records() -> Any:
    kind = messages.DeleteRecordsRequest.DeleteRecordsTopic
    rows = [kind.DeleteRecordsPartition(partition_index=7, offset=0)]
    return messages.DeleteRecordsRequest(topics=[kind(name="none", partitions=rows)], timeout_ms=1000)


REFUSED: list[tuple[Callable[[], Any], int, str]] = [
    (lambda: create("a b"), 5, "CreateTopics refused for 'a b': "),
    (delete, 4, "DeleteTopics refused for 'none': there is no such topic"),
    (add_partitions, 1, "CreatePartitions refused for 'none': "),
    (alter, 1, "AlterConfigs refused for 'none': "),
    (alter_some, 0, "IncrementalAlterConfigs refused for 'none': "),
    (delete_groups, 1, "DeleteGroups refused for 'none': GROUP_ID_NOT_FOUND"),
    (delete_records, 1, "DeleteRecords refused for '7': UNKNOWN_TOPIC_OR_PARTITION"),
]


def notes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.endswith("client_notes")]


@pytest.mark.parametrize(("request_of", "version", "line"), REFUSED)
def test_every_refusal_is_told(
    gateway: Gateway,
    request_of: Callable[[], Any],
    version: int,
    line: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    gateway.connect().ask(request_of(), version)
    assert only(notes(caplog)).startswith(f"10.0.0.1:40000, {line}")


def test_many_refusals_are_one_short_line(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    client = gateway.connect()
    for _ in range(3):
        client.ask(create(*("?" * 30_000 + str(number) for number in range(5))), 5)
    line = only(notes(caplog))
    assert line.endswith(", and 4 more")
    assert len(line) < 400


def test_nothing_is_told_of_what_is_done(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    gateway.connect().ask(create("a", "b"), 5)
    assert notes(caplog) == []


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_a_disk_that_fails_is_a_warning(is_asked_for: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Without a line nobody would know that the server has run out of files."""
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        disk.fail("open", errno.EMFILE, path_contains="t-")
        client = gateway.connect()
        answer = client.ask(create("t") if is_asked_for else metadata("t"), 5)
        assert only(answer.topics).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    line = only(notes(caplog))
    assert "10.0.0.1:40000" in line
    assert "EMFILE" in line or "Too many open files" in line
