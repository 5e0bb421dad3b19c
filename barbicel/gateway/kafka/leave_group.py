"""LeaveGroup (key 13), versions 0 to 5.

- From version 3 on many may leave at once, by member id or, as admin tools do for static members, by instance
  id. Before, there is one, and its error is the answer's.
- Version 5 brought a reason, which nothing depends on.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import LeaveGroupResponse, Message
from barbicel.gateway.broker.membership import LeaveAnswer, MemberIdentity
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.group_refusals import group_refusal
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

MemberRow = LeaveGroupResponse.MemberResponse
MANY_SINCE = 3


def respond(call: Call, request: Message) -> Reply:
    answer = _leave(call, request)
    rows = (
        MemberRow(
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            error_code=error,
        )
        for identity, error in answer.leavers
    )
    error_code = answer.error if call.version >= MANY_SINCE else _error_of_the_one(answer)
    return gather(call, rows, partial(_response, error_code))


def _response(error_code: ErrorCode, rows: list[Any]) -> Message:
    return LeaveGroupResponse(throttle_time_ms=0, error_code=error_code, members=rows)


def _leave(call: Call, request: Message) -> LeaveAnswer:
    broker = call.broker
    if refusal := group_refusal(call, request.group_id):
        return LeaveAnswer(refusal)
    answer = broker.coordinator.leave(request.group_id, _leavers(call, request), broker.steady_clock())
    broker.watch_groups()
    return answer


def _leavers(call: Call, request: Message) -> tuple[MemberIdentity, ...]:
    if call.version < MANY_SINCE:
        return (MemberIdentity(request.member_id),)
    return tuple(MemberIdentity(member.member_id, member.group_instance_id) for member in request.members)


def _error_of_the_one(answer: LeaveAnswer) -> ErrorCode:
    return answer.error if answer.error is not ErrorCode.NONE else answer.leavers[0].error


API = Api(13, "LeaveGroup", 0, 5, respond, is_alone=True)
