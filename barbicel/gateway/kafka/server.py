"""What the connections of a Kafka listener share: limits, byte budgets, and the sweep for idle clients."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import ServerFactory
from twisted.internet.task import LoopingCall

from barbicel.config.settings import Config
from barbicel.gateway.kafka.answer_budget import AnswerBudget
from barbicel.gateway.kafka.api import Address
from barbicel.gateway.kafka.connection import KafkaConnection
from barbicel.gateway.kafka.turns import Turns
from barbicel.gateway.twisted_types import Reactor, Timer

if TYPE_CHECKING:
    from barbicel.gateway.broker.broker import Broker

__all__ = ["KafkaServer"]

_log = logging.getLogger(__name__)

SWEEP_SECONDS = 5.0
# A client that began a request and then sends nothing for so long is gone, or means harm.
STALLED_SECONDS = 30.0
# One that sends slower than this, after those seconds, means harm too.
SLOWEST_BYTES_A_SECOND = 16 << 10
# When the server stops: how long requests that were accepted have to be answered.
DRAIN_SECONDS = 5.0


class KafkaServer(ServerFactory):
    """Makes a KafkaConnection for every client that is let in."""

    noisy = False

    def __init__(self, broker: Broker, config: Config, reactor: Reactor) -> None:
        self.broker = broker
        self.max_request_bytes = config.socket_request_max_bytes
        self._config = config
        self._reactor = reactor
        self._connections: set[KafkaConnection] = set()
        self._by_host: Counter[str] = Counter()
        # Those who wait for room in the budget, the first first; and the one that need not.
        self._crowded: dict[KafkaConnection, None] = {}
        self._favoured: KafkaConnection | None = None
        self._queued_bytes = 0
        self.turns = Turns(reactor)
        self.answers = AnswerBudget(config.queued_max_request_bytes)
        self._drained: Deferred[None] | None = None
        self._drain_timer: Timer | None = None
        self._sweep = LoopingCall(self._close_idle)
        self._sweep.clock = reactor  # type: ignore[assignment]  # of an interface that is no type

    def startFactory(self) -> None:
        self._sweep.start(SWEEP_SECONDS, now=False)

    def stopFactory(self) -> None:
        if self._sweep.running:
            self._sweep.stop()

    def seconds(self) -> float:
        return self._reactor.seconds()

    # --- who is connected ---------------------------------------------------------------------------

    def buildProtocol(self, addr: IAddress | None) -> KafkaConnection | None:
        """None refuses the client."""
        assert isinstance(addr, IPv4Address | IPv6Address)
        if len(self._connections) >= self._config.max_connections:
            _log.warning("refusing %s:%d: max.connections is reached", addr.host, addr.port)
            return None
        if self.broker.descriptors.refuses_client():
            return None
        if self._by_host[addr.host] >= self._config.max_connections_per_ip:
            _log.warning("refusing %s:%d: max.connections.per.ip is reached", addr.host, addr.port)
            return None
        return KafkaConnection(self, Address(addr.host, addr.port))

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
        if self._drained is not None and not self._connections:
            self._end_drain(self._drained)

    def _close_idle(self) -> None:
        now_s = self.seconds()
        idle_s = self._config.connections_max_idle_ms / 1000
        for connection in list(self._connections):
            quiet_s = now_s - connection.active_at_s
            frame_s = now_s - connection.frame_since_s
            allowed_s = STALLED_SECONDS + connection.wanted_bytes / SLOWEST_BYTES_A_SECOND
            is_sending = connection.is_within_a_frame and not connection.is_paused
            if is_sending and quiet_s > STALLED_SECONDS:
                connection.close(f"within a request nothing arrived for {quiet_s:.0f} s")
            elif is_sending and frame_s > allowed_s:
                connection.close(f"a request of {connection.wanted_bytes} bytes took {frame_s:.0f} s")
            elif quiet_s > idle_s and not connection.is_waiting:
                connection.close("idle for longer than connections.max.idle.ms")

    # --- stopping -----------------------------------------------------------------------------------

    def drain(self) -> Deferred[None]:
        """Serve nothing new; fires when what was accepted is answered and every client is gone."""
        if not self._connections:
            return succeed(None)
        drained = self._drained = Deferred()
        self._drain_timer = self._reactor.callLater(DRAIN_SECONDS, self._abort_all)
        for connection in list(self._connections):
            connection.drain()
        return drained

    def _abort_all(self) -> None:
        for connection in list(self._connections):
            connection.transport.abortConnection()
        if self._drained is not None:
            self._end_drain(self._drained)

    def _end_drain(self, drained: Deferred[None]) -> None:
        self._drained = None
        if self._drain_timer is not None and self._drain_timer.active():
            self._drain_timer.cancel()
        drained.callback(None)

    # --- the budget of all connections for what has arrived -----------------------------------------

    @property
    def has_room(self) -> bool:
        return self._queued_bytes < self._config.queued_max_request_bytes

    def take_bytes(self, size: int) -> None:
        self._queued_bytes += size

    def release_bytes(self, size: int) -> None:
        had_room = self.has_room
        self._queued_bytes -= size
        if not had_room and self.has_room:
            crowded, self._crowded = self._crowded, {}
            for connection in crowded:
                connection.go_on()

    def may_read(self, connection: KafkaConnection) -> bool:
        """If not, the connection is called when it may.

        Requests that have begun could use up the budget, none of them whole. So one may always be finished.
        """
        if self._favoured is connection and not connection.is_within_a_frame:
            self._favour_another()
        if self.has_room or self._favoured is connection:
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
