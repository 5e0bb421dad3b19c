"""Requests of the hot path and the questions about it, short enough for a line of a test."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.record_batch import walk_batches
from barbicel.codecs.kafka.records import decode_records

__all__ = ["fetch", "list_offsets", "metadata", "offsets_of", "only", "produce", "produced", "values_of"]

NO_ID = UUID(int=0)
MAX_BYTES = 1 << 30


def produce(
    *batches: bytes | None,
    topic: str = "t",
    topic_id: UUID = NO_ID,
    acks: int = -1,
    transactional_id: str | None = None,
    partitions: range | list[int] | None = None,
) -> Any:
    """One batch a partition, for partitions 0, 1, ... or those given."""
    kind = messages.ProduceRequest.TopicProduceData
    numbers = range(len(batches)) if partitions is None else partitions
    rows = [
        kind.PartitionProduceData(index=index, records=batch)
        for index, batch in zip(numbers, batches, strict=True)
    ]
    return messages.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[kind(name=topic, topic_id=topic_id, partition_data=rows)],
    )


def fetch(
    *offsets: int,
    topic: str = "t",
    topic_id: UUID = NO_ID,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = MAX_BYTES,
    partition_max_bytes: int = MAX_BYTES,
    partitions: list[int] | None = None,
    **more: Any,
) -> Any:
    """From these offsets of partitions 0, 1, ... or of those given."""
    kind = messages.FetchRequest.FetchTopic
    epoch = more.pop("current_leader_epoch", -1)
    rows = [
        kind.FetchPartition(
            partition=number,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=partition_max_bytes,
        )
        for number, offset in zip(partitions or range(len(offsets)), offsets, strict=True)
    ]
    fields: dict[str, Any] = {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [kind(topic=topic, topic_id=topic_id, partitions=rows)],
        "forgotten_topics_data": [],
        "rack_id": "",
        **more,
    }
    return messages.FetchRequest(**fields)


def list_offsets(
    *timestamps: int, topic: str = "t", partition: int = 0, current_leader_epoch: int = -1
) -> Any:
    kind = messages.ListOffsetsRequest.ListOffsetsTopic
    rows = [
        kind.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=current_leader_epoch, timestamp=timestamp
        )
        for timestamp in timestamps
    ]
    return messages.ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[kind(name=topic, partitions=rows)], timeout_ms=1000
    )


def metadata(*names: str, everything: bool = False, allow_auto_topic_creation: bool = True) -> Any:
    kind = messages.MetadataRequest.MetadataRequestTopic
    return messages.MetadataRequest(
        topics=None if everything else [kind(name=name, topic_id=NO_ID) for name in names],
        allow_auto_topic_creation=allow_auto_topic_creation,
    )


def only(rows: Any) -> Any:
    (row,) = rows
    return row


def produced(answer: Any) -> list[Any]:
    """The rows of a produce's one topic."""
    return list(only(answer.responses).partition_responses)


def values_of(row: Any) -> list[bytes | None]:
    """The values in a fetched partition."""
    return [record.value for batch in _batches(row) for record in decode_records(batch, max_bytes=MAX_BYTES)]


def offsets_of(row: Any) -> list[int]:
    return [record.offset for batch in _batches(row) for record in decode_records(batch, max_bytes=MAX_BYTES)]


def _batches(row: Any) -> list[memoryview]:
    return [batch.data for batch in walk_batches(memoryview(bytes(row.records or b"")))]
