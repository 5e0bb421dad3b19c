"""The two small files of a data directory: topic.json and cluster.json. docs/formats/data_directory.md.

Both are JSON that people can read, in exactly one form: the same values are always the same bytes. So a file
that was changed anywhere is noticed, by its CRC-32C or because it is not what would have been written.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from barbicel.codecs.checked_json import FORMAT, MAX_FILE_BYTES, decode_object, encode_object, typed, whole
from barbicel.errors import CorruptFile

__all__ = [
    "ID_TEXT_CHARS",
    "MAX_FILE_BYTES",
    "ClusterFile",
    "Topic",
    "TopicState",
    "decode_cluster",
    "decode_topic",
    "encode_cluster",
    "encode_topic",
    "parse_id",
    "render_id",
]

ID_TEXT_CHARS = 22

_ID = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)


class TopicState(Enum):
    """A deleted topic keeps its file until all its other files are gone."""

    LIVE = "live"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. `settings` has only those that were set on it, as text."""

    name: str
    id: UUID
    partitions: int
    created_ms: int
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    state: TopicState = TopicState.LIVE

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))


class ClusterFile(NamedTuple):
    """Producer ids below next_producer_id may have been given out, none from there on."""

    cluster_id: UUID
    created_ms: int
    next_producer_id: int


def render_id(identity: UUID) -> str:
    """The text that Kafka's tools print: 22 characters of base64url."""
    return urlsafe_b64encode(identity.bytes).decode("ascii").rstrip("=")


def parse_id(text: str) -> UUID:
    """Raises ValueError for a text that `render_id` does not make."""
    identity = UUID(bytes=urlsafe_b64decode(f"{text}==")) if _ID.fullmatch(text) else None
    # The last character has four bits to spare.
    if identity is None or render_id(identity) != text:
        raise ValueError(f"{text[:30]!r} is no id of {ID_TEXT_CHARS} characters")
    return identity


def encode_topic(topic: Topic) -> bytes:
    return encode_object(
        {
            "format": FORMAT,
            "name": topic.name,
            "id": render_id(topic.id),
            "partitions": topic.partitions,
            "created_ms": topic.created_ms,
            "settings": dict(sorted(topic.settings.items())),
            "state": topic.state.value,
        }
    )


def decode_topic(data: bytes) -> Topic:
    """Raises CorruptFile unless these are the very bytes that `encode_topic` makes."""
    content = decode_object(data)
    try:
        topic = Topic(
            name=typed(content["name"], str),
            id=parse_id(content["id"]),
            partitions=typed(content["partitions"], int),
            created_ms=typed(content["created_ms"], int),
            settings={name: typed(text, str) for name, text in typed(content["settings"], dict).items()},
            state=TopicState(content["state"]),
        )
        is_same = encode_topic(topic) == data
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFile(f"the content makes no sense: {error!r}") from None
    return whole(topic, is_same)


def encode_cluster(cluster: ClusterFile) -> bytes:
    return encode_object(
        {
            "format": FORMAT,
            "cluster_id": render_id(cluster.cluster_id),
            "created_ms": cluster.created_ms,
            "next_producer_id": cluster.next_producer_id,
        }
    )


def decode_cluster(data: bytes) -> ClusterFile:
    """Raises CorruptFile unless these are the very bytes that `encode_cluster` makes."""
    content = decode_object(data)
    try:
        cluster = ClusterFile(
            cluster_id=parse_id(content["cluster_id"]),
            created_ms=typed(content["created_ms"], int),
            next_producer_id=typed(content["next_producer_id"], int),
        )
        is_same = encode_cluster(cluster) == data
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFile(f"the content makes no sense: {error!r}") from None
    return whole(cluster, is_same)
