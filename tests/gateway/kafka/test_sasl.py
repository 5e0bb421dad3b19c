"""Clients that say who they are: in which order, within which limits, and for how long that holds."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.config.listeners import Listener
from barbicel.gateway.access.logins import Logins
from barbicel.gateway.access.oauth import OAuthExchange, TokenRules
from barbicel.gateway.access.opening import opened_access
from barbicel.gateway.kafka.listening import kafka_factory
from tests.gateway.access.scram_client import ScramClient
from tests.gateway.kafka.in_memory import Client, Gateway, in_memory_gateway
from tests.gateway.kafka.requests import metadata
from tests.support.secure_gateway import PASSWORDS, add_users

SASL = Listener("SASL_PLAINTEXT", "127.0.0.1", 0)
DELAY_S = 0.1
# So long a client has to read why it is refused.
READING_S = 0.2


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    add_users(tmp_path / "data")
    with in_memory_gateway(tmp_path / "data", listeners=(SASL,), connections_max_reauth_ms=60_000) as gateway:
        gateway.server = _Listening(gateway)  # type: ignore[assignment]  # as far as a client needs it
        yield gateway


class _Listening:
    """What clients connect to: the listener, and not the server behind it."""

    def __init__(self, gateway: Gateway) -> None:
        access = opened_access(gateway.broker)
        self.buildProtocol = kafka_factory(gateway.server, SASL, access).buildProtocol


def handshake(client: Client, mechanism: str = "SCRAM-SHA-256", version: int = 1) -> Any:
    return client.ask(messages.SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(client: Client, data: bytes, version: int = 2) -> Any:
    return client.ask(messages.SaslAuthenticateRequest(auth_bytes=data), version)


def log_in(client: Client, user: str = "alice", password: str | None = None) -> Any:
    """The last answer, good or bad."""
    scram = ScramClient("sha256", user, PASSWORDS[user] if password is None else password)
    assert handshake(client).error_code == ErrorCode.NONE
    first = authenticate(client, scram.first())
    assert (first.error_code, first.session_lifetime_ms) == (ErrorCode.NONE, 0)
    client.send(messages.SaslAuthenticateRequest(auth_bytes=scram.final(bytes(first.auth_bytes))), 2)
    client.gateway.reactor.advance(DELAY_S)
    last = client.answer()
    assert last.error_code or scram.believes(bytes(last.auth_bytes))
    return last


def is_sent_away(client: Client) -> Any:
    """It has its answer, and a moment to read it."""
    assert not client.is_closed
    client.gateway.reactor.advance(READING_S)
    return client.is_closed


def pass_time(gateway: Gateway, seconds: float) -> None:
    gateway.now_ms += int(seconds * 1000)
    gateway.reactor.advance(seconds)


def test_whoever_has_said_who_it_is_is_served(gateway: Gateway) -> None:
    client = gateway.connect()
    assert client.ask(messages.ApiVersionsRequest(), 0).error_code == ErrorCode.NONE
    assert log_in(client).session_lifetime_ms == 60_000
    assert client.ask(metadata("t"), 9).topics[0].error_code == ErrorCode.NONE


def test_a_wrong_password_is_told_late_and_is_the_end(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    client = gateway.connect()
    scram = ScramClient("sha256", "alice", "wrong")
    handshake(client)
    final = scram.final(bytes(authenticate(client, scram.first()).auth_bytes))
    client.send(messages.SaslAuthenticateRequest(auth_bytes=final), 2)
    assert not client.has_answer
    gateway.reactor.advance(DELAY_S)
    answer = client.answer()
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message.endswith("invalid credentials with SASL mechanism SCRAM-SHA-256")
    assert is_sent_away(client)
    assert (
        "10.0.0.1:40000, not let in: SCRAM-SHA-256: wrong password, or no such user: 'alice'" in caplog.text
    )


def test_a_user_that_there_is_not_is_told_the_same(gateway: Gateway) -> None:
    def told(user: str) -> Any:
        answer = log_in(gateway.connect(), user, "wrong")
        return answer.error_code, answer.error_message, bytes(answer.auth_bytes)

    assert told("alice") == told("nobody")


@pytest.mark.parametrize("request_", [metadata("t"), messages.ListGroupsRequest()])
def test_nothing_else_is_served_before(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, request_: Any
) -> None:
    client = gateway.connect()
    client.send(request_, 4)
    assert client.is_closed
    assert not client.transport.sent
    assert "before it has said who it is" in caplog.text
    assert not list(gateway.broker.topics)


def test_nothing_is_served_in_the_middle_of_an_exchange(gateway: Gateway) -> None:
    client = gateway.connect()
    handshake(client)
    authenticate(client, ScramClient("sha256", "alice", "x").first())
    client.send(metadata("t"), 9)
    assert client.is_closed


def test_a_request_behind_a_failed_login_is_not_served(gateway: Gateway) -> None:
    """All in one piece: what stands behind must not slip through."""
    client = gateway.connect()
    handshake(client)
    first = client.encoded(messages.SaslAuthenticateRequest(auth_bytes=b"rubbish"), 2)
    client.connection.dataReceived(first + client.encoded(metadata("t"), 9))
    gateway.reactor.advance(DELAY_S)
    assert client.answer().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert is_sent_away(client)
    assert not list(gateway.broker.topics)


def test_cve_2022_34917_a_stranger_cannot_announce_much(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    client = gateway.connect()
    client.connection.dataReceived(struct.pack(">ih", (512 << 10) + 1, 36))
    assert client.is_closed
    assert "(sasl.server.max.receive.size)" in caplog.text


def test_a_known_client_may_send_more(gateway: Gateway) -> None:
    client = gateway.connect()
    log_in(client)
    client.connection.dataReceived(struct.pack(">ih", 1 << 20, 0))
    assert not client.is_closed


def test_a_stranger_has_ten_seconds(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    client, known = gateway.connect(), gateway.connect(port=2)
    log_in(known)
    handshake(client)
    pass_time(gateway, 9.0)
    assert not client.is_closed
    pass_time(gateway, 1.1)
    assert client.is_closed
    assert not known.is_closed
    assert "it has not said in time who it is" in caplog.text


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER", "GSSAPI", ""])
def test_a_mechanism_that_is_not_offered(gateway: Gateway, mechanism: str) -> None:
    """PLAIN is not, without TLS, even if it is set."""
    client = gateway.connect()
    client.send(messages.SaslHandshakeRequest(mechanism=mechanism), 1)
    gateway.reactor.advance(DELAY_S)
    answer = client.answer()
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert list(answer.mechanisms) == ["SCRAM-SHA-512", "SCRAM-SHA-256"]
    assert is_sent_away(client)


def test_authenticating_needs_a_handshake(gateway: Gateway) -> None:
    answer = authenticate(gateway.connect(), b"n,,n=u,r=x")
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_second_handshake_in_the_middle_of_the_first(gateway: Gateway) -> None:
    client = gateway.connect()
    handshake(client)
    assert handshake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize("seed", range(20))
def test_whatever_a_stranger_sends_nothing_is_served_and_nothing_breaks(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    choose = Random(seed)
    for port in range(1, 30):
        client = gateway.connect(port=port)
        for _ in range(choose.randrange(1, 5)):
            if client.is_closed:
                break
            kind = choose.randrange(4)
            if kind == 0:
                handshake_frame = messages.SaslHandshakeRequest(mechanism="SCRAM-SHA-512")
                client.send(handshake_frame, choose.randrange(2))
            elif kind == 1:
                token = choose.choice([b"", b"n,,n=alice,r=x", choose.randbytes(20)])
                client.send(messages.SaslAuthenticateRequest(auth_bytes=token), choose.randrange(3))
            elif kind == 2:
                key, version = choose.randrange(-1, 80), choose.randrange(15)
                body = struct.pack(">hhih", key, version, 1, -1) + choose.randbytes(30)
                client.connection.dataReceived(struct.pack(">i", len(body)) + body)
            else:
                client.connection.dataReceived(choose.randbytes(choose.randrange(1, 60)))
    gateway.reactor.pump([DELAY_S, READING_S])
    assert not list(gateway.broker.topics)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


# --- sessions that end (KIP-368) --------------------------------------------------------------------------


def test_a_session_that_is_over_serves_nothing(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    client = gateway.connect()
    log_in(client)
    pass_time(gateway, 59.0)
    assert client.ask(metadata("t"), 9).topics[0].error_code == ErrorCode.NONE
    pass_time(gateway, 1.0)
    client.send(metadata("t"), 9)
    assert client.is_closed
    assert "the session of User:alice is over" in caplog.text


def test_saying_it_again_goes_on(gateway: Gateway) -> None:
    client = gateway.connect()
    log_in(client)
    pass_time(gateway, 59.0)
    assert log_in(client).session_lifetime_ms == 60_000
    pass_time(gateway, 30.0)
    assert client.ask(metadata("t"), 9).topics[0].error_code == ErrorCode.NONE


def test_even_when_the_session_is_over(gateway: Gateway) -> None:
    client = gateway.connect()
    log_in(client)
    pass_time(gateway, 100.0)
    assert log_in(client).error_code == ErrorCode.NONE


def test_nobody_becomes_somebody_else(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    client = gateway.connect()
    log_in(client, "alice")
    pass_time(gateway, 2.0)
    assert log_in(client, "bob").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert is_sent_away(client)
    assert "first User:alice, and now User:bob" in caplog.text


def test_nor_in_another_way(gateway: Gateway) -> None:
    client = gateway.connect()
    log_in(client)
    pass_time(gateway, 2.0)
    assert handshake(client, "SCRAM-SHA-512").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert is_sent_away(client)


def test_nobody_says_it_all_the_time(gateway: Gateway) -> None:
    client = gateway.connect()
    log_in(client)
    assert handshake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE


# --- SaslHandshake version 0 ------------------------------------------------------------------------------


def raw(client: Client, data: bytes) -> bytes:
    client.connection.dataReceived(struct.pack(">i", len(data)) + data)
    if client.is_closed:
        return b""
    sent: bytes = client.transport.drain()
    (length,) = struct.unpack_from(">i", sent)
    assert len(sent) == 4 + length
    return sent[4:]


def test_old_clients_send_bare_tokens(gateway: Gateway) -> None:
    client = gateway.connect()
    assert handshake(client, version=0).error_code == ErrorCode.NONE
    scram = ScramClient("sha256", "alice", PASSWORDS["alice"])
    assert scram.believes(raw(client, scram.final(raw(client, scram.first()))))
    assert client.ask(metadata("t"), 9).topics[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("token", [b"", b"x", b"rubbish"])
def test_a_bad_token_is_the_end(gateway: Gateway, token: bytes) -> None:
    client = gateway.connect()
    handshake(client, version=0)
    client.connection.dataReceived(struct.pack(">i", len(token)) + token)
    # As late as one that is told: whoever guesses has to wait.
    assert not client.is_closed
    gateway.reactor.pump([DELAY_S, READING_S])
    assert client.is_closed
    assert client.transport.sent == b""


def test_a_session_is_not_renewed_with_bare_tokens(gateway: Gateway) -> None:
    """Nothing in them says what they are, so that limits would not hold; and no client does that."""
    client = gateway.connect()
    log_in(client)
    pass_time(gateway, 2.0)
    assert handshake(client, version=0).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert log_in(client).error_code == ErrorCode.NONE


@pytest.mark.parametrize("consents", [False, True])
def test_why_a_token_is_refused_is_told_when_it_is(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, consents: bool
) -> None:
    """RFC 7628 has the client consent to the error; one that hangs up instead is to leave a trace as well."""
    rules = TokenRules("issuer", ("audience",), "sub", 0)
    exchange = OAuthExchange(dict, rules, lambda: gateway.now_ms)
    monkeypatch.setattr(exchange, "is_slow", False)
    monkeypatch.setattr(opened_access(gateway.broker), "new_exchange", lambda _: exchange)
    client = gateway.connect()
    handshake(client)
    answer = authenticate(client, b"n,,\x01auth=Bearer no.token.this\x01\x01")
    assert (answer.error_code, b"invalid_token" in bytes(answer.auth_bytes)) == (ErrorCode.NONE, True)
    if consents:
        client.send(messages.SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
        gateway.reactor.advance(DELAY_S)
        assert client.answer().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert is_sent_away(client)
    assert caplog.text.count("not let in: SCRAM-SHA-256: the token is refused: ") == 1
    assert "no.token.this" not in caplog.text


def test_a_message_that_no_password_and_no_token_is(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    client = gateway.connect()
    handshake(client)
    client.send(messages.SaslAuthenticateRequest(auth_bytes=b"n,,n=" + b"x" * (64 << 10)), 2)
    gateway.reactor.until(lambda: "a message of 65541 bytes" in caplog.text)
    gateway.reactor.advance(DELAY_S)
    assert client.answer().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_whoever_does_not_read_why_it_is_refused_is_cut_off(gateway: Gateway) -> None:
    client = gateway.connect()
    client.transport.is_read = False
    aborted: list[bool] = []
    client.transport.abortConnection = lambda: aborted.append(True)  # type: ignore[method-assign]
    handshake_frame = messages.SaslHandshakeRequest(mechanism="GSSAPI")
    client.send(handshake_frame, 1)
    gateway.reactor.pump([DELAY_S, READING_S])
    assert client.is_closed
    assert not aborted
    gateway.reactor.advance(5.0)
    assert aborted


# --- passwords that are checked in a thread ---------------------------------------------------------------


def test_the_password_of_a_client_that_is_gone_is_not_checked(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of thousands that connect, send a password and hang up: what waits is for who is there."""
    access = opened_access(gateway.broker)
    monkeypatch.setattr(access, "mechanisms", lambda protocol: ("PLAIN",))
    given: list[tuple[Any, Deferred[Any]]] = []

    def in_thread(function: Any) -> Deferred[Any]:
        given.append((function, Deferred()))
        return given[-1][1]

    monkeypatch.setattr(access, "logins", Logins(in_thread))
    clients = [gateway.connect(port=port) for port in range(1, 6)]
    for client in clients:
        assert handshake(client, "PLAIN").error_code == ErrorCode.NONE
        token = b"\0alice\0" + PASSWORDS["alice"].encode()
        client.send(messages.SaslAuthenticateRequest(auth_bytes=token), 2)
    assert (len(given), len(access.logins)) == (1, 4)
    for client in clients[:4]:
        client.lose()
    assert (len(given), len(access.logins)) == (1, 1)
    for turn in range(2):
        check, answer = given[turn]
        answer.callback(check())
    assert clients[4].answer().error_code == ErrorCode.NONE
    assert clients[4].ask(metadata("t"), 9).topics[0].error_code == ErrorCode.NONE
    assert len(given) == 2


# --- listeners without SASL -------------------------------------------------------------------------------


def test_elsewhere_there_is_nothing_to_say(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data") as gateway:
        client = gateway.connect()
        assert handshake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert authenticate(client, b"").error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert client.ask(metadata("t"), 9).topics[0].error_code == ErrorCode.NONE
