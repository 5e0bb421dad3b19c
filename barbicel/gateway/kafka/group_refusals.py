"""Which groups the group APIs leave alone, and errors of the groups' store as they tell them.

The groups of Kestrel's queues are for everybody to look at. A Kafka client that committed for one would move
the queue's position: items would be lost to its readers, or come twice.

Kafka's coordinator never tells a consumer that a disk has failed: clients would take that for fatal. It says
that the coordinator cannot be used, and they ask again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.kafka.api import Call
from barbicel.gateway.kafka.permission import group_access_refusal
from barbicel.gateway.kafka.refusals import error_code_of
from barbicel.kestrel_compat.names import is_reserved_group

__all__ = ["group_error_code_of", "group_refusal"]

_log = logging.getLogger(__name__)

MAX_TOLD = 1000
_told: set[str] = set()

_AS_COORDINATOR: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def group_refusal(call: Call, group_id: str, operation: Operation = Operation.READ) -> ErrorCode:
    """GROUP_AUTHORIZATION_FAILED where ACLs say so, INVALID_GROUP_ID where the group may not be changed by
    Kafka's clients, NONE for all others."""
    if refusal := group_access_refusal(call, operation, group_id):
        return refusal
    if not is_reserved_group(group_id):
        return ErrorCode.NONE
    _tell_once(call.peer.host, group_id)
    return ErrorCode.INVALID_GROUP_ID


def _tell_once(host: str, group_id: str) -> None:
    """Consumers come back again and again; one line for each machine is enough."""
    if host not in _told and len(_told) < MAX_TOLD:
        _told.add(host)
        _log.warning(
            "a Kafka client at %s wants to use the group %r, which only Kestrel's queues do: refused",
            host,
            group_id[:100],
        )


def group_error_code_of(error: BaseException | None) -> ErrorCode:
    """NONE without an error."""
    if error is None:
        return ErrorCode.NONE
    code = error_code_of(error)
    return _AS_COORDINATOR.get(code, code)
