"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords: what works and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from barbicel.codecs.kafka.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    Message,
)
from tests.differential.asking import (
    batch,
    fetch,
    list_offsets,
    metadata,
    new_topic,
    produced,
    topic,
    versions,
)
from tests.differential.script import Ask, Await, Steps, conversations_of

__all__ = ["CONVERSATIONS"]

BY_ID_SINCE, CONFIGS_SINCE = 6, 5
TIMEOUT_MS = 10_000
BAD_NAMES = ("", ".", "..", "a b", "ä", "x" * 250, "a/b")


def _create(*topics: Message, validate_only: bool = False, timeout_ms: int = TIMEOUT_MS) -> Message:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)


def topics_created() -> Steps:
    for version in versions(CreateTopicsRequest):
        name = f"created-{version}"
        settings = {"retention.ms": "1000", "max.message.bytes": "5000"}
        yield Ask(f"created, version {version}", _create(topic(name, 2, configs=settings)), version)
        yield Ask(f"created again, version {version}", _create(topic(name, 2)), version)
        assigned = topic(f"{name}-assigned", -1, -1, assignments={0: [1], 1: [1]})
        yield Ask(f"assigned, version {version}", _create(assigned), version)
        if version >= 4:
            yield Ask(
                f"with defaults, version {version}", _create(topic(f"{name}-defaults", -1, -1)), version
            )
    yield Ask("none", _create(), 7)


def topics_validated() -> Steps:
    for version in versions(CreateTopicsRequest):
        request = _create(topic("validated", 2), validate_only=True)
        yield Ask(f"version {version}", request, version)


def topics_that_cannot_be_created() -> Steps:
    for label, row in _impossible().items():
        yield Ask(label, _create(row), 7)
        yield Ask(f"validated: {label}", _create(row, validate_only=True), 7)
    for name in BAD_NAMES:
        yield Ask(f"bad name {name[:10]!r}", _create(topic(name)), 7)
    yield Ask("named twice", _create(topic("twice"), topic("twice"), topic("once")), 7)
    yield Ask("no time", _create(topic("no-time"), timeout_ms=0), 7)
    yield Ask("a name like another's", _create(topic("like.this")), 7)
    yield Ask("with a dot for a dash", _create(topic("like_this")), 7)


def _impossible() -> dict[str, Any]:
    return {
        "no partitions": topic("impossible", 0),
        "negative partitions": topic("impossible", -2),
        "no copies": topic("impossible", 1, 0),
        "two copies": topic("impossible", 1, 2),
        "negative copies": topic("impossible", 1, -2),
        "an unknown setting": topic("impossible", configs={"no.such.setting": "1"}),
        "a bad value": topic("impossible", configs={"retention.ms": "soon"}),
        "a value out of range": topic("impossible", configs={"retention.ms": "-5"}),
        "no value": topic("impossible", configs={"retention.ms": None}),
        "a bad cleanup policy": topic("impossible", configs={"cleanup.policy": "burn"}),
        "an unknown broker": topic("impossible", -1, -1, assignments={0: [9]}),
        "a broker twice": topic("impossible", -1, -1, assignments={0: [1, 1]}),
        "no broker": topic("impossible", -1, -1, assignments={0: []}),
        "not from 0": topic("impossible", -1, -1, assignments={1: [1]}),
        "a gap": topic("impossible", -1, -1, assignments={0: [1], 2: [1]}),
        "an assignment and a number": topic("impossible", 1, -1, assignments={0: [1]}),
        "an assignment and copies": topic("impossible", -1, 1, assignments={0: [1]}),
    }


def topics_compacted() -> Steps:
    for policy in ("compact", "compact,delete"):
        name = f"compacted-{policy.replace(',', '-')}"
        yield Ask(policy, _create(topic(name, configs={"cleanup.policy": policy})), 2)


def topics_deleted() -> Steps:
    row = DeleteTopicsRequest.DeleteTopicState
    for version in versions(DeleteTopicsRequest):
        names = [f"deleted-{version}", "deleted-none", ""]
        identity = yield from new_topic(names[0])
        request = DeleteTopicsRequest(
            topic_names=names, topics=[row(name=name, topic_id=None) for name in names], timeout_ms=TIMEOUT_MS
        )
        yield Ask(f"by name, version {version}", request, version)
        asked = Ask(f"gone, version {version}", metadata(names[0]), 9)
        yield Await(asked, lambda answer: answer.topics[0].error_code == 3)
        if version >= BY_ID_SINCE:
            identity = yield from new_topic("deleted-by-id")
            for label, topics in (
                ("unknown", [row(name=None, topic_id=UUID(int=8))]),
                ("zero", [row(name=None, topic_id=None)]),
                ("name and id", [row(name="deleted-by-id", topic_id=identity)]),
                ("known", [row(name=None, topic_id=identity)]),
            ):
                by_id = DeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
                yield Ask(f"by id, {label}, version {version}", by_id, version)
    yield from new_topic("deleted-twice")
    twice = DeleteTopicsRequest(topics=[row(name="deleted-twice")] * 2, timeout_ms=TIMEOUT_MS)
    yield Ask("named twice", twice, 6)
    once = DeleteTopicsRequest(topics=[row(name="deleted-twice")], timeout_ms=0)
    yield Ask("no time", once, 6)


def partitions_added() -> Steps:
    for version in versions(CreatePartitionsRequest):
        name = f"added-{version}"
        yield from new_topic(name)
        yield Ask(f"validated, version {version}", _add({name: 3}, validate_only=True), version)
        yield Ask(f"added, version {version}", _add({name: 3}), version)
        yield Await(
            Ask(f"to be seen, version {version}", metadata(name), 9),
            lambda answer: len(answer.topics[0].partitions) == 3,
        )
        for count in (3, 2, 0, -1):
            yield Ask(f"{count} partitions, version {version}", _add({name: count}), version)
        yield Ask(f"unknown topic, version {version}", _add({"added-none": 2, "": 2}), version)
        for label, brokers in (
            ("one", [[1]]),
            ("too many", [[1], [1], [1]]),
            ("unknown", [[9], [9]]),
            ("none", [[], []]),
            ("two", [[1, 2], [1, 2]]),
        ):
            yield Ask(f"assigned: {label}, version {version}", _add({name: 5}, brokers), version)
        yield Ask(f"assigned, version {version}", _add({name: 5}, [[1], [1]]), version)
    twice: Any = _add({"added-0": 9})
    twice.topics *= 2
    yield Ask("named twice", twice, 3)
    late: Any = _add({"added-0": 9})
    late.timeout_ms = 0
    yield Ask("no time", late, 3)


def _add(
    counts: Mapping[str, int], brokers: Sequence[Sequence[int]] | None = None, *, validate_only: bool = False
) -> Message:
    row = CreatePartitionsRequest.CreatePartitionsTopic
    given = (
        None if brokers is None else [row.CreatePartitionsAssignment(broker_ids=list(ids)) for ids in brokers]
    )
    return CreatePartitionsRequest(
        topics=[row(name=name, count=count, assignments=given) for name, count in counts.items()],
        timeout_ms=TIMEOUT_MS,
        validate_only=validate_only,
    )


def records_deleted() -> Steps:
    yield from new_topic("trimmed", 2)
    yield from produced("trimmed", batch(3), batch(3), batch(3))
    for version in versions(DeleteRecordsRequest):
        for offset in (version, version, 0, 100, -2, -3):
            label = f"up to {offset}, version {version}"
            yield Ask(label, _trim("trimmed", {0: offset}), version)
        yield Ask(f"unknown partition, version {version}", _trim("trimmed", {0: 0, 7: 0}), version)
        yield Ask(f"unknown topic, version {version}", _trim("trimmed-none", {0: 0}), version)
    yield Ask("the start", list_offsets("trimmed", -2), 7)
    for offset in (0, 1, 2, 3):
        yield Ask(f"fetched from {offset}", fetch("trimmed", {0: offset}), 12)
    yield Ask("the highest time before it goes", list_offsets("trimmed", -3), 7)
    yield Ask("all", _trim("trimmed", {0: -1, 1: -1}), 2)
    yield Ask("the highest time after all", list_offsets("trimmed", -3), 7)
    yield Ask("any time after all", list_offsets("trimmed", 0), 7)
    yield Ask("the start after all", list_offsets("trimmed", -2, -2), 7)


def _trim(name: str, offsets: Mapping[int, int]) -> Message:
    row = DeleteRecordsRequest.DeleteRecordsTopic
    rows = [row.DeleteRecordsPartition(partition_index=n, offset=offset) for n, offset in offsets.items()]
    return DeleteRecordsRequest(topics=[row(name=name, partitions=rows)], timeout_ms=TIMEOUT_MS)


CONVERSATIONS = conversations_of(
    topics_created,
    topics_validated,
    topics_that_cannot_be_created,
    topics_compacted,
    topics_deleted,
    partitions_added,
    records_deleted,
)
