"""SASL PLAIN (RFC 4616): a name and a password in one message. Only over TLS."""

from __future__ import annotations

from collections.abc import Callable

from barbicel.gateway.access.authentication import AuthenticationFailed

__all__ = ["PlainExchange"]


class PlainExchange:
    """`is_password(user, password)` takes as long for users that there are not."""

    is_slow = True
    expires_at_ms = None
    refusal = None

    def __init__(self, is_password: Callable[[str, str], bool]) -> None:
        self._is_password = is_password
        self.user: str | None = None

    def step(self, message: bytes) -> bytes:
        try:
            authzid, user, password = message.decode().split("\0")
        except ValueError:  # which a text that is no UTF-8 is as well
            raise AuthenticationFailed("the message of PLAIN has not three parts") from None
        if not user or not password:
            raise AuthenticationFailed("PLAIN without a user or a password")
        if authzid not in ("", user):
            raise AuthenticationFailed("the client wants to act for somebody else")
        if not self._is_password(user, password):
            raise AuthenticationFailed(f"wrong password, or no such user: {user[:100]!r}")
        self.user = user
        return b""
