"""The offsets that Spark keeps in a stream's checkpoint.

    {"orders": {"0": 4711, "1": 815}, "@ids": {"orders": "ASNFZ4mrze8BI0VniavN7w"}}

The topics are as in the connector's JSON, and can be given as startingOffsets. The ids tell a topic that was
deleted and created again from the one that was read; no topic's name has an @.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from barbicel.pipeline.source.places import Place

__all__ = ["StreamOffsets"]

IDS = "@ids"


@dataclass(frozen=True)
class StreamOffsets:
    """The first offset that was not read, of each partition."""

    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, places: Iterable[Place], offsets: Mapping[tuple[str, int], int]) -> StreamOffsets:
        return cls(offsets, {place.topic: place.topic_id for place in places if place.topic_id})

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> StreamOffsets:
        offsets = {
            (topic, int(partition)): int(offset)
            for topic, partitions in content.items()
            if topic != IDS
            for partition, offset in partitions.items()
        }
        return cls(offsets, dict(content.get(IDS, {})))

    def render(self) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            content.setdefault(topic, {})[str(partition)] = offset
        if self.topic_ids:
            content[IDS] = dict(sorted(self.topic_ids.items()))
        return content

    def is_same_topic(self, place: Place) -> bool:
        return self.topic_ids.get(place.topic, place.topic_id) == place.topic_id
