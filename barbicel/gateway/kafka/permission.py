"""What a client may do, asked in the words of Kafka's documents; and as which error it is told.

Without ACLs everybody may do everything, and nothing is looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barbicel.codecs.kafka.acls import CLUSTER_NAME, OPERATIONS_OF, Operation, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.kafka.api import Call

__all__ = [
    "cluster_refusal",
    "group_access_refusal",
    "may",
    "may_read",
    "may_somewhere",
    "operations",
    "topic_refusal",
]


def may(
    call: Call, operation: Operation, resource: Resource, name: str = CLUSTER_NAME, *, is_quiet: bool = False
) -> bool:
    """`is_quiet` where nobody did anything wrong: a list shows what the client may see."""
    session = call.session
    if session is None or session.may(operation, resource, name):
        return True
    if not is_quiet:
        text = f"{session.principal} may not {operation.name} {resource.name} {name[:100]}"
        call.broker.notes.tell(call.peer, text, logging.INFO)
    return False


def may_somewhere(call: Call, operation: Operation, resource: Resource) -> bool:
    return call.session is None or call.session.may_somewhere(operation, resource)


def topic_refusal(call: Call, operation: Operation, name: str) -> ErrorCode:
    """NONE if it may."""
    if call.session is None or may(call, operation, Resource.TOPIC, name):
        return ErrorCode.NONE
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED


def group_access_refusal(call: Call, operation: Operation, group_id: str) -> ErrorCode:
    if call.session is None or may(call, operation, Resource.GROUP, group_id):
        return ErrorCode.NONE
    return ErrorCode.GROUP_AUTHORIZATION_FAILED


def cluster_refusal(call: Call, operation: Operation) -> ErrorCode:
    if call.session is None or may(call, operation, Resource.CLUSTER):
        return ErrorCode.NONE
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def may_read(call: Call) -> Callable[[str], bool] | None:
    """Which topics; None for all."""
    if call.session is None:
        return None
    return lambda name: may(call, Operation.READ, Resource.TOPIC, name)


def operations(call: Call, resource: Resource, name: str = CLUSTER_NAME) -> frozenset[int]:
    """All that the client may do with it, for those who ask."""
    possible = OPERATIONS_OF[resource]
    if call.session is None:
        return frozenset(possible)
    return frozenset(one for one in possible if may(call, one, resource, name, is_quiet=True))
