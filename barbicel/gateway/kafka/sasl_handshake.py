"""SaslHandshake (key 17), versions 0 to 1.

- Version 1: the messages of the mechanism come in SaslAuthenticate. Version 0: they come bare, each behind a
  length; old clients do that, and know nothing of saying again who they are: not in the middle of a session.
- On a listener without SASL, and in the middle of another handshake, it is ILLEGAL_SASL_STATE.
- A mechanism that is not offered is UNSUPPORTED_SASL_MECHANISM with those that are, and the end.
"""

from __future__ import annotations

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import Message, SaslHandshakeResponse
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.sasl_authenticate import refused_later

__all__ = ["API"]

RAW = 0


def respond(call: Call, request: Message) -> Reply:
    session = call.session
    if session is None or not session.may_begin or (call.version == RAW and session.principal is not None):
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    offered = list(session.mechanisms)
    if request.mechanism not in offered:
        session.refuse(
            f"it asks for the mechanism {request.mechanism[:50]!r}, offered are {', '.join(offered)}"
        )
        refusal = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
        return refused_later(call, session, refusal)
    if not session.begin_exchange(request.mechanism, is_raw=call.version == RAW):
        session.refuse(f"it began with {session.mechanism}, and now asks for {request.mechanism}")
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=offered)
    return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=offered)


API = Api(17, "SaslHandshake", 0, 1, respond, is_alone=True)
