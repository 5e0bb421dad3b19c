"""Requests, short to write, and the preparations that most conversations begin with. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from barbicel.codecs.kafka.messages import (
    VERSIONS,
    CreateTopicsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    Message,
    MessageClass,
    MetadataRequest,
    ProduceRequest,
)
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from tests.differential.script import Ask, Await, Steps

__all__ = [
    "NO_LABEL",
    "TIME_MS",
    "batch",
    "fetch",
    "list_offsets",
    "metadata",
    "new_producer",
    "new_topic",
    "produce",
    "produced",
    "records",
    "topic",
    "versions",
]

# A step without a label prepares something: its answer is not compared.
NO_LABEL = ""
TIME_MS = 1_700_000_000_000
# A version in which every field has its place: names and ids, and configurations.
BY_NAME = 12


def versions(request: MessageClass) -> range:
    return VERSIONS[request.API_KEY]  # type: ignore[index]  # it is a number


def metadata(*names: str, create: bool = False) -> Message:
    row = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        topics=[row(name=name, topic_id=None) for name in names], allow_auto_topic_creation=create
    )


def topic(name: str, partitions: int = 1, replicas: int = 1, **given: Any) -> Message:
    """A row of CreateTopics."""
    row = CreateTopicsRequest.CreatableTopic
    configs: Mapping[str, str | None] = given.get("configs", {})
    assignments: Mapping[int, Sequence[int]] = given.get("assignments", {})
    return row(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            row.CreatableReplicaAssignment(partition_index=number, broker_ids=list(ids))
            for number, ids in assignments.items()
        ],
        configs=[row.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def new_topic(name: str, partitions: int = 1, **configs: str) -> Steps:
    """Creates it, waits until it can be used, and returns its id."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    request = CreateTopicsRequest(
        topics=[topic(name, partitions, configs=settings)], timeout_ms=10_000, validate_only=False
    )
    made = yield Ask(NO_LABEL, request, 7)
    assert made.topics[0].error_code == 0, made
    known = yield Await(Ask(NO_LABEL, metadata(name), BY_NAME), lambda answer: _is_led(answer, partitions))
    # Its leader has heard of it when it answers for every partition.
    yield Await(Ask(NO_LABEL, list_offsets(name, *[-1] * partitions), 7), _is_found)
    identity = known.topics[0].topic_id
    assert isinstance(identity, UUID)
    return identity


def _is_led(answer: Any, partitions: int) -> bool:
    found = answer.topics[0]
    return len(found.partitions) == partitions and all(row.leader_id >= 0 for row in found.partitions)


def _is_found(answer: Any) -> bool:
    return not any(row.error_code for row in answer.topics[0].partitions)


def list_offsets(name: str, *timestamps: int, epoch: int = -1, **fields: int) -> Message:
    """One partition for each timestamp."""
    row = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        **{"replica_id": -1, "isolation_level": 0, "timeout_ms": 10_000, **fields},
        topics=[
            row(
                name=name,
                partitions=[
                    row.ListOffsetsPartition(
                        partition_index=number, current_leader_epoch=epoch, timestamp=timestamp
                    )
                    for number, timestamp in enumerate(timestamps)
                ],
            )
        ],
    )


def records(count: int = 1, *, start: int = 0, size: int = 5, step_ms: int = 10) -> list[NewRecord]:
    """With times that go up from TIME_MS."""
    return [
        NewRecord(TIME_MS + number * step_ms, b"k%d" % number, b"v%d" % number + b"x" * size)
        for number in range(start, start + count)
    ]


def batch(count: int = 1, **options: Any) -> bytes:
    inside = {name: options.pop(name) for name in ("start", "size", "step_ms") if name in options}
    return build_batch(records(count, **inside), **options)


def produce(
    name: str | UUID, *batches: bytes | None, acks: int = -1, transactional_id: str | None = None
) -> Message:
    """One partition for each batch, beginning with 0."""
    row = ProduceRequest.TopicProduceData
    by = {"topic_id": name} if isinstance(name, UUID) else {"name": name}
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            row(
                **by,
                partition_data=[
                    row.PartitionProduceData(index=number, records=content)
                    for number, content in enumerate(batches)
                ],
            )
        ],
    )


def produced(name: str, *contents: bytes, partition: int = 0) -> Steps:
    """Stores batches, one after the other."""
    for content in contents:
        request = produce(name, content)
        request.topic_data[0].partition_data[0].index = partition
        answer = yield Ask(NO_LABEL, request, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer


def fetch(
    name: str | UUID,
    offsets: Mapping[int, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    session: tuple[int, int] = (0, -1),
    **fields: Any,
) -> Message:
    row = FetchRequest.FetchTopic
    by = {"topic_id": name} if isinstance(name, UUID) else {"topic": name}
    return FetchRequest(
        **{"replica_id": -1, "isolation_level": 0, **fields},
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            row(
                **by,
                partitions=[
                    row.FetchPartition(
                        partition=number,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=-1,
                        log_start_offset=-1,
                        partition_max_bytes=partition_max_bytes,
                    )
                    for number, offset in offsets.items()
                ],
            )
        ],
        forgotten_topics_data=[],
        rack_id="",
    )


def new_producer() -> Steps:
    """Its id."""
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    answer = yield Ask(NO_LABEL, request, 4)
    assert answer.error_code == 0, answer
    return answer.producer_id
