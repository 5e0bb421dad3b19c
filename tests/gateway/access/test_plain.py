"""PLAIN: one message, three parts."""

from __future__ import annotations

import pytest

from barbicel.gateway.access.authentication import AuthenticationFailed
from barbicel.gateway.access.plain import PlainExchange


def exchange() -> PlainExchange:
    return PlainExchange(lambda user, password: (user, password) == ("alice", "secret"))


@pytest.mark.parametrize("message", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_whoever_knows_the_password_is_let_in(message: bytes) -> None:
    one = exchange()
    assert one.step(message) == b""
    assert one.user == "alice"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0alice\0",
        b"\0\0secret",
        b"\0alice\0secret\0",
        b"\0alice\0wrong",
        b"\0bob\0secret",
        b"\0\xff\0secret",
    ],
)
def test_nobody_else_is(message: bytes) -> None:
    one = exchange()
    with pytest.raises(AuthenticationFailed) as refusal:
        one.step(message)
    assert one.user is None
    assert "secret" not in str(refusal.value)


def test_cve_2017_12610_nobody_acts_for_somebody_else() -> None:
    with pytest.raises(AuthenticationFailed, match="somebody else"):
        exchange().step(b"admin\0alice\0secret")
