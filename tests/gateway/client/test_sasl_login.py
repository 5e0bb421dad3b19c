"""A login from the client's side: what a server may answer, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import Message, SaslAuthenticateResponse, SaslHandshakeResponse
from barbicel.gateway.client.connecting import ServerRefused
from barbicel.gateway.client.sasl_login import log_in

PASSWORD = "hunter2"


class Server:
    """Stands for a connection. Its answers are prepared."""

    address = "gateway:9093"

    def __init__(self, *answers: Message) -> None:
        self.answers = list(answers)
        self.asked: list[Message] = []

    def ask(self, request: Message, version: int) -> Message:
        self.asked.append(request)
        return self.answers.pop(0)


def settings(mechanism: str) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
    }


def offering(*mechanisms: str, error_code: int = 0) -> Message:
    return SaslHandshakeResponse(error_code=error_code, mechanisms=list(mechanisms))


def saying(data: bytes, error_code: int = 0, message: str | None = None, lifetime_ms: int = 0) -> Message:
    return SaslAuthenticateResponse(
        error_code=error_code, error_message=message, auth_bytes=data, session_lifetime_ms=lifetime_ms
    )


def log_in_to(server: Server, mechanism: str) -> int:
    connection: Any = server
    return log_in(connection, settings(mechanism))


def test_nothing_is_asked_where_no_login_is_wanted() -> None:
    server: Any = Server()
    assert log_in(server, {**settings("PLAIN"), "security_protocol": "SSL"}) == 0
    assert server.asked == []


def test_a_login_counts_for_as_long_as_the_server_says() -> None:
    server = Server(offering("PLAIN"), saying(b"", lifetime_ms=5000))
    assert log_in_to(server, "PLAIN") == 5000
    assert server.asked[1].auth_bytes == b"alice\0alice\0hunter2"


REFUSED = ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    ("mechanism", "answers", "said"),
    [
        ("PLAIN", [offering("SCRAM-SHA-256", error_code=33)], "does not take PLAIN, but SCRAM-SHA-256"),
        ("PLAIN", [offering(error_code=ErrorCode.ILLEGAL_SASL_STATE)], "wants no login"),
        ("PLAIN", [offering("PLAIN"), saying(b"", REFUSED, "no such user")], "refused: no such user"),
        ("PLAIN", [offering("PLAIN"), saying(b"", REFUSED)], "refused: error 58"),
        ("PLAIN", [offering("PLAIN"), saying(b"what else?")], "not those of PLAIN"),
        ("SCRAM-SHA-256", [offering("SCRAM-SHA-256"), saying(b"\xff")], "not those of SCRAM"),
        ("SCRAM-SHA-256", [offering("SCRAM-SHA-256"), saying(b"r=other,s=AA==,i=4096")], "not those of"),
        ("SCRAM-SHA-256", [offering("SCRAM-SHA-256"), saying(b"s=AA==,i=4096")], "not those of"),
    ],
)
def test_a_refusal_is_told_without_the_password(mechanism: str, answers: list[Message], said: str) -> None:
    with pytest.raises(ServerRefused, match=said) as caught:
        log_in_to(Server(*answers), mechanism)
    assert PASSWORD not in str(caught.value)
    assert "gateway:9093" in str(caught.value)


@pytest.mark.parametrize("count", [b"1", b"4095", b"+5", b" 5", b"1_0", b"", b"4096,i=1", b"1,i=4096"])
def test_few_iterations_are_refused(count: bytes) -> None:
    server = Server(offering("SCRAM-SHA-256"), saying(b"r=any,s=AA==,i=" + count))
    with pytest.raises(ServerRefused, match="fewer iterations .* than 4096"):
        log_in_to(server, "SCRAM-SHA-256")
    assert len(server.asked) == 2


@pytest.mark.parametrize("last", [b"v=AAAA", b"e=other-error", b""])
def test_a_server_that_does_not_know_the_password_is_not_trusted(last: bytes) -> None:
    """It could be anybody who has taken the gateway's place."""

    class Pretending(Server):
        def ask(self, request: Message, version: int) -> Message:
            if len(self.asked) == 1:
                nonce = request.auth_bytes.rpartition(b"r=")[2]
                self.answers.insert(0, saying(b"r=%bmore,s=AA==,i=4096" % nonce))
            return super().ask(request, version)

    with pytest.raises(ServerRefused, match="does not know this user's password"):
        log_in_to(Pretending(offering("SCRAM-SHA-512"), saying(last)), "SCRAM-SHA-512")
