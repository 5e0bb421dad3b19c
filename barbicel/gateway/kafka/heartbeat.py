"""Heartbeat (key 12), versions 0 to 4. Version 3 brought static members."""

from __future__ import annotations

from barbicel.codecs.kafka.messages import HeartbeatResponse, Message
from barbicel.gateway.broker.membership import Heartbeat
from barbicel.gateway.kafka.api import Api, Call
from barbicel.gateway.kafka.group_refusals import group_refusal

__all__ = ["API"]


def respond(call: Call, request: Message) -> Message:
    broker = call.broker
    sign_of_life = Heartbeat(
        request.group_id, request.generation_id, request.member_id, request.group_instance_id
    )
    error_code = group_refusal(call, request.group_id) or broker.coordinator.heartbeat(
        sign_of_life, broker.steady_clock()
    )
    broker.watch_groups()
    return HeartbeatResponse(throttle_time_ms=0, error_code=error_code)


API = Api(12, "Heartbeat", 0, 4, respond)
