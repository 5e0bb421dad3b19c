"""SyncGroup (key 14), versions 0 to 5.

The answer comes when the leader has said who gets what. Version 3 brought static members, 5 the protocol that
the member believes to be selected (KIP-559).
"""

from __future__ import annotations

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.messages import Message, SyncGroupResponse
from barbicel.gateway.broker.membership import SyncAnswer, SyncRequest
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.group_refusals import group_refusal

__all__ = ["API"]


def respond(call: Call, request: Message) -> Reply:
    broker = call.broker
    if refusal := group_refusal(call, request.group_id):
        return _answer(SyncAnswer(refusal))
    answered: Deferred[SyncAnswer] = Deferred()
    waiting = broker.coordinator.sync(_sync_request(call, request), broker.steady_clock(), answered.callback)
    call.on_lost = waiting.forget
    broker.watch_groups()
    return answered.addCallback(_answer)


def _sync_request(call: Call, request: Message) -> SyncRequest:
    return SyncRequest(
        group_id=request.group_id,
        api_version=call.version,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple((given.member_id, given.assignment) for given in request.assignments),
    )


def _answer(answer: SyncAnswer) -> Message:
    return SyncGroupResponse(
        throttle_time_ms=0,
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )


API = Api(14, "SyncGroup", 0, 5, respond)
