"""Errors of ours as Kafka's codes, in one place."""

from __future__ import annotations

from collections.abc import Mapping

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.errors import (
    CorruptGroup,
    CorruptLog,
    DiskError,
    LogClosed,
    LogStopped,
    OffsetOutOfRange,
    OffsetsLost,
    RecordTooLarge,
)
from barbicel.gateway.broker.topic_errors import (
    CatalogueStopped,
    InvalidAlteration,
    InvalidPartitions,
    InvalidSetting,
    InvalidTopic,
    TopicExists,
    UnknownTopic,
)

__all__ = ["error_code_of"]

_CODES: Mapping[type[BaseException], ErrorCode] = {
    InvalidTopic: ErrorCode.INVALID_TOPIC_EXCEPTION,
    TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    InvalidPartitions: ErrorCode.INVALID_PARTITIONS,
    InvalidSetting: ErrorCode.INVALID_CONFIG,
    InvalidAlteration: ErrorCode.INVALID_REQUEST,
    CatalogueStopped: ErrorCode.KAFKA_STORAGE_ERROR,
    CorruptGroup: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    CorruptLog: ErrorCode.KAFKA_STORAGE_ERROR,
    OffsetsLost: ErrorCode.KAFKA_STORAGE_ERROR,
    DiskError: ErrorCode.KAFKA_STORAGE_ERROR,
    LogStopped: ErrorCode.KAFKA_STORAGE_ERROR,
    LogClosed: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    RecordTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
}


def error_code_of(error: BaseException | None) -> ErrorCode:
    """UNKNOWN_SERVER_ERROR for what is not in the table."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return ErrorCode.UNKNOWN_SERVER_ERROR
