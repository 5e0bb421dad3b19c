"""Kafka's listeners: what a port is opened with, for each protocol of the setting `listeners`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import ServerFactory

from barbicel.config.listeners import Listener
from barbicel.gateway.kafka.api import Address
from barbicel.gateway.kafka.connection import KafkaConnection
from barbicel.gateway.kafka.server import KafkaServer

if TYPE_CHECKING:
    from barbicel.gateway.access.access import Access
    from barbicel.gateway.kafka.session import Session

__all__ = ["kafka_factory"]


def kafka_factory(server: KafkaServer, listener: Listener, access: Access | None) -> Any:
    """What to listen with. Without access control it is the server itself."""
    if access is None:
        return server
    plain = _Listening(server, listener, access)
    return access.with_tls(plain, server.broker.notes) if listener.has_tls else plain


class _Listening(ServerFactory):
    """Connections of one listener, whose clients have sessions."""

    noisy = False

    def __init__(self, server: KafkaServer, listener: Listener, access: Access) -> None:
        self._server = server
        self._listener = listener
        self._access = access

    def startFactory(self) -> None:
        self._server.startFactory()

    def stopFactory(self) -> None:
        self._server.stopFactory()

    def buildProtocol(self, addr: IAddress | None) -> KafkaConnection | None:
        return self._server.build(addr, self._new_session)

    def _new_session(self, peer: Address) -> Session:
        from barbicel.gateway.kafka.session import Session

        return Session(self._access, self._listener, peer)
