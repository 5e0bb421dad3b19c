"""Which names a topic may have: Kafka's rules."""

from __future__ import annotations

import re

from barbicel.gateway.broker.topic_errors import InvalidTopic

__all__ = ["check_topic_name", "collision_key"]

MAX_NAME_CHARS = 249
_NAME = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


def check_topic_name(name: str) -> None:
    """Raises InvalidTopic; a name that passes holds nothing that could lead out of a directory."""
    if not name:
        raise InvalidTopic("the topic name is empty")
    if len(name) > MAX_NAME_CHARS:
        raise InvalidTopic(f"the topic name has {len(name)} characters, allowed are {MAX_NAME_CHARS}")
    if name in (".", ".."):
        raise InvalidTopic(f"the topic name cannot be {name!r}")
    if not _NAME.fullmatch(name):
        raise InvalidTopic(f"topic name {name!r}: allowed are letters, digits, '.', '_' and '-'")


def collision_key(name: str) -> str:
    """Equal for two names that are one in the metrics of Kafka's tools, where '.' becomes '_'."""
    return name.replace(".", "_")
