"""Errors of the groups' store as the group APIs tell them.

Kafka's coordinator never tells a consumer that a disk has failed: clients would take that for fatal. It says
that the coordinator cannot be used, and they ask again.
"""

from __future__ import annotations

from collections.abc import Mapping

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.kafka.refusals import error_code_of

__all__ = ["group_error_code_of"]

_AS_COORDINATOR: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def group_error_code_of(error: BaseException | None) -> ErrorCode:
    """NONE without an error."""
    if error is None:
        return ErrorCode.NONE
    code = error_code_of(error)
    return _AS_COORDINATOR.get(code, code)
