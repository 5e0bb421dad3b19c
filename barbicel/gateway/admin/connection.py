"""HTTP on a socket: Twisted's parser with limits of size and time, requests out of it, answers into it.

One request of a connection is served at a time. A request that is too large is refused when it says so, or
as soon as it has sent too much; one that does not arrive in time ends its connection.
"""

from __future__ import annotations

import logging
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, Request

from barbicel.gateway.admin.exchange import Answer, Asked
from barbicel.gateway.twisted_types import Timer, Transport

if TYPE_CHECKING:
    from barbicel.gateway.admin.server import AdminServer

__all__ = ["AdminConnection", "AdminRequest"]

_log = logging.getLogger(__name__)

# A request has so long from its first byte to its last; between two of them a connection may rest.
REQUEST_SECONDS = 15.0
IDLE_SECONDS = 75
MAX_QUERY_FIELDS = 50
# What Twisted has no words for, or old ones.
REASONS = {413: b"Content Too Large", 421: b"Misdirected Request"}
TOO_LARGE = b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class AdminRequest(Request):
    """One request. Twisted would put large bodies into files, and look into forms: neither is wanted."""

    def __init__(self, channel: AdminConnection) -> None:
        super().__init__(channel, False)
        self._connection = channel
        self._received = BytesIO()
        self.is_refused = False
        self.is_lost = False

    def gotLength(self, length: int | None) -> None:
        """None: it does not say, so it is counted."""
        if length is not None and length > self._connection.max_request_bytes:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:
        if self.is_refused:
            return
        self._received.write(data)
        if self._received.tell() > self._connection.max_request_bytes:
            self._refuse()

    def _refuse(self) -> None:
        self.is_refused = True
        self._received = BytesIO()
        self.requestHeaders.removeHeader(b"Expect")  # nobody is asked to go on
        self._connection.refuse(TOO_LARGE)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        self.method, self.uri, self.clientproto = command, path, version
        if not self.is_refused:
            self._connection.serve(self)

    def asked(self) -> Asked:
        path, _, query = self.uri.decode("latin-1").partition("?")
        try:
            fields = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS))
        except ValueError:
            fields = {}
        return Asked(
            method=self.method.decode("latin-1"),
            path=path,
            query=fields,
            body=self._received.getvalue(),
            host=self._header(b"Host"),
            authorization=self._header(b"Authorization"),
            accept=self._list_header(b"Accept"),
            peer=self._peer(),
        )

    def _peer(self) -> tuple[str, int]:
        own: Any = self
        address = own.getClientAddress()
        return address.host, address.port

    def _header(self, name: bytes) -> str | None:
        """Sent twice it is not known which one is meant."""
        found = self.requestHeaders.getRawHeaders(name) or []
        return found[0].decode("latin-1") if len(found) == 1 else None

    def _list_header(self, name: bytes) -> str:
        """Sent twice it is one list (RFC 9110, 5.3)."""
        return b",".join(self.requestHeaders.getRawHeaders(name) or []).decode("latin-1")

    def answer(self, answer: Answer) -> None:
        if self.is_lost:
            return
        self.setResponseCode(answer.status, REASONS.get(answer.status))
        for name, value in answer.headers.items():
            self.responseHeaders.setRawHeaders(name, [value])
        self.responseHeaders.setRawHeaders("Content-Type", [answer.content_type])
        self.responseHeaders.setRawHeaders("Content-Length", [str(len(answer.body))])
        own: Any = self  # Twisted's methods have no types
        own.write(answer.body)
        own.finish()

    def connectionLost(self, reason: Failure) -> None:
        self.is_lost = True
        own: Any = super()
        own.connectionLost(reason)


class AdminConnection(HTTPChannel):
    """One client. `server` knows what all of them share."""

    transport: Transport  # type: ignore[assignment]  # as zope's interface it is no type

    def __init__(self, server: AdminServer, max_request_bytes: int) -> None:
        own: Any = super()
        own.__init__()
        self._server = server
        self.max_request_bytes = max_request_bytes
        factory: Any = _make_request
        self.requestFactory = factory
        self.timeOut = IDLE_SECONDS
        self._deadline: Timer | None = None
        self.is_serving = False

    def connectionMade(self) -> None:
        self._server.connected(self)
        own: Any = super()
        own.connectionMade()

    def dataReceived(self, data: bytes) -> None:
        if self._deadline is None and not self.is_serving:
            self._deadline = self._server.reactor.callLater(REQUEST_SECONDS, self._time_out)
        own: Any = super()
        own.dataReceived(data)

    def allContentReceived(self) -> None:
        self._end_deadline()
        own: Any = super()
        own.allContentReceived()

    def _end_deadline(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None

    def _time_out(self) -> None:
        self._deadline = None
        self.transport.abortConnection()

    def refuse(self, answer: bytes) -> None:
        """Say so and hang up; what still comes is not read."""
        self._end_deadline()
        self.persistent = False
        self.transport.write(answer)
        self._hang_up()

    def serve(self, request: AdminRequest) -> None:
        self.is_serving = True
        answered = self._server.respond(request.asked()).addCallback(self._answer, request)
        answered.addErrback(lambda failure: _log.error("an answer was not sent", exc_info=failure.value))

    def _answer(self, answer: Answer, request: AdminRequest) -> None:
        self.is_serving = False
        self._server.answered(self)
        request.answer(answer)

    def drain(self) -> None:
        """Close as soon as what is under way is answered."""
        if self.is_serving:
            self.persistent = False
        else:
            self._hang_up()

    def _hang_up(self) -> None:
        own: Any = self
        own.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._end_deadline()
        own: Any = super()
        own.connectionLost(reason)
        self._server.disconnected(self)


def _make_request(channel: AdminConnection, _: int) -> AdminRequest:
    return AdminRequest(channel)
