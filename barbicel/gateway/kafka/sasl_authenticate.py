"""SaslAuthenticate (key 36), versions 0 to 2.

- One message of the mechanism that SaslHandshake has chosen, and the answer to it. Version 1 tells for how
  long the session holds (KIP-368).
- Whoever is refused is told so late (connection.failed.authentication.delay.ms), in the same words whatever
  was wrong, and loses its connection. The log has the reason.
- Passwords and tokens are checked in a thread, one of each address after the other; nothing behind the
  request is served meanwhile.
- The same messages without a header of Kafka's, after SaslHandshake version 0, are `TOKEN`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import Message, SaslAuthenticateResponse
from barbicel.disk import Bytes
from barbicel.gateway.access.authentication import AuthenticationFailed, Exchange
from barbicel.gateway.kafka.api import Api, Call, Reply

if TYPE_CHECKING:
    from barbicel.gateway.kafka.session import Session

__all__ = ["API", "TOKEN", "refused_later"]

T = TypeVar("T")

# No password and no token comes near it; after the login clients may send larger requests.
MAX_MESSAGE_BYTES = 64 << 10
# As Kafka says it; clients show it to their users.
REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"


class Step(NamedTuple):
    answer: bytes
    lifetime_ms: int


def respond(call: Call, request: Message) -> Reply:
    session = call.session
    if session is None or session.exchange is None:
        return _problem(ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate without SaslHandshake before it")
    return _step(call, session, session.exchange, bytes(request.auth_bytes)).addCallbacks(
        _answer, partial(_refuse, call, session)
    )


def _step(call: Call, session: Session, exchange: Exchange, message: bytes) -> Deferred[Step]:
    answered: Deferred[bytes]
    if len(message) > MAX_MESSAGE_BYTES:
        answered = fail(AuthenticationFailed(f"a message of {len(message)} bytes"))
    elif exchange.is_slow:
        login = session.access.logins.begin(call.peer.host, partial(exchange.step, message))
        call.on_lost = login.forget
        answered = login.answer.addBoth(_checked, call)
    else:
        answered = succeed(message).addCallback(exchange.step)
    return answered.addCallback(partial(_settle, call, session, exchange))


def _settle(call: Call, session: Session, exchange: Exchange, answer: bytes) -> Step:
    if exchange.refusal is not None:
        # Not when it is sent away: a client that hangs up instead of consenting would leave no trace.
        text = f"not let in: {session.mechanism}: {exchange.refusal}"
        call.broker.notes.tell(call.peer, text, logging.WARNING, by_host=True)
    return Step(answer, session.settle(exchange) or 0)


def _checked(result: T, call: Call) -> T:
    """It does not wait any more: from now on its answer is owed."""
    call.on_lost = None
    return result


def _answer(step: Step) -> Message:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        auth_bytes=step.answer,
        session_lifetime_ms=step.lifetime_ms,
    )


def _refuse(call: Call, session: Session, failure: Failure) -> Deferred[Message]:
    error = failure.value
    if not isinstance(error, AuthenticationFailed):
        failure.raiseException()  # a fault of ours
    refusal = _problem(ErrorCode.SASL_AUTHENTICATION_FAILED, REFUSED.format(session.mechanism))
    session.refuse(str(error))
    return refused_later(call, session, refusal)


def refused_later(call: Call, session: Session, refusal: T) -> Deferred[T]:
    """Whoever guesses has to wait for the answer."""
    later: Deferred[T] = Deferred()
    delay_s = session.access.config.connection_failed_authentication_delay_ms / 1000
    call.broker.reactor.callLater(delay_s, partial(later.callback, refusal))
    return later


def _problem(error_code: ErrorCode, message: str) -> Message:
    return SaslAuthenticateResponse(
        error_code=error_code, error_message=message, auth_bytes=b"", session_lifetime_ms=0
    )


def respond_to_token(call: Call, token: bytes) -> Reply:
    session = call.session
    assert session is not None
    assert session.exchange is not None
    return _step(call, session, session.exchange, token).addCallbacks(
        lambda step: step.answer, partial(_refuse_token, call, session)
    )


def _refuse_token(call: Call, session: Session, failure: Failure) -> Deferred[None]:
    """There is no answer that could say it: the connection ends, as late as with one."""
    if not isinstance(failure.value, AuthenticationFailed):
        failure.raiseException()  # a fault of ours
    session.refuse(str(failure.value))
    return refused_later(call, session, None)


def _decode_token(version: int, body: memoryview) -> bytes:
    return bytes(body)


def _encode_token(answer: bytes, version: int) -> Sequence[Bytes]:
    return (answer,)


API = Api(36, "SaslAuthenticate", 0, 2, respond, is_alone=True)
TOKEN = Api(-1, "a SASL token", 0, 0, respond_to_token, _decode_token, _encode_token, is_alone=True)
