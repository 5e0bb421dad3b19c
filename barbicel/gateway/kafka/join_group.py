"""JoinGroup (key 11), versions 0 to 9.

- The answer comes when the generation begins. Should the connection be lost before, the member stays: it has
  its session to come back.
- Version 1 brought the rebalance timeout, 4 MEMBER_ID_REQUIRED (KIP-394), 5 static members (KIP-345); 9 tells
  a restarted leader to assign nothing (KIP-814). The coordinator is told the version and decides.
- Below 7 the protocol's name cannot be null.
- The groups of Kestrel's queues have no members: see group_refusals.py, and the same in the other group APIs.
"""

from __future__ import annotations

from functools import partial

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.messages import JoinGroupResponse, Message
from barbicel.gateway.broker.membership import JoinAnswer, JoinRequest, Protocol
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.group_refusals import group_refusal

__all__ = ["API"]

MemberRow = JoinGroupResponse.JoinGroupResponseMember
NULL_PROTOCOL_SINCE = 7


def respond(call: Call, request: Message) -> Reply:
    broker = call.broker
    if refusal := group_refusal(call, request.group_id):
        return _answer(call.version, JoinAnswer(refusal, member_id=request.member_id))
    answered: Deferred[JoinAnswer] = Deferred()
    waiting = broker.coordinator.join(_join_request(call, request), broker.steady_clock(), answered.callback)
    call.on_lost = waiting.forget
    broker.watch_groups()
    return answered.addCallback(partial(_answer, call.version))


def _join_request(call: Call, request: Message) -> JoinRequest:
    return JoinRequest(
        group_id=request.group_id,
        api_version=call.version,
        client_id=call.client_id or "",
        # As Java writes an address without a name, and so as tools expect it in DescribeGroups.
        client_host=f"/{call.peer.host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(protocol.name, protocol.metadata) for protocol in request.protocols),
    )


def _answer(version: int, answer: JoinAnswer) -> Message:
    protocol_name = answer.protocol_name
    if protocol_name is None and version < NULL_PROTOCOL_SINCE:
        protocol_name = ""
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=answer.error,
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name=protocol_name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            MemberRow(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ],
    )


API = Api(11, "JoinGroup", 0, 9, respond)
