"""Answers as nested values that can be compared: without what no two servers have in common. Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from barbicel.codecs.kafka.messages import Message
from barbicel.codecs.kafka.record_batch import BATCH_HEADER_BYTES, HEADER, UNCOUNTED_BYTES, BatchHeader
from tests.differential.talk import Said

__all__ = ["NORMALISED", "UNORDERED", "Names", "plain"]

HIDDEN = "…"
ADDRESS = "an address"
# Slow machines included, a conversation does not take longer.
NOW_MS = 600_000


class Names:
    """Ids that a server gives out, by the order in which a conversation sees them."""

    def __init__(self) -> None:
        self._names: dict[str, dict[Any, str]] = {}

    def of(self, kind: str, value: Any) -> Any:
        if value in (None, "", -1):
            return value
        known = self._names.setdefault(kind, {})
        return known.setdefault(value, f"{kind} {len(known) + 1}")


Normaliser: TypeAlias = Callable[[Any, Names], Any]


def _hidden(value: Any, _: Names) -> Any:
    return value if value in (None, "") else HIDDEN


def _address(value: Any, _: Names) -> Any:
    """Whoever asks a server in a container comes from elsewhere."""
    return ADDRESS if re.fullmatch(r"/[0-9]+(\.[0-9]+){3}", value) else value


def _named(kind: str) -> Normaliser:
    return lambda value, names: names.of(kind, value)


def _time(value: Any, _: Names) -> Any:
    return "now" if abs(time.time() * 1000 - value) < NOW_MS else value


def _batches(value: bytes | None, _: Names) -> Any:
    """The headers of whole batches with their records, and how many bytes of a cut one there are."""
    if value is None:
        return None
    batches: list[Any] = []
    position = 0
    while len(value) - position >= BATCH_HEADER_BYTES:
        head = BatchHeader._make(HEADER.unpack_from(value, position))
        end = position + UNCOUNTED_BYTES + head.batch_length
        if end > len(value):
            break
        batches.append({**head._asdict(), "records": value[position + BATCH_HEADER_BYTES : end].hex()})
        position = end
    return {"batches": batches, "cut_bytes": len(value) - position}


_TOPIC_ID, _MEMBER, _PRODUCER = _named("topic id"), _named("member"), _named("producer")

# (API or "*", field path) → how it is made comparable.
NORMALISED: Mapping[tuple[str, str], Normaliser] = {
    ("*", "throttle_time_ms"): _hidden,
    ("*", "cluster_id"): _hidden,
    ("*", "brokers.host"): _hidden,
    ("*", "brokers.port"): _hidden,
    ("*", "node_endpoints.port"): _hidden,
    ("*", "topics.topic_id"): _TOPIC_ID,
    ("*", "responses.topic_id"): _TOPIC_ID,
    ("*", "groups.topics.topic_id"): _TOPIC_ID,
    ("DeleteTopics", "responses.topic_id"): _TOPIC_ID,
    ("Produce", "responses.partition_responses.log_append_time_ms"): _time,
    ("Fetch", "responses.partitions.records"): _batches,
    ("FindCoordinator", "host"): _hidden,
    ("FindCoordinator", "port"): _hidden,
    ("FindCoordinator", "coordinators.host"): _hidden,
    ("FindCoordinator", "coordinators.port"): _hidden,
    ("JoinGroup", "leader"): _MEMBER,
    ("JoinGroup", "member_id"): _MEMBER,
    ("JoinGroup", "members.member_id"): _MEMBER,
    ("LeaveGroup", "members.member_id"): _MEMBER,
    ("DescribeGroups", "groups.members.member_id"): _MEMBER,
    ("DescribeGroups", "groups.members.client_host"): _address,
    ("InitProducerId", "producer_id"): _PRODUCER,
    ("DescribeProducers", "topics.partitions.active_producers.producer_id"): _PRODUCER,
    ("DescribeLogDirs", "results.log_dir"): _hidden,
    ("DescribeLogDirs", "results.total_bytes"): _hidden,
    ("DescribeLogDirs", "results.usable_bytes"): _hidden,
    ("DescribeLogDirs", "results.topics.partitions.partition_size"): _hidden,
    ("DescribeConfigs", "results.configs.documentation"): _hidden,
}

# (API, field path of a list) → the fields by which its elements are known, where their order means nothing.
UNORDERED: Mapping[tuple[str, str], Sequence[str]] = {
    ("ApiVersions", "api_keys"): ["api_key"],
    ("ApiVersions", "supported_features"): ["name"],
    ("ApiVersions", "finalized_features"): ["name"],
    ("Metadata", "topics"): ["name", "topic_id"],
    ("Metadata", "topics.partitions"): ["partition_index"],
    ("CreateTopics", "topics"): ["name"],
    ("CreateTopics", "topics.configs"): ["name"],
    ("DeleteTopics", "responses"): ["name", "topic_id"],
    ("CreatePartitions", "results"): ["name"],
    ("DeleteRecords", "topics"): ["name"],
    ("DeleteRecords", "topics.partitions"): ["partition_index"],
    ("Produce", "responses"): ["name", "topic_id"],
    ("Produce", "responses.partition_responses"): ["index"],
    ("Fetch", "responses"): ["topic", "topic_id"],
    ("Fetch", "responses.partitions"): ["partition_index"],
    ("ListOffsets", "topics"): ["name"],
    ("ListOffsets", "topics.partitions"): ["partition_index"],
    ("OffsetForLeaderEpoch", "topics"): ["topic"],
    ("OffsetForLeaderEpoch", "topics.partitions"): ["partition"],
    ("OffsetCommit", "topics"): ["name", "topic_id"],
    ("OffsetFetch", "topics"): ["name"],
    ("OffsetFetch", "topics.partitions"): ["partition_index"],
    ("OffsetFetch", "groups.topics"): ["name", "topic_id"],
    ("OffsetFetch", "groups.topics.partitions"): ["partition_index"],
    ("OffsetDelete", "topics"): ["name"],
    ("OffsetDelete", "topics.partitions"): ["partition_index"],
    ("ListGroups", "groups"): ["group_id"],
    ("DeleteGroups", "results"): ["group_id"],
    ("JoinGroup", "members"): ["member_id"],
    ("DescribeGroups", "groups.members"): ["member_id"],
    ("DescribeConfigs", "results.configs"): ["name"],
    ("DescribeLogDirs", "results.topics"): ["name"],
    ("DescribeLogDirs", "results.topics.partitions"): ["partition_index"],
    ("DescribeProducers", "topics.partitions.active_producers"): ["producer_id"],
}


def plain(said: Said, names: Names) -> Any:
    """The answer, normalised: structs are dicts, lists without an order are dicts too."""
    return _Plain(said.api, said.version, names).value(said.value, "")


class _Plain:
    def __init__(self, api: str, version: int, names: Names) -> None:
        self._api, self._version, self._names = api, version, names

    def value(self, value: Any, path: str) -> Any:
        normalise = NORMALISED.get((self._api, path)) or NORMALISED.get(("*", path))
        if normalise is not None:
            return normalise(value, self._names)
        if isinstance(value, list):
            return self._list([self.value(item, path) for item in value], path)
        if hasattr(value, "_struct"):
            return self._struct(value, path)
        return value.hex() if isinstance(value, bytes) else str(value) if isinstance(value, UUID) else value

    def _list(self, items: list[Any], path: str) -> Any:
        keys = UNORDERED.get((self._api, path))
        if keys is None:
            return items
        named = {_key(item, keys): item for item in items}
        # Two of the same name: their number is part of the answer.
        return named if len(named) == len(items) else items

    def _struct(self, message: Message, path: str) -> dict[str, Any]:
        fields = [field for field in message._struct.fields.values() if field.for_version_q(self._version)]
        return {
            field.name: self.value(getattr(message, field.name), f"{path}.{field.name}".lstrip("."))
            for field in fields
        }


def _key(item: Mapping[str, Any], keys: Sequence[str]) -> str:
    return " ".join(str(item[key]) for key in keys if item.get(key) is not None)
