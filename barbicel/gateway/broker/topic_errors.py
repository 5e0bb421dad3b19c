"""Why a request about topics is refused. Each error stands for one of Kafka's codes."""

from __future__ import annotations

from barbicel.errors import BarbicelError

__all__ = [
    "CatalogueStopped",
    "InvalidAlteration",
    "InvalidPartitions",
    "InvalidSetting",
    "InvalidTopic",
    "TopicExists",
    "UnknownTopic",
]


class InvalidTopic(BarbicelError):
    """INVALID_TOPIC_EXCEPTION: no topic can have this name."""


class TopicExists(BarbicelError):
    """TOPIC_ALREADY_EXISTS."""


class UnknownTopic(BarbicelError):
    """UNKNOWN_TOPIC_OR_PARTITION."""


class InvalidPartitions(BarbicelError):
    """INVALID_PARTITIONS."""


class InvalidSetting(BarbicelError):
    """INVALID_CONFIG: an unknown setting of a topic, or a value that it cannot have."""


class InvalidAlteration(BarbicelError):
    """INVALID_REQUEST: one request changes a setting twice, or to nothing."""


class CatalogueStopped(BarbicelError):
    """KAFKA_STORAGE_ERROR: a change may or may not be on the disk, and no more are taken until a restart."""
