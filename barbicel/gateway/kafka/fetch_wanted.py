"""What a fetch wants of one partition: whether it may have it, and how much of it is there.

As Kafka does, a partition that is named several times counts once: in the place of the first, with what the
last one says.
"""

from __future__ import annotations

from collections.abc import Callable

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.fetch import FetchPartition, FetchPartitionResult, FetchRequest, FetchTopic
from barbicel.gateway.broker.partition import LEADER_EPOCH, Partition
from barbicel.gateway.broker.topics import Topics

__all__ = ["UNKNOWN", "Wanted", "find_wanted"]

READ_COMMITTED = 1
UNKNOWN = -1


class Wanted:
    """It waits in the partition for its fetch. There may be no such partition, then `unknown` says so."""

    __slots__ = (
        "_unknown",
        "asked",
        "available_bytes",
        "offset",
        "partition",
        "topic",
        "was_found",
        "woken",
    )

    def __init__(self, topic: int, asked: FetchPartition, partition: Partition | None, unknown: int) -> None:
        # The topic's place in the request.
        self.topic = topic
        self.asked = asked
        self.partition = partition
        # Whether there was such a partition, to be read by this client, when it was asked for.
        self.was_found = partition is not None
        self._unknown = unknown
        # Where to read: further than asked for, if a repair gave up what is between.
        self.offset = asked.fetch_offset
        self.available_bytes = 0
        # For as long as the fetch waits.
        self.woken: Callable[[Wanted], None] | None = None

    def wake(self) -> None:
        """Something was appended, or the topic was deleted."""
        if self.woken is not None:
            self.woken(self)

    def wait(self, woken: Callable[[Wanted], None]) -> None:
        self.woken = woken
        if self.partition is not None:
            self.partition.waiters.add(self)

    def stop_waiting(self) -> None:
        self.woken = None
        if self.partition is not None:
            self.partition.waiters.discard(self)

    def deny(self) -> None:
        """The client may not read it any more."""
        self.stop_waiting()
        self.partition, self._unknown = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def error_code(self, topics: Topics) -> int:
        partition = self.partition
        if partition is None or topics.partition(partition.topic.name, partition.number) is not partition:
            return self._unknown  # or it was deleted while this waited
        if self.asked.current_leader_epoch > LEADER_EPOCH:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if not partition.start_offset <= self.asked.fetch_offset <= partition.end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        return ErrorCode.NONE

    def result(self, topics: Topics, isolation_level: int) -> FetchPartitionResult:
        """Without records."""
        error, number = self.error_code(topics), self.asked.partition
        # Kafka has no list at all for those who did not ask for one.
        aborted = () if isolation_level == READ_COMMITTED else None
        if self.partition is None or error == self._unknown:
            return FetchPartitionResult(number, error, UNKNOWN, aborted_transactions=())
        if error:
            return FetchPartitionResult(number, error, UNKNOWN, aborted_transactions=aborted)
        start, end = self.partition.start_offset, self.partition.end_offset
        return FetchPartitionResult(number, error, end, end, start, aborted)

    @property
    def is_cold(self) -> bool:
        """What is next has to come from the disk."""
        partition = self.partition
        return (
            partition is not None
            and self.offset < partition.end_offset
            and not partition.is_in_tail(self.offset)
        )

    def count(self) -> int:
        """How many more bytes are in memory than at the last count."""
        assert self.partition is not None
        before = self.available_bytes
        self.available_bytes = self.partition.available_bytes(self.offset, self.asked.partition_max_bytes)
        return self.available_bytes - before


def find_wanted(
    topics: Topics, request: FetchRequest, may_read: Callable[[str], bool] | None = None
) -> list[Wanted]:
    """`may_read` says of which topics; without it of all."""
    rows: dict[tuple[str | None, bytes | None, int], tuple[int, FetchTopic, FetchPartition]] = {}
    for number, topic in enumerate(request.topics):
        for asked in topic.partitions:
            key = topic.name, topic.topic_id, asked.partition
            first = rows.get(key)
            rows[key] = (number if first is None else first[0]), topic, asked
    return [_find(topics, may_read, *row) for row in rows.values()]


def _find(
    topics: Topics,
    may_read: Callable[[str], bool] | None,
    number: int,
    named: FetchTopic,
    asked: FetchPartition,
) -> Wanted:
    topic = topics.find(named.name, named.topic_id)
    name = named.name if topic is None else topic.name
    if may_read is not None and name is not None and not may_read(name):
        return Wanted(number, asked, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic is None or not 0 <= asked.partition < len(topic.partitions):
        partition = None
    else:
        partition = topic.partitions[asked.partition]
    is_by_id = named.topic_id is not None and (topic is None or partition is not None)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if is_by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return Wanted(number, asked, partition, unknown)
