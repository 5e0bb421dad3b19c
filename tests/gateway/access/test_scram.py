"""SCRAM: whoever knows the password is let in, nobody else is, and nobody learns who there is."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.access_file import ScramCredential
from barbicel.gateway.access.authentication import AuthenticationFailed
from barbicel.gateway.access.scram import (
    ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    Mechanism,
    ScramExchange,
    credential_of_password,
    is_password,
    nobody,
)
from tests.gateway.access.scram_client import ScramClient

SALT = b"0123456789abcdef"
SECRET = b"s" * 32
PASSWORD = "pencil, and = more"


def server(
    mechanism: Mechanism, users: dict[str, str] | None = None, nonce: str = "servernonce"
) -> ScramExchange:
    known = {
        user: credential_of_password(mechanism, password, SALT, MIN_ITERATIONS)
        for user, password in (users or {"us=er,": PASSWORD}).items()
    }

    def find(user: str) -> tuple[ScramCredential, bool]:
        return (known[user], True) if user in known else (nobody(mechanism, SECRET, user), False)

    return ScramExchange(mechanism, find, nonce)


@pytest.fixture(params=list(MECHANISMS.values()), ids=lambda mechanism: mechanism.name)
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    assert isinstance(request.param, Mechanism)
    return request.param


def test_the_example_of_rfc_7677() -> None:
    sha256 = MECHANISMS["SCRAM-SHA-256"]
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = credential_of_password(sha256, "pencil", salt, 4096)
    exchange = ScramExchange(sha256, lambda _: (credential, True), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = exchange.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.user == "user"


@pytest.mark.parametrize("header", ["n,,", "y,,", "n,a=us=3Der=2C,"])
def test_whoever_knows_the_password_is_let_in(mechanism: Mechanism, header: str) -> None:
    client, exchange = ScramClient(mechanism.hash_name, "us=er,", PASSWORD), server(mechanism)
    final = exchange.step(client.final(exchange.step(client.first(header))))
    assert client.believes(final)
    assert exchange.user == "us=er,"


@pytest.mark.parametrize(("user", "password"), [("us=er,", "wrong"), ("nobody", PASSWORD), ("nobody", "")])
def test_nobody_else_is(mechanism: Mechanism, user: str, password: str) -> None:
    client, exchange = ScramClient(mechanism.hash_name, user, password), server(mechanism)
    final = client.final(exchange.step(client.first()))
    with pytest.raises(AuthenticationFailed, match="wrong password, or no such user"):
        exchange.step(final)
    assert exchange.user is None


def test_a_user_that_there_is_not_looks_like_any_other(mechanism: Mechanism) -> None:
    def asked(user: str) -> list[bytes]:
        return server(mechanism).step(ScramClient(mechanism.hash_name, user, "x").first()).split(b",")

    first, again, other = asked("ghost"), asked("ghost"), asked("ghost2")
    assert first == again
    assert first[1] != other[1]
    assert len(b64decode(first[1][2:])) == len(SALT)
    assert first[2] == b"i=%d" % ITERATIONS


def test_cve_2024_56128_the_nonce_of_the_last_message_is_checked(mechanism: Mechanism) -> None:
    client, exchange = ScramClient(mechanism.hash_name, "us=er,", PASSWORD), server(mechanism)
    final = client.final(exchange.step(client.first()), nonce="clientnonceanother")
    with pytest.raises(AuthenticationFailed, match="nonce"):
        exchange.step(final)


def test_a_whole_exchange_cannot_be_used_again(mechanism: Mechanism) -> None:
    client, exchange = ScramClient(mechanism.hash_name, "us=er,", PASSWORD), server(mechanism)
    first = client.first()
    final = client.final(exchange.step(first))
    exchange.step(final)
    later = server(mechanism, nonce="another")
    later.step(first)
    with pytest.raises(AuthenticationFailed):
        later.step(final)


def test_cve_2017_12610_nobody_acts_for_somebody_else(mechanism: Mechanism) -> None:
    with pytest.raises(AuthenticationFailed, match="somebody else"):
        server(mechanism).step(ScramClient(mechanism.hash_name, "us=er,", PASSWORD).first("n,a=admin,"))


def test_the_channel_binding_of_both_messages_is_the_same(mechanism: Mechanism) -> None:
    client, exchange = ScramClient(mechanism.hash_name, "us=er,", PASSWORD), server(mechanism)
    with pytest.raises(AuthenticationFailed, match="channel binding"):
        exchange.step(client.final(exchange.step(client.first("y,,")), binding="n,,"))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"p=tls-unique,,n=u,r=x",
        b"n,,n=u=ser,r=x",
        b"n,,n=,r=x",
        b"n,,n=u,r=",
        b"n,,n=u,r=x,tokenauth=true",
        b"n,,m=ext,n=u,r=x",
        b"\xff\xfe",
        b"n,,n=u\0,r=x",
    ],
)
def test_what_is_no_first_message(mechanism: Mechanism, first: bytes) -> None:
    exchange = server(mechanism)
    with pytest.raises(AuthenticationFailed):
        exchange.step(first)
    # There is no second try in one exchange.
    with pytest.raises(AuthenticationFailed, match="behind the end"):
        exchange.step(ScramClient(mechanism.hash_name, "us=er,", PASSWORD).first())


@pytest.mark.parametrize("size", [0, 1, 31, 33, 63, 65, 1000])
def test_a_proof_of_another_length_is_none(mechanism: Mechanism, size: int) -> None:
    client, exchange = ScramClient(mechanism.hash_name, "us=er,", PASSWORD), server(mechanism)
    final = client.final(exchange.step(client.first()))
    proof = b64encode(b"\0" * size) or b"="
    with pytest.raises(AuthenticationFailed):
        exchange.step(final[: final.index(b",p=") + 3] + proof)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_let_anybody_in_or_break_it(first: bytes, second: bytes) -> None:
    exchange = server(MECHANISMS["SCRAM-SHA-256"], {"user": "x"})
    for message in (first, second):
        try:
            exchange.step(message)
        except AuthenticationFailed:
            break
    assert exchange.user is None


def test_cve_2021_38153_secrets_are_compared_in_constant_time(
    mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every comparison that decides goes through hmac.compare_digest, for all users alike."""
    compared: list[int] = []
    real = hmac.compare_digest

    def counting(a: bytes, b: bytes) -> bool:
        compared.append(len(a))
        return real(a, b)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    ways = []
    for user, password in (("us=er,", PASSWORD), ("us=er,", "wrong"), ("nobody", "x")):
        compared.clear()
        client, exchange = ScramClient(mechanism.hash_name, user, password), server(mechanism)
        final = client.final(exchange.step(client.first()))
        with suppress(AuthenticationFailed):
            exchange.step(final)
        ways.append(list(compared))
    assert ways[0] == ways[1] == ways[2]
    assert mechanism.key_bytes in ways[0]
    compared.clear()
    assert not is_password(mechanism, nobody(mechanism, SECRET, "x"), "x")
    assert compared == [mechanism.key_bytes]
