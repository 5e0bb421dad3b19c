"""Errors of ours as Kafka's codes, in one place."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.record_batch import BadBatch
from barbicel.errors import (
    CorruptGroup,
    CorruptLog,
    CorruptManifest,
    CorruptObject,
    DiskError,
    LogClosed,
    LogStopped,
    ObjectMissing,
    OffsetOutOfRange,
    OffsetsLost,
    RecordTooLarge,
    StoreError,
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
from barbicel.gateway.kafka.api import Call

__all__ = ["error_code_of", "message_of", "note_refusals"]

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
    CorruptObject: ErrorCode.CORRUPT_MESSAGE,
    ObjectMissing: ErrorCode.CORRUPT_MESSAGE,
    # The store may be back soon.
    StoreError: ErrorCode.KAFKA_STORAGE_ERROR,
    CorruptManifest: ErrorCode.KAFKA_STORAGE_ERROR,
    DiskError: ErrorCode.KAFKA_STORAGE_ERROR,
    LogStopped: ErrorCode.KAFKA_STORAGE_ERROR,
    LogClosed: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    RecordTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
}

# No fault of the client's.
_OURS = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
# How rows call what they are about.
_NAMES = ("name", "resource_name", "group_id", "topic_id", "partition_index")


def error_code_of(error: BaseException | None) -> ErrorCode:
    """UNKNOWN_SERVER_ERROR for what is not in the table, which is a fault of ours and is logged."""
    if isinstance(error, BadBatch):
        return error.error_code
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    _log.error("answering UNKNOWN_SERVER_ERROR: %s", error, exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def note_refusals(call: Call, api_name: str, rows: Iterable[Any]) -> None:
    """One line for all rows of an answer that have an error; what is ours to mend is a warning."""
    refused = [row for row in rows if row.error_code]
    if not refused:
        return
    reasons = {ErrorCode(row.error_code): row for row in reversed(refused)}
    code = next((code for code in _OURS if code in reasons), ErrorCode(refused[0].error_code))
    row = reasons[code]
    name = next((getattr(row, field) for field in _NAMES if getattr(row, field, None) is not None), "")
    why = getattr(row, "error_message", None) or code.name
    text = f"{api_name} refused for {str(name)[:100]!r}: {why}"
    if len(refused) > 1:
        text = f"{text[:200]}, and {len(refused) - 1} more"
    call.broker.notes.tell(call.peer, text, logging.WARNING if code in _OURS else logging.INFO)


def message_of(error: BaseException | None) -> str:
    """What is said beside the code."""
    return str(error)[:MAX_MESSAGE_CHARS]
