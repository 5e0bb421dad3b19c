"""DescribeLogDirs (key 35), versions 1 to 5.

- There is one directory. Null topics means all; a partition that does not exist is left out.
- Needs DESCRIBE on the cluster.
- A partition's size is what its records take, without what is allocated ahead.
- Version 4 answers the file system's size and what is left of it, which waits for the disk; 5 that a
  directory is cordoned, which ours never is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from twisted.python.failure import Failure

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DescribeLogDirsResponse, Message
from barbicel.disk import Space
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import cluster_refusal
from barbicel.gateway.kafka.refusals import error_code_of
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

DirectoryRow = DescribeLogDirsResponse.DescribeLogDirsResult
TopicRow = DirectoryRow.DescribeLogDirsTopic
PartitionRow = TopicRow.DescribeLogDirsPartition
SPACE_SINCE = 4


def respond(call: Call, request: Message) -> Reply:
    if refusal := cluster_refusal(call, Operation.DESCRIBE):
        return DescribeLogDirsResponse(throttle_time_ms=0, error_code=refusal, results=[])
    partitions = _wanted(call, request)
    return gather(call, map(_row, partitions), partial(_finish, call, partitions))


def _finish(call: Call, partitions: list[Partition], rows: list[Message]) -> Reply:
    topics = _topics(partitions, rows)
    if call.version < SPACE_SINCE:
        return _answer(call, topics, None)
    broker = call.broker
    return broker.read_cold(lambda: broker.disk.space(broker.data_directory)).addCallbacks(
        lambda space: _answer(call, topics, space), lambda failure: _failed(call, failure)
    )


def _wanted(call: Call, request: Message) -> list[Partition]:
    if request.topics is None:
        return [partition for topic in call.broker.topics for partition in topic.partitions]
    asked = dict.fromkeys((topic.topic, number) for topic in request.topics for number in topic.partitions)
    found = (call.broker.topics.partition(*one) for one in asked)
    return [partition for partition in found if partition is not None]


def _row(partition: Partition) -> Message:
    return PartitionRow(
        partition_index=partition.number,
        partition_size=partition.log.size_bytes,
        offset_lag=0,
        is_future_key=False,
    )


def _topics(partitions: Iterable[Partition], rows: Iterable[Message]) -> list[Message]:
    by_topic: Mapping[str, list[Message]] = defaultdict(list)
    for partition, row in zip(partitions, rows, strict=True):
        by_topic[partition.topic.name].append(row)
    return [TopicRow(name=name, partitions=rows) for name, rows in by_topic.items()]


def _answer(call: Call, topics: list[Message], space: Space | None) -> Message:
    sizes: dict[str, Any] = {}
    if space is not None:
        sizes = {"total_bytes": space.total_bytes, "usable_bytes": space.usable_bytes}
    return _response(
        DirectoryRow(
            error_code=ErrorCode.NONE,
            log_dir=call.broker.data_directory,
            topics=topics,
            is_cordoned=False,
            **sizes,
        )
    )


def _failed(call: Call, failure: Failure) -> Message:
    """The directory is not there any more, or cannot be read."""
    return _response(
        DirectoryRow(error_code=error_code_of(failure.value), log_dir=call.broker.data_directory, topics=[])
    )


def _response(directory: Message) -> Message:
    return DescribeLogDirsResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, results=[directory])


API = Api(35, "DescribeLogDirs", 1, 5, respond, is_alone=True)
