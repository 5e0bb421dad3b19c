"""Kestrel's clients that have to say who they are, as memcached has it with -Y.

The first request is a set, of whatever key, whose value is "user password". Before that nothing is served,
no larger value is read, and not for long. Passwords are those of the users that Kafka's clients log in with;
they are checked in a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barbicel.gateway.kestrel.connection import Connection
from barbicel.gateway.kestrel.memcache_serving import MemcacheServing
from barbicel.gateway.kestrel.serving import Client, Kind, Plan
from barbicel.gateway.twisted_types import Timer
from barbicel.kestrel_compat.memcache import replies
from barbicel.kestrel_compat.memcache.requests import Quit, Set

if TYPE_CHECKING:
    from barbicel.gateway.access.access import Access
    from barbicel.gateway.access.logins import Login
    from barbicel.gateway.broker.broker import Broker

__all__ = ["LoginGate"]

# memcached's limit too.
MAX_VALUE_BYTES = 2048
# In memcached's words.
UNAUTHENTICATED = b"CLIENT_ERROR unauthenticated\r\n"
FAILED = b"CLIENT_ERROR authentication failure\r\n"


class LoginGate:
    """Stands in front of every connection of a server."""

    def __init__(self, broker: Broker, access: Access) -> None:
        self._broker = broker
        self._access = access

    def guard(self, connection: Connection) -> None:
        """Nothing of it is served before it has logged in."""
        connection.begin_as_stranger(_plan_of_stranger, MAX_VALUE_BYTES, self)

    def watch(self, connection: Connection) -> Timer:
        """It is connected; from now on its time runs. To be cancelled when that is over."""
        config = self._access.config
        return self._call_later(
            config.sasl_server_authentication_timeout_ms,
            lambda: self._end_late(connection),
        )

    def _end_late(self, connection: Connection) -> None:
        if connection.is_stranger and not connection.is_leaving:
            connection.close("it has not said in time who it is")

    def check(self, connection: Connection, user: str, password: str) -> Login[bool]:
        host, users = connection.peer.host, self._access.users
        return self._access.logins.begin(host, lambda: users.is_password(user, password))

    def refuse(self, connection: Connection, reason: str, then: Callable[[], None]) -> None:
        """Whoever guesses has to wait for the answer."""
        text = f"not let in: {reason}"
        self._broker.notes.tell(connection.peer, text, logging.WARNING, by_host=True)
        self._call_later(self._access.config.connection_failed_authentication_delay_ms, then)

    def _call_later(self, delay_ms: int, function: Callable[[], None]) -> Timer:
        return self._broker.reactor.callLater(delay_ms / 1000, function)


class Authenticating(MemcacheServing):
    """The set that is a login."""

    __slots__ = ("_login",)

    client: Connection

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._login: Login[bool] | None = None

    def lose(self) -> None:
        """Nobody is there any more: its password need not be checked."""
        if self._login is not None:
            self._login.forget()

    def serve(self, request: Set) -> None:
        user, space, password = (request.data or b"").decode("utf-8", "replace").partition(" ")
        if not (user and space and password):
            self._refuse('the value of its first set is not "user password"')
            return
        gate = self.client.gate
        assert gate is not None
        self._login = gate.check(self.client, user, password)
        self._login.answer.addCallbacks(
            lambda is_password: self._settle(user, is_password), lambda failure: self.fail(failure.value)
        )

    def _settle(self, user: str, is_password: bool) -> None:
        if not is_password:
            self._refuse(f"wrong password, or no such user: {user[:100]!r}")
            return
        self.client.let_in()
        self.finish(replies.STORED)

    def _refuse(self, reason: str) -> None:
        gate = self.client.gate
        assert gate is not None
        gate.refuse(self.client, reason, lambda: self.finish_and_close(FAILED))


class Refusing(MemcacheServing):
    """Anything else."""

    __slots__ = ()

    def serve(self, request: Any) -> None:
        self.finish_and_close(UNAUTHENTICATED)


class Leaving(MemcacheServing):
    __slots__ = ()

    def serve(self, request: Quit) -> None:
        self.finish_and_close(b"")


_PLANS = {Set: Plan(Kind.ALONE, Authenticating), Quit: Plan(Kind.ALONE, Leaving)}


def _plan_of_stranger(request: Any) -> Plan:
    return _PLANS.get(type(request), Plan(Kind.ALONE, Refusing))
