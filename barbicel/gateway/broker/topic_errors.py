"""Why a request about topics is refused. Each error stands for one of Kafka's codes."""

from __future__ import annotations

from barbicel.errors import BarbicelError

__all__ = [
    "CatalogueStopped",
    "InvalidAlteration",
    "InvalidAssignment",
    "InvalidPartitions",
    "InvalidReplicationFactor",
    "InvalidRequest",
    "InvalidSetting",
    "InvalidTopic",
    "TooManyPartitions",
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


class TooManyPartitions(BarbicelError):
    """POLICY_VIOLATION: one request asks for more than a server should make at once."""


class InvalidReplicationFactor(BarbicelError):
    """INVALID_REPLICATION_FACTOR: there is one broker, so there is one copy."""


class InvalidAssignment(BarbicelError):
    """INVALID_REPLICA_ASSIGNMENT: partitions cannot be put where a request wants them."""


class InvalidRequest(BarbicelError):
    """INVALID_REQUEST: it contradicts itself, or asks for what nobody can be asked for."""


class InvalidSetting(BarbicelError):
    """INVALID_CONFIG: an unknown setting of a topic, or a value that it cannot have."""


class InvalidAlteration(BarbicelError):
    """INVALID_REQUEST: one request changes a setting twice, or to nothing."""


class CatalogueStopped(BarbicelError):
    """KAFKA_STORAGE_ERROR: a change may or may not be on the disk, and no more are taken until a restart."""
