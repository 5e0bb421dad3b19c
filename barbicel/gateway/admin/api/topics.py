"""GET /api/topics, /api/topics/<name>: topics, their partitions, their segments, how much goes in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barbicel.codecs.topic_file import render_id
from barbicel.gateway.admin.api.paging import take_page
from barbicel.gateway.admin.exchange import Asked, Refusal
from barbicel.gateway.admin.history import History
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.broker.topic_settings import describe_settings
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.kestrel_compat.names import is_reserved_group, queue_of

if TYPE_CHECKING:
    from barbicel.gateway.admin.api.tier import TierApi

__all__ = ["TopicsApi", "find_topic"]

# Of a partition's segments the newest are told.
MAX_SEGMENTS = 200


def find_topic(broker: Broker, name: str) -> OpenTopic:
    """Raises Refusal."""
    topic = broker.topics.by_name(name)
    if topic is None:
        raise Refusal(404, "there is no such topic")
    return topic


class TopicsApi:
    def __init__(self, broker: Broker, history: History, tier: TierApi | None) -> None:
        """`tier` knows what is in an object store; without one nothing is."""
        self._broker = broker
        self._history = history
        self._tier = tier

    async def list_topics(self, asked: Asked) -> dict[str, Any]:
        topics, page = take_page(asked, self._matching(asked.query.get("search", "")))
        return {"topics": [self.row(topic) for topic in topics], **page.about()}

    def _matching(self, text: str) -> list[OpenTopic]:
        return [topic for topic in self._broker.topics if text in topic.name]

    async def show_topic(self, asked: Asked) -> dict[str, Any]:
        topic = find_topic(self._broker, asked.names["name"])
        return {
            **self.row(topic),
            "partition_rows": [self._partition_row(partition) for partition in topic.partitions],
            "settings": [
                {"name": row.name, "value": row.value, "origin": row.source.name.lower(), "doc": row.doc}
                for row in describe_settings(topic.topic.settings, self._broker.config)
            ],
            "groups": self._groups_of(topic),
            "series": self.series(topic.name),
        }

    def row(self, topic: OpenTopic) -> dict[str, Any]:
        online = [partition for partition in topic.partitions if not partition.is_offline]
        return {
            "name": topic.name,
            "id": render_id(topic.topic.id),
            "partitions": len(topic.partitions),
            "messages": sum([one.end_offset - one.start_offset for one in online]),
            "size_bytes": sum([one.log.size_bytes for one in online]),
            "is_queue": topic.values.is_queue,
            "queue": queue_of(topic.name) if self._has_queue(topic.name) else None,
            "rates": self._history.rates(topic.name)._asdict(),
            "recent": self._history.recent(topic.name),
            "not_writable": [one.number for one in topic.partitions if not one.is_writable],
        }

    def _has_queue(self, name: str) -> bool:
        return any(map(is_reserved_group, self._broker.offsets.groups_of((name, 0))))

    def series(self, name: str) -> list[dict[str, float]]:
        return [{"time_ms": time_ms, **rates._asdict()} for time_ms, rates in self._history.series(name)]

    def _groups_of(self, topic: OpenTopic) -> list[str]:
        offsets = self._broker.offsets
        places = [(topic.name, partition.number) for partition in topic.partitions]
        found = {group for place in places for group in offsets.groups_of(place)}
        return sorted(group for group in found if not is_reserved_group(group))

    def _partition_row(self, partition: Partition) -> dict[str, Any]:
        if partition.is_offline:
            return {"partition": partition.number, "is_offline": True, "is_writable": False, "segments": []}
        segments = self._segments(partition)
        return {
            "partition": partition.number,
            "is_offline": False,
            "is_writable": partition.is_writable,
            "start_offset": partition.start_offset,
            "local_start_offset": partition.log.start_offset,
            "end_offset": partition.end_offset,
            "size_bytes": partition.log.size_bytes,
            "unsynced_offsets": partition.log.unsynced_offsets,
            "tail_bytes": partition.tail.held_bytes,
            "damage": [str(damage) for damage in partition.log.damage],
            "segment_count": len(segments),
            "segments": segments[-MAX_SEGMENTS:],
        }

    def _segments(self, partition: Partition) -> list[dict[str, Any]]:
        """The oldest first; the last one is being written."""
        sealed = partition.log.segments
        base_offset = sealed[-1].end_offset if sealed else partition.log.start_offset
        active_bytes = partition.log.size_bytes - sum([segment.log_bytes for segment in sealed])
        return [
            *self._in_store(partition),
            *(self._local(partition, one.base_offset, one.end_offset, one.log_bytes) for one in sealed),
            {**self._local(partition, base_offset, partition.end_offset, active_bytes), "is_active": True},
        ]

    def _local(self, partition: Partition, base_offset: int, end_offset: int, size: int) -> dict[str, Any]:
        """`tier` is where it is besides this disk."""
        tier = None if self._tier is None else self._tier.place_of_segment(partition, base_offset)
        row = _segment_row(base_offset, end_offset, size)
        return {**row, "is_local": True, "is_active": False, "tier": tier}

    def _in_store(self, partition: Partition) -> list[dict[str, Any]]:
        if self._tier is None:
            return []
        return [
            {**_segment_row(*segment), "is_local": False, "is_active": False, "tier": "store"}
            for segment in self._tier.segments_in_store(partition)
        ]


def _segment_row(base_offset: int, end_offset: int, size_bytes: int) -> dict[str, Any]:
    return {"base_offset": base_offset, "end_offset": end_offset, "size_bytes": size_bytes}
