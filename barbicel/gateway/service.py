"""The server: a broker and its listeners, from a configuration, under one reactor."""

from __future__ import annotations

import logging
from typing import Any

from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.logger import STDLibLogObserver, globalLogBeginner

from barbicel.config.listeners import Listener
from barbicel.config.settings import Config
from barbicel.disk import Disk
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.kafka.server import KafkaServer
from barbicel.gateway.twisted_types import BoundPort, Reactor

__all__ = ["Service", "run"]

_log = logging.getLogger(__name__)


class Service:
    """Opened before the reactor runs. When that stops, serving ends in order; then close `broker`."""

    def __init__(self, disk: Disk, config: Config, reactor: Reactor) -> None:
        """Raises BarbicelError: the directory is in use or damaged, a port is taken."""
        self._reactor = reactor
        self._config = config
        self.broker = Broker.open(disk, config, reactor)
        self._ports: list[BoundPort] = []
        self._server = KafkaServer(self.broker, config, reactor)
        try:
            self.kafka = self._listen(config.listeners[0], self._server)
        except BaseException:
            self.broker.close()
            raise
        reactor.callWhenRunning(self.broker.start)
        # The reactor goes on until what it returns has fired.
        reactor.addSystemEventTrigger("before", "shutdown", self._stop_serving)

    def _listen(self, listener: Listener, factory: Any) -> Listener:
        """The listener with the port that is really open."""
        try:
            port = self._reactor.listenTCP(listener.port, factory, backlog=1024, interface=listener.host)
        except CannotListenError as error:
            raise BarbicelError(f"cannot listen on {listener}: {error.socketError}") from error
        self._ports.append(port)
        return listener._replace(port=port.getHost().port)

    def _stop_serving(self) -> Deferred[Any]:
        """No new clients, no new requests; what was accepted is answered."""
        closed = [maybeDeferred(port.stopListening) for port in self._ports]
        return DeferredList([*closed, self._server.drain()])


def run(disk: Disk, config: Config) -> None:
    """Serve until SIGINT or SIGTERM, then stop in order. Raises BarbicelError if it cannot start, or cannot
    make everything durable at the end."""
    from twisted.internet import reactor  # here, because importing it installs it

    # What Twisted itself has to say goes where everything goes.
    logging.getLogger("twisted").setLevel(logging.WARNING)
    observer: Any = STDLibLogObserver()  # of an interface that is no type
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)
    running: Any = reactor  # the module is replaced by the reactor, which no type says
    service = Service(disk, config, running)
    _log.info("Kafka clients are served on %s, data is in %s", service.kafka, service.broker.data_directory)
    try:
        running.run()
    finally:
        service.broker.close()
    _log.info("stopped")
