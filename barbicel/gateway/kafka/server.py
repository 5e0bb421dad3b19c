"""What the connections of a Kafka listener share: limits, a byte budget, and the sweep for idle clients."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import ServerFactory
from twisted.internet.task import LoopingCall

from barbicel.config.settings import Config
from barbicel.gateway.kafka.api import Address
from barbicel.gateway.kafka.connection import KafkaConnection
from barbicel.gateway.twisted_types import Reactor

if TYPE_CHECKING:
    from barbicel.gateway.broker.broker import Broker

__all__ = ["KafkaServer"]

_log = logging.getLogger(__name__)

SWEEP_SECONDS = 5.0
# A client that began a request and then sends nothing for so long is gone, or means harm.
STALLED_SECONDS = 30.0


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
        self._paused: set[KafkaConnection] = set()
        self._queued_bytes = 0
        self._sweep = LoopingCall(self._close_idle)
        self._sweep.clock = reactor  # type: ignore[assignment]  # of an interface that is no type

    def startFactory(self) -> None:
        self._sweep.start(SWEEP_SECONDS, now=False)

    def stopFactory(self) -> None:
        if self._sweep.running:
            self._sweep.stop()
        for connection in list(self._connections):
            connection.transport.abortConnection()

    def seconds(self) -> float:
        return self._reactor.seconds()

    def buildProtocol(self, addr: IAddress | None) -> KafkaConnection | None:
        """None refuses the client."""
        assert isinstance(addr, IPv4Address | IPv6Address)
        if len(self._connections) >= self._config.max_connections:
            _log.warning("refusing %s:%d: max.connections is reached", addr.host, addr.port)
            return None
        if self._by_host[addr.host] >= self._config.max_connections_per_ip:
            _log.warning("refusing %s:%d: max.connections.per.ip is reached", addr.host, addr.port)
            return None
        return KafkaConnection(self, Address(addr.host, addr.port))

    def connected(self, connection: KafkaConnection) -> None:
        connection.active_at_s = self.seconds()
        self._connections.add(connection)
        self._by_host[connection.peer.host] += 1

    def disconnected(self, connection: KafkaConnection) -> None:
        self._connections.discard(connection)
        self._paused.discard(connection)
        self._by_host[connection.peer.host] -= 1
        if not self._by_host[connection.peer.host]:
            del self._by_host[connection.peer.host]

    def _close_idle(self) -> None:
        now_s = self.seconds()
        idle_s = self._config.connections_max_idle_ms / 1000
        for connection in list(self._connections):
            quiet_s = now_s - connection.active_at_s
            if connection.is_within_a_frame and quiet_s > STALLED_SECONDS and connection not in self._paused:
                connection.close(f"within a request nothing arrived for {quiet_s:.0f} s")
            elif quiet_s > idle_s and not connection.is_waiting:
                connection.close("idle for longer than connections.max.idle.ms")

    # --- the byte budget of all connections ---------------------------------------------------------

    @property
    def has_room(self) -> bool:
        limit = self._config.queued_max_request_bytes
        return limit < 0 or self._queued_bytes < limit

    def take_bytes(self, size: int) -> None:
        self._queued_bytes += size

    def release_bytes(self, size: int) -> None:
        had_room = self.has_room
        self._queued_bytes -= size
        if not had_room and self.has_room:
            for connection in list(self._paused):
                connection.resume_if_room()

    def paused(self, connection: KafkaConnection) -> None:
        self._paused.add(connection)

    def resumed(self, connection: KafkaConnection) -> None:
        self._paused.discard(connection)
