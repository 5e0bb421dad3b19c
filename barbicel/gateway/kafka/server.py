"""What the connections of a Kafka listener share: limits, byte budgets, and the sweep for idle clients."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import ServerFactory
from twisted.internet.task import LoopingCall

from barbicel.clock import steady_clock_ms
from barbicel.config.settings import Config
from barbicel.gateway.draining import Draining
from barbicel.gateway.kafka.answer_budget import AnswerBudget
from barbicel.gateway.kafka.api import Address
from barbicel.gateway.kafka.connection import KafkaConnection
from barbicel.gateway.kafka.turns import Turns
from barbicel.gateway.log_pace import LogPace
from barbicel.gateway.twisted_types import Reactor, Timer

if TYPE_CHECKING:
    from barbicel.gateway.broker.broker import Broker
    from barbicel.gateway.kafka.session import Session

__all__ = ["KafkaServer"]

_log = logging.getLogger(__name__)

SWEEP_SECONDS = 5.0


class Pace(NamedTuple):
    """A client that began a request and then sends nothing for so long is gone, or means harm; and one that
    has sent less than so much, by and large, when that time is over."""

    silent_s: float
    bytes_a_second: int


USUAL = Pace(30.0, 16 << 10)
# For those who hold much of what all have together, when nothing is left and others wait for them.
CROWDED = Pace(5.0, 256 << 10)


class KafkaServer(ServerFactory):
    """Makes a KafkaConnection for every client that is let in."""

    noisy = False

    def __init__(self, broker: Broker, config: Config, reactor: Reactor) -> None:
        self.broker = broker
        self.max_request_bytes = config.socket_request_max_bytes
        self._config = config
        self._reactor = reactor
        self.seconds = reactor.seconds
        self._connections: set[KafkaConnection] = set()
        self._by_host: Counter[str] = Counter()
        # Those who wait for room in the budget, the first first; and the one that need not.
        self._crowded: dict[KafkaConnection, None] = {}
        self._favoured: KafkaConnection | None = None
        self._queued_bytes = 0
        # Within the budget.
        self.has_room = True
        self._pace = LogPace(steady_clock_ms)
        self.turns = Turns(reactor)
        self.answers = AnswerBudget(config.queued_max_request_bytes)
        # Those who have answers to read, the one that has read nothing for longest first.
        self._unread: dict[KafkaConnection, None] = {}
        self._draining = Draining(self._connections, reactor)
        self._sweep = LoopingCall(self._close_idle)
        self._sweep.clock = reactor  # type: ignore[assignment]  # of an interface that is no type

    def startFactory(self) -> None:
        if not self._sweep.running:
            self._sweep.start(SWEEP_SECONDS, now=False)

    def stopFactory(self) -> None:
        if self._sweep.running:
            self._sweep.stop()

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        return self._reactor.callLater(seconds, function)

    # --- who is connected ---------------------------------------------------------------------------

    def buildProtocol(self, addr: IAddress | None) -> KafkaConnection | None:
        """None refuses the client."""
        access = self.broker.access
        if access is None:
            return self.build(addr, None)
        # Somebody has set a quota since this server has begun without any access control.
        from barbicel.gateway.kafka.session import Session

        return self.build(addr, partial(Session, access, self._config.listeners[0]))

    def build(
        self, addr: IAddress | None, new_session: Callable[[Address], Session] | None
    ) -> KafkaConnection | None:
        """The same on a listener where clients have sessions."""
        assert isinstance(addr, IPv4Address | IPv6Address)
        if len(self._connections) >= self._config.max_connections:
            self._tell_refusal(addr, "max.connections")
            return None
        if self.broker.descriptors.refuses_client():
            return None
        if self._by_host[addr.host] >= self._config.max_connections_per_ip:
            self._tell_refusal(addr, "max.connections.per.ip")
            return None
        peer = Address(addr.host, addr.port)
        return KafkaConnection(self, peer, None if new_session is None else new_session(peer))

    def _tell_refusal(self, addr: IPv4Address | IPv6Address, setting: str) -> None:
        """Whoever is refused comes back at once."""
        if self._pace.is_due():
            _log.warning("refusing %s:%d: %s is reached", addr.host, addr.port, setting)

    def connected(self, connection: KafkaConnection) -> None:
        connection.active_at_s = self.seconds()
        self._connections.add(connection)
        self.broker.descriptors.clients += 1
        self._by_host[connection.peer.host] += 1

    def disconnected(self, connection: KafkaConnection) -> None:
        self._connections.discard(connection)
        self.broker.descriptors.clients -= 1
        self._crowded.pop(connection, None)
        self.turns.leave(connection)
        self._by_host[connection.peer.host] -= 1
        if not self._by_host[connection.peer.host]:
            del self._by_host[connection.peer.host]
        if self._favoured is connection:
            self._favour_another()
        self._draining.note_disconnected()

    def _close_idle(self) -> None:
        now_s = self.seconds()
        for connection in list(self._connections):
            reason = self._reason_to_close(connection, now_s - connection.active_at_s, now_s)
            if reason is not None:
                connection.close(reason)

    def _reason_to_close(self, connection: KafkaConnection, quiet_s: float, now_s: float) -> str | None:
        """Nobody is blamed for silence who is not read from, unless others need the room that it takes."""
        is_in_the_way = connection.holds_much and not self.has_room
        pace = CROWDED if is_in_the_way else USUAL
        frame_s, arrived_bytes = now_s - connection.frame_since_s, connection.frame_bytes
        if connection.is_within_a_frame and not connection.is_paused:
            if quiet_s > pace.silent_s:
                return f"within a request nothing arrived for {quiet_s:.0f} s"
            if frame_s > pace.silent_s + arrived_bytes / pace.bytes_a_second:
                return f"within a request {arrived_bytes} bytes took {frame_s:.0f} s"
        if is_in_the_way and connection.is_kept_back and quiet_s > pace.silent_s:
            return "it sends much behind a request that waits, and there is no room"
        if connection.unread_bytes and quiet_s > USUAL.silent_s and not self.answers.has_room:
            return f"its answers were not read for {quiet_s:.0f} s, and there is no room"
        # A client that waits for an answer may be silent. That it is gone is seen as long as it is read from.
        is_idle = connection.is_paused or not connection.is_waiting
        if is_idle and quiet_s > self._config.connections_max_idle_ms / 1000:
            return "idle for longer than connections.max.idle.ms"
        return None

    # --- stopping -----------------------------------------------------------------------------------

    def drain(self) -> Deferred[None]:
        """Serve nothing new; fires when what was accepted is answered and every client is gone."""
        return self._draining.begin()

    # --- the budget of all connections for what they have not read -----------------------------------

    def note_unread(self, connection: KafkaConnection, grown_bytes: int) -> None:
        """It has so much more to read than before, or less. Who has read nothing for longest gives way."""
        self.answers.hold(grown_bytes)
        if grown_bytes < 0:
            self._unread.pop(connection, None)
        if connection.unread_bytes:
            self._unread.setdefault(connection)
        if grown_bytes > 0:
            self._close_unread()

    def _close_unread(self) -> None:
        while self.answers.is_overdrawn and self._unread:
            slowest = next(iter(self._unread))
            del self._unread[slowest]
            slowest.close("its answers are not read, and there is no room for more")

    # --- the budget of all connections for what has arrived -----------------------------------------

    def take_bytes(self, size: int) -> None:
        self._queued_bytes += size
        self.has_room = self._queued_bytes < self._config.queued_max_request_bytes

    def release_bytes(self, size: int) -> None:
        had_room = self.has_room
        self._queued_bytes -= size
        self.has_room = self._queued_bytes < self._config.queued_max_request_bytes
        if self.has_room and not had_room:
            crowded, self._crowded = self._crowded, {}
            for connection in crowded:
                connection.go_on()

    def may_read(self, connection: KafkaConnection) -> bool:
        """If not, the connection is called when it may.

        Requests that have begun could use up the budget, none of them whole. So one may always be finished,
        and whoever holds little may always go on: it waits for nobody who sends half of something large.
        """
        if self.has_room and self._favoured is None:
            return True
        if self._favoured is connection and not connection.is_within_a_frame:
            self._favour_another()
        if self.has_room or not connection.holds_much or self._favoured is connection:
            return True
        if self._favoured is None and connection.is_within_a_frame:
            self._favoured = connection
            return True
        self._crowded[connection] = None
        return False

    def _favour_another(self) -> None:
        self._favoured = next((one for one in self._crowded if one.is_within_a_frame), None)
        if self._favoured is not None:
            del self._crowded[self._favoured]
            self._favoured.go_on()
