"""What all connections of the listener share: who is let in, what a request must bring, errors as answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import ServerFactory

from barbicel.clock import steady_clock_ms
from barbicel.config.settings import Config
from barbicel.errors import BarbicelError, OffsetOutOfRange
from barbicel.gateway.admin.audience import is_for_people
from barbicel.gateway.admin.connection import AdminConnection
from barbicel.gateway.admin.exchange import Answer, Asked, Refusal, json_answer
from barbicel.gateway.admin.hosts import is_host_allowed
from barbicel.gateway.admin.routes import READING, Routes
from barbicel.gateway.admin.token import is_bearer_of
from barbicel.gateway.broker.client_notes import ClientNotes
from barbicel.gateway.broker.topic_errors import InvalidTopic, UnknownTopic
from barbicel.gateway.draining import Draining
from barbicel.gateway.kestrel.opening import NotAQueue
from barbicel.gateway.log_pace import LogPace
from barbicel.gateway.twisted_types import Reactor
from barbicel.kestrel_compat.names import BadQueueName

__all__ = ["AdminServer", "ShowRefusal"]

_log = logging.getLogger(__name__)

# With every answer. Scripts, styles and pictures come from here and are files: what a message or a name holds
# can never be one.
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

# (error, status), the first that fits.
STATUSES: tuple[tuple[type[BarbicelError], int], ...] = (
    (BadQueueName, 400),
    (InvalidTopic, 400),
    (UnknownTopic, 404),
    (NotAQueue, 409),
    (OffsetOutOfRange, 404),
    (BarbicelError, 503),
)


# Whoever calls the server by another name would not get a page's files either, and is told no more than that.
MISDIRECTED = 421

# A page for people that says why.
ShowRefusal: TypeAlias = Callable[[Asked, Refusal], Awaitable[Answer]]


class AdminServer(ServerFactory):
    """Makes a connection for every client that is let in, and responds to what they ask."""

    noisy = False

    def __init__(
        self,
        config: Config,
        reactor: Reactor,
        routes: Routes,
        token: str,
        show_refusal: ShowRefusal | None = None,
    ) -> None:
        """Without `show_refusal` people get JSON too."""
        self.reactor = reactor
        self._show_refusal = show_refusal
        self._config = config
        self._routes = routes
        self._token = token
        self._hosts = {config.admin_host.lower(), *config.admin_allowed_hosts}
        # Whoever has been resting for longest comes first.
        self._connections: dict[AdminConnection, None] = {}
        self._draining = Draining(self._connections, reactor)
        self._pace = LogPace(steady_clock_ms)
        self._notes = ClientNotes(steady_clock_ms)

    # --- who is connected ---------------------------------------------------------------------------

    def buildProtocol(self, addr: IAddress | None) -> AdminConnection | None:
        """None refuses the client."""
        if len(self._connections) >= self._config.admin_max_connections and not self._make_room():
            if self._pace.is_due():
                _log.warning("refusing %s: admin.max.connections is reached", getattr(addr, "host", addr))
            return None
        connection: Any = AdminConnection(self, self._config.admin_max_request_bytes)
        connection.callLater = self.reactor.callLater
        made: AdminConnection = connection
        return made

    def _make_room(self) -> bool:
        """End whoever has been resting for longest: a probe of health must not wait for them."""
        resting = next((one for one in self._connections if not one.is_serving), None)
        if resting is None:
            return False
        del self._connections[resting]
        resting.transport.abortConnection()
        return True

    def connected(self, connection: AdminConnection) -> None:
        self._connections[connection] = None

    def answered(self, connection: AdminConnection) -> None:
        """It rests from now on."""
        if connection in self._connections:
            del self._connections[connection]
            self._connections[connection] = None

    def disconnected(self, connection: AdminConnection) -> None:
        self._connections.pop(connection, None)
        self._draining.note_disconnected()

    def drain(self) -> Deferred[None]:
        """Answer what is under way; fires when every client is gone."""
        return self._draining.begin()

    # --- serving ------------------------------------------------------------------------------------

    def respond(self, asked: Asked) -> Deferred[Answer]:
        """Never fails."""
        return Deferred.fromCoroutine(self._served_or_refused(asked)).addCallback(_with_headers)

    async def _served_or_refused(self, asked: Asked) -> Answer:
        try:
            return await self._served(asked)
        except Exception as error:
            return await self._refused(asked, _refusal_of(error))

    async def _refused(self, asked: Asked, refusal: Refusal) -> Answer:
        if self._show_refusal is not None and refusal.status != MISDIRECTED and is_for_people(asked):
            try:
                return await self._show_refusal(asked, refusal)
            except Exception:
                _log.exception("an error could not be shown as a page")
        return json_answer({"error": refusal.message}, refusal.status)

    async def _served(self, asked: Asked) -> Answer:
        if not is_host_allowed(asked.host, self._hosts):
            self._tell(asked, f"called by the name {asked.host!r}, see admin.allowed.hosts")
            raise Refusal(MISDIRECTED, "this server is not called by that name: see admin.allowed.hosts")
        if asked.method not in READING and not is_bearer_of(self._token, asked.authorization):
            self._tell(asked, f"{asked.method} {asked.path} without the token")
            raise Refusal(401, "this takes the token, as 'Authorization: Bearer ...': see admin.token.file")
        route, named = self._routes.find(asked)
        return await route.respond(named)

    def _tell(self, asked: Asked, reason: str) -> None:
        """Whoever has a wrong token may try many."""
        self._notes.tell(asked.peer, f"refused in the console: {reason}", logging.WARNING, by_host=True)


def _with_headers(answer: Answer) -> Answer:
    return replace(answer, headers={**HEADERS, **answer.headers})


def _refusal_of(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    for kind, status in STATUSES:
        if isinstance(error, kind):
            return Refusal(status, str(error))
    _log.error("a request could not be served", exc_info=error)
    return Refusal(500, "the server made a mistake; its log has more")
