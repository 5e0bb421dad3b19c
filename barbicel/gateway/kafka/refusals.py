"""Errors of ours as Kafka's codes, in one place."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.record_batch import BadBatch
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
    InvalidAssignment,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidSetting,
    InvalidTopic,
    TooManyPartitions,
    TopicExists,
    UnknownTopic,
)

__all__ = ["error_code_of", "message_of"]

# An error may repeat what a client sent, and a text has no more than 32,767 bytes in old versions.
MAX_MESSAGE_CHARS = 1000

_log = logging.getLogger(__name__)

_CODES: Mapping[type[BaseException], ErrorCode] = {
    InvalidTopic: ErrorCode.INVALID_TOPIC_EXCEPTION,
    TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    InvalidPartitions: ErrorCode.INVALID_PARTITIONS,
    TooManyPartitions: ErrorCode.POLICY_VIOLATION,
    InvalidReplicationFactor: ErrorCode.INVALID_REPLICATION_FACTOR,
    InvalidAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    InvalidRequest: ErrorCode.INVALID_REQUEST,
    InvalidSetting: ErrorCode.INVALID_CONFIG,
    InvalidAlteration: ErrorCode.INVALID_REQUEST,
    CatalogueStopped: ErrorCode.KAFKA_STORAGE_ERROR,
    CorruptGroup: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # Clients tell their user of it. KAFKA_STORAGE_ERROR they would try again, for ever and in silence.
    CorruptLog: ErrorCode.CORRUPT_MESSAGE,
    OffsetsLost: ErrorCode.CORRUPT_MESSAGE,
    DiskError: ErrorCode.KAFKA_STORAGE_ERROR,
    LogStopped: ErrorCode.KAFKA_STORAGE_ERROR,
    LogClosed: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    RecordTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
}


def error_code_of(error: BaseException | None) -> ErrorCode:
    """UNKNOWN_SERVER_ERROR for what is not in the table, which is a fault of ours and is logged."""
    if isinstance(error, BadBatch):
        return error.error_code
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    _log.error("answering UNKNOWN_SERVER_ERROR: %s", error, exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def message_of(error: BaseException | None) -> str:
    """What is said beside the code."""
    return str(error)[:MAX_MESSAGE_CHARS]
