"""The server: a broker and its front ends, from a configuration, under one reactor."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.logger import STDLibLogObserver, globalLogBeginner

from barbicel.codecs.kafka.messages import load_all
from barbicel.config.listeners import Listener
from barbicel.config.settings import Config
from barbicel.disk import Disk
from barbicel.errors import BarbicelError
from barbicel.gateway.allocator import keep_large_buffers
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.descriptors import Descriptors
from barbicel.gateway.event_loop import install_reactor, listen
from barbicel.gateway.kafka.server import KafkaServer
from barbicel.gateway.kestrel.front_end import KestrelFrontEnd
from barbicel.gateway.open_file_limit import raise_open_file_limit
from barbicel.gateway.twisted_types import BoundPort, Reactor

__all__ = ["Service", "run"]

_log = logging.getLogger(__name__)

BACKLOG = 1024
# After the first requests, which are not to wait for what others need.
LOAD_AFTER_SECONDS = 1.0


class Service:
    """Opened before the reactor runs. When that stops, serving ends in order; then close `broker`."""

    def __init__(
        self,
        disk: Disk,
        config: Config,
        reactor: Reactor,
        load: Callable[[], Config],
        descriptors: Descriptors | None = None,
    ) -> None:
        """`load` reads the settings anew. Raises BarbicelError: the directory is in use or damaged, a port is
        taken, `descriptors` are too few."""
        self._reactor = reactor
        self.broker = Broker.open(disk, config, reactor, descriptors=descriptors)
        self._ports: list[BoundPort] = []
        try:
            self._kafka = KafkaServer(self.broker, config, reactor)
            self.kafka = self._listen(config.listeners[0], self._kafka)
            self._kestrel: KestrelFrontEnd | None = None
            # By the names of the protocols.
            self.kestrel: dict[str, Listener] = {}
            if config.kestrel_enable:
                self._kestrel = KestrelFrontEnd(self.broker, config, load, self._stop)
                for name, port, factory in self._kestrel.listenings():
                    self.kestrel[name] = self._listen(
                        Listener(name.upper(), config.kestrel_host, port), factory
                    )
        except BaseException:
            self._close_ports()
            self.broker.close()
            raise
        reactor.callWhenRunning(self._start)
        # The reactor goes on until what it returns has fired.
        reactor.addSystemEventTrigger("before", "shutdown", self._stop_serving)

    def _start(self) -> None:
        self.broker.start()
        if self._kestrel is not None:
            self._kestrel.start()

    def _stop(self) -> None:
        """A client has asked for it, and may."""
        _log.info("stopping, because a client asked for it")
        self._reactor.stop()

    def _listen(self, listener: Listener, factory: Any) -> Listener:
        """The listener with the port that is really open."""
        try:
            port = listen(self._reactor, listener.port, factory, backlog=BACKLOG, host=listener.host)
        except CannotListenError as error:
            raise BarbicelError(f"cannot listen on {listener}: {error.socketError}") from error
        self._ports.append(port)
        return listener._replace(port=port.getHost().port)

    def _stop_serving(self) -> Deferred[Any]:
        """No new clients, no new requests; what was accepted is answered."""
        draining = [self._kafka.drain()]
        if self._kestrel is not None:
            draining.append(self._kestrel.drain())
        return DeferredList([*self._close_ports(), *draining])

    def _close_ports(self) -> list[Deferred[Any]]:
        return [maybeDeferred(port.stopListening) for port in self._ports]


def run(disk: Disk, config: Config, load: Callable[[], Config]) -> None:
    """Serve until SIGINT or SIGTERM, then stop in order. Raises BarbicelError if it cannot start, or cannot
    make everything durable at the end. `load` reads the settings anew, if a client asks for it and may."""
    running = install_reactor()
    keep_large_buffers()
    # What Twisted itself has to say goes where everything goes.
    logging.getLogger("twisted").setLevel(logging.WARNING)
    observer: Any = STDLibLogObserver()  # of an interface that is no type
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)
    service = Service(disk, config, running, load, Descriptors(raise_open_file_limit()))
    running.callLater(LOAD_AFTER_SECONDS, partial(running.callInThread, load_all))
    # What the start has made stays; looking through all of it now and then would only make clients wait.
    gc.freeze()
    for name, listener in service.kestrel.items():
        _log.info("%s clients are served on %s:%d", name, listener.host, listener.port)
    _log.info("Kafka clients are served on %s, data is in %s", service.kafka, service.broker.data_directory)
    try:
        running.run()
    finally:
        service.broker.close()
    _log.info("stopped")
