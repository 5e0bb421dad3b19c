"""Partitions as commands ask a server about them: where they begin and end, and how large they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from kafka import TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError

from barbicel.cli.server import ServerRefused, refusal_text
from barbicel.codecs.topic_file import render_id

__all__ = ["PartitionRow", "TopicRow", "end_offsets", "read_topics"]

# Unknown, and a name that no topic can have.
NO_TOPIC = (3, 17)


class PartitionRow(NamedTuple):
    """None is what the server does not know of a partition that is offline."""

    partition: int
    start_offset: int | None
    end_offset: int | None
    bytes: int | None

    @property
    def messages(self) -> int | None:
        if self.start_offset is None or self.end_offset is None:
            return None
        return self.end_offset - self.start_offset


class TopicRow(NamedTuple):
    name: str
    id: str
    partitions: list[PartitionRow]

    @property
    def messages(self) -> int:
        return sum(row.messages or 0 for row in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(row.bytes or 0 for row in self.partitions)


def read_topics(admin: Any, names: Collection[str] | None = None) -> list[TopicRow]:
    """All topics, or those that are named. Raises ServerRefused if there is no such topic."""
    described = admin.describe_topics(None if names is None else list(names))
    for topic in described:
        if topic["error_code"]:
            raise ServerRefused(_refusal(topic["name"], topic["error_code"]))
    wanted = {
        TopicPartition(topic["name"], partition["partition_index"])
        for topic in described
        for partition in topic["partitions"]
    }
    starts, ends = _offsets(admin, wanted, OffsetSpec.EARLIEST), end_offsets(admin, wanted)
    sizes = _sizes(admin)
    rows: dict[str, list[PartitionRow]] = {topic["name"]: [] for topic in described}
    for one in sorted(wanted):
        row = PartitionRow(one.partition, starts.get(one), ends.get(one), sizes.get(one))
        rows[one.topic].append(row)
    ids = {topic["name"]: render_id(UUID(topic["topic_id"])) for topic in described}
    return [TopicRow(name, ids[name], rows[name]) for name in sorted(rows)]


def _refusal(name: str, code: int) -> str:
    return f"there is no topic {name}" if code in NO_TOPIC else f"topic {name}: {refusal_text(code)}"


def end_offsets(admin: Any, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Of those that are online."""
    return _offsets(admin, wanted, OffsetSpec.LATEST)


def _offsets(admin: Any, wanted: Collection[TopicPartition], spec: Any) -> dict[TopicPartition, int]:
    if not wanted:
        return {}
    try:
        return _plain(admin.list_partition_offsets(dict.fromkeys(wanted, spec)))
    except KafkaError:
        # One partition that is offline fails all that are asked for with it.
        found: dict[TopicPartition, int] = {}
        for one in wanted:
            found.update(_offsets_of_one(admin, one, spec))
        return found


def _offsets_of_one(admin: Any, one: TopicPartition, spec: Any) -> dict[TopicPartition, int]:
    try:
        return _plain(admin.list_partition_offsets({one: spec}))
    except KafkaError:
        return {}


def _plain(found: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
    return {partition: int(told.offset) for partition, told in found.items()}


def _sizes(admin: Any) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic["name"], partition["partition_index"]): int(partition["partition_size"])
        for broker in admin.describe_log_dirs()
        for directory in broker["log_dirs"]
        for topic in directory["topics"]
        for partition in topic["partitions"]
    }
