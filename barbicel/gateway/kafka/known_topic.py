"""A topic that a request names, or why there is none, in Kafka's order: first whether it can be a name."""

from __future__ import annotations

from barbicel.gateway.broker.topic_errors import UnknownTopic
from barbicel.gateway.broker.topic_names import check_topic_name
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.gateway.kafka.api import Call

__all__ = ["known_topic"]


def known_topic(call: Call, name: str) -> OpenTopic:
    """Raises InvalidTopic, UnknownTopic."""
    check_topic_name(name)
    topic = call.broker.topics.by_name(name)
    if topic is None:
        raise UnknownTopic(f"topic {name!r} does not exist")
    return topic
