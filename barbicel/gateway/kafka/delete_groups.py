"""DeleteGroups (key 42), versions 0 to 2.

A group with members is NON_EMPTY_GROUP. Deleting one without means to forget its positions, durably before
the answer.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, succeed

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DeleteGroupsResponse, Message
from barbicel.gateway.broker.consumption import Outcomes
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.group_refusals import group_error_code_of, group_refusal
from barbicel.gateway.kafka.refusals import note_refusals
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

_log = logging.getLogger(__name__)

# Of a group's name in the log; a client may send 32 KB.
MAX_NAME_CHARS = 100

GroupRow = DeleteGroupsResponse.DeletableGroupResult


def respond(call: Call, request: Message) -> Reply:
    # One result a group: clients look them up by name.
    names = dict.fromkeys(request.groups_names)
    return gather(call, (_row(call, name) for name in names), partial(_answer, call))


def _row(call: Call, group_id: str) -> Any:
    """The row of a group, now or when it was deleted."""
    return _delete(call, group_id).addCallback(lambda error: GroupRow(group_id=group_id, error_code=error))


def _delete(call: Call, group_id: str) -> Deferred[ErrorCode]:
    broker = call.broker
    if refusal := group_refusal(call, group_id, Operation.DELETE):
        return succeed(refusal)
    removed = broker.coordinator.remove(group_id)
    if removed is ErrorCode.NON_EMPTY_GROUP:
        return succeed(removed)
    if not broker.offsets.places(group_id):
        return succeed(removed)
    return broker.offsets.delete(group_id).addCallback(partial(_deleted, call, group_id))


def _deleted(call: Call, group_id: str, outcomes: Outcomes) -> ErrorCode:
    """The first error; what could be deleted is."""
    error = next((group_error_code_of(error) for error in outcomes.values() if error), ErrorCode.NONE)
    if not error:
        _log.info("group %s, deleted by %s", group_id[:MAX_NAME_CHARS], call.who)
    return error


def _answer(call: Call, rows: list[Any]) -> Message:
    call.broker.watch_groups()
    note_refusals(call, "DeleteGroups", rows)
    return DeleteGroupsResponse(throttle_time_ms=0, results=rows)


API = Api(42, "DeleteGroups", 0, 2, respond, is_alone=True)
