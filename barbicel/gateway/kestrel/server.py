"""Kestrel's clients, of both protocols: who is let in, who is sent away, and how serving ends."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Protocol, ServerFactory
from twisted.internet.task import LoopingCall

from barbicel.clock import steady_clock_ms
from barbicel.gateway.broker.client_notes import ClientNotes
from barbicel.gateway.descriptors import Descriptors
from barbicel.gateway.draining import Draining
from barbicel.gateway.kestrel.budget import LITTLE_BYTES, ReadingBudget, UnreadBudget
from barbicel.gateway.kestrel.connection import Connection
from barbicel.gateway.kestrel.dialect import Address, Dialect
from barbicel.gateway.kestrel.shared import Shared
from barbicel.gateway.log_pace import LogPace
from barbicel.gateway.twisted_types import Reactor, Transport

if TYPE_CHECKING:
    from barbicel.gateway.kestrel.login import LoginGate

__all__ = ["KestrelServer", "Listening"]

_log = logging.getLogger(__name__)

SWEEP_SECONDS = 5.0
# A client that began a request and then sends nothing for so long is gone, or means harm.
STALLED_SECONDS = 30.0
# The same for one that holds much, when memory for requests is short.
SHORT_SECONDS = 5.0
# One that sends slower than this, after those seconds, means harm too.
SLOWEST_BYTES_A_SECOND = 16 << 10


class KestrelServer:
    """`listening(dialect)` is what a port is opened with; both protocols share the limits."""

    def __init__(self, shared: Shared, reactor: Reactor, descriptors: Descriptors | None = None) -> None:
        self.shared = shared
        self.descriptors = descriptors or Descriptors()
        self.budget = ReadingBudget(shared.config.queued_max_request_bytes)
        self.notes = ClientNotes(shared.clock)
        self._pace = LogPace(steady_clock_ms)
        self.unread = UnreadBudget(shared.config.queued_max_request_bytes)
        self._reactor = reactor
        # Where clients have to say who they are.
        self.gate: LoginGate | None = None
        self._connections: set[Connection] = set()
        self._by_host: Counter[str] = Counter()
        # Those that have answers to send when the turn is over.
        self._due: list[Connection] = []
        self._draining = Draining(self._connections, reactor)
        self._listening = 0
        self._sweep = LoopingCall(self._close_idle)
        self._sweep.clock = reactor  # type: ignore[assignment]  # of an interface that is no type

    def listening(self, dialect: Dialect, *, has_tls: bool = False) -> Listening:
        return Listening(self, dialect, has_tls=has_tls)

    def start(self) -> None:
        """A port is open."""
        self._listening += 1
        if not self._sweep.running:
            self._sweep.start(SWEEP_SECONDS, now=False)

    def stop(self) -> None:
        """A port is closed."""
        self._listening -= 1
        if not self._listening and self._sweep.running:
            self._sweep.stop()

    # --- who is connected ---------------------------------------------------------------------------

    def refusal_of(self, host: str) -> str | None:
        """The setting for which somebody cannot be let in."""
        config = self.shared.config
        if len(self._connections) >= config.kestrel_max_connections:
            return "kestrel.max.connections"
        if self._by_host[host] >= config.kestrel_max_connections_per_ip:
            return "kestrel.max.connections.per.ip"
        return None

    def connected(self, connection: Connection) -> None:
        connection.active_at_s = self.shared.seconds()
        self._connections.add(connection)
        self._by_host[connection.peer.host] += 1
        self.descriptors.clients += 1
        self.shared.counters.curr_connections += 1
        self.shared.counters.total_connections += 1

    def tell_refusal(self, host: str, port: int, setting: str) -> None:
        """Whoever is refused comes back at once."""
        if self._pace.is_due():
            _log.warning("refusing %s:%d: %s is reached", host, port, setting)

    def disconnected(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self.descriptors.clients -= 1
        self.shared.counters.curr_connections -= 1
        self._by_host[connection.peer.host] -= 1
        if not self._by_host[connection.peer.host]:
            del self._by_host[connection.peer.host]
        self.budget.leave(connection)
        self._draining.note_disconnected()

    # --- answering ----------------------------------------------------------------------------------

    def flush_soon(self, connection: Connection) -> None:
        """When everything of this turn is answered, the connection is flushed."""
        self._due.append(connection)
        if len(self._due) == 1:
            self._reactor.callLater(0, self._flush_due)

    def _flush_due(self) -> None:
        due, self._due = self._due, []
        for connection in due:
            connection.flush()

    # --- who is sent away ---------------------------------------------------------------------------

    def _close_idle(self) -> None:
        now_s = self.shared.seconds()
        idle_s = self.shared.config.kestrel_client_timeout_ms / 1000
        for connection in list(self._connections):
            is_short = self.budget.is_full and connection.held_bytes >= LITTLE_BYTES
            reason = _reason_to_close(
                connection, now_s, idle_s, SHORT_SECONDS if is_short else STALLED_SECONDS
            )
            if reason is not None:
                connection.close(reason)

    # --- stopping -----------------------------------------------------------------------------------

    def drain(self) -> Deferred[None]:
        """Serve nothing new; fires when what was accepted is answered and every client is gone."""
        self.shared.status.go_down()
        return self._draining.begin()


def _reason_to_close(connection: Connection, now_s: float, idle_s: float, stalled_s: float) -> str | None:
    quiet_s = now_s - connection.active_at_s
    request_s = now_s - connection.request_since_s
    if connection.is_leaving:
        return "its last answer is not read" if quiet_s > STALLED_SECONDS else None
    if connection.is_within_a_request and not connection.is_paused:
        if quiet_s > stalled_s:
            return f"within a request nothing arrived for {quiet_s:.0f} s"
        if request_s > stalled_s + connection.held_bytes / SLOWEST_BYTES_A_SECOND:
            return f"{connection.held_bytes} bytes of a request took {request_s:.0f} s"
        return None
    if idle_s and quiet_s > idle_s and (connection.is_unread or not connection.is_busy):
        return "idle for longer than kestrel.client.timeout.ms"
    return None


class Listening(ServerFactory):
    """Makes a Connection for every client that is let in; any other is told so."""

    noisy = False

    def __init__(self, server: KestrelServer, dialect: Dialect, *, has_tls: bool = False) -> None:
        self._server = server
        self._dialect = dialect
        self._has_tls = has_tls

    def startFactory(self) -> None:
        self._server.start()

    def stopFactory(self) -> None:
        self._server.stop()

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        assert isinstance(addr, IPv4Address | IPv6Address)
        if self._server.descriptors.refuses_client():
            return self._refused()
        refusal = self._server.refusal_of(addr.host)
        if refusal is not None:
            self._server.tell_refusal(addr.host, addr.port, refusal)
            return self._refused()
        connection = Connection(self._server, Address(addr.host, addr.port), self._dialect)
        if self._server.gate is not None:
            self._server.gate.guard(connection)
        return connection

    def _refused(self) -> Protocol | None:
        """With TLS there is nothing to be told before a handshake, for which the client could take its time:
        it would have the open file that there is no room for."""
        return None if self._has_tls else _Refused(self._dialect.too_many)


class _Refused(Protocol):
    """A client for which there is no room."""

    transport: Transport  # type: ignore[assignment]  # as zope's interface it is no type

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connectionMade(self) -> None:
        self.transport.write(self._answer)
        self.transport.loseConnection()
