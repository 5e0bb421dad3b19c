"""The server: a broker and its front ends, from a configuration, under one reactor."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.logger import STDLibLogObserver, globalLogBeginner

from barbicel import __version__
from barbicel.codecs.kafka.messages import load_all
from barbicel.config.listeners import Listener
from barbicel.config.security_settings import ways_past_acls
from barbicel.config.settings import Config
from barbicel.disk import Disk
from barbicel.errors import BarbicelError
from barbicel.gateway.access.opening import open_access_if_needed
from barbicel.gateway.admin.front_end import AdminFrontEnd
from barbicel.gateway.allocator import keep_large_buffers
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.descriptors import Descriptors
from barbicel.gateway.event_loop import install_reactor, listen
from barbicel.gateway.kafka.listening import kafka_factory
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
            self._access = open_access_if_needed(self.broker)
            self._kafka = KafkaServer(self.broker, config, reactor)
            self.kafka = tuple(self._listen_to_kafka(listener) for listener in config.listeners)
            self._kestrel: KestrelFrontEnd | None = None
            # By the names of the protocols.
            self.kestrel: dict[str, Listener] = {}
            if config.kestrel_enable:
                self._kestrel = KestrelFrontEnd(self.broker, config, load, self._stop)
                for name, port, factory in self._kestrel.listenings():
                    self.kestrel[name] = self._listen(
                        Listener(name.upper(), config.kestrel_host, port), factory
                    )
            self.admin_listener: Listener | None = None
            self.admin: AdminFrontEnd | None = None
            if config.admin_enable:
                queues = None if self._kestrel is None else self._kestrel.queues
                self.admin = AdminFrontEnd(self.broker, config, queues)
                listener = Listener("HTTP", config.admin_host, config.admin_port)
                self.admin_listener = self._listen(listener, self.admin.server)
        except BaseException:
            self._close_ports()
            self.broker.close()
            raise
        reactor.callWhenRunning(self._start)
        # The reactor goes on until what it returns has fired.
        reactor.addSystemEventTrigger("before", "shutdown", self._stop_serving)

    def _listen_to_kafka(self, listener: Listener) -> Listener:
        return self._listen(listener, kafka_factory(self._kafka, listener, self._access))

    def _start(self) -> None:
        for way in ways_past_acls(self.broker.config):
            _log.warning("%s: %s", *way)
        self.broker.start()
        if self._access is not None:
            self._access.start(self.broker.read_cold)
        if self._kestrel is not None:
            self._kestrel.start()
        if self.admin is not None:
            self.admin.start()

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
        _log.info("stopping: what was accepted is answered, and everything is made durable")
        if self._access is not None:
            self._access.stop()
        draining = [self._kafka.drain()]
        if self._kestrel is not None:
            draining.append(self._kestrel.drain())
        if self.admin is not None:
            draining.append(self.admin.drain())
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
    _log.info("Barbicel %s starts, process %d", __version__, os.getpid())
    descriptors = Descriptors(raise_open_file_limit(), is_tiered=config.remote_log_storage_system_enable)
    service = Service(disk, config, running, load, descriptors)
    running.callLater(LOAD_AFTER_SECONDS, partial(running.callInThread, load_all))
    # What the start has made stays; looking through all of it now and then would only make clients wait.
    gc.freeze()
    # By then a signal stops it in order: whoever waits for these lines may send one at once.
    running.callWhenRunning(partial(_tell_listeners, service))
    try:
        running.run()
    finally:
        service.broker.close()
    _log.info("stopped")


def _tell_listeners(service: Service) -> None:
    for name, listener in service.kestrel.items():
        _log.info("%s clients are served on %s", name, listener.address)
    if service.admin_listener is not None:
        _log.info("operators are served on http://%s/", service.admin_listener.address)
    served = ", ".join(map(str, service.kafka))
    _log.info("Kafka clients are served on %s, data is in %s", served, service.broker.data_directory)
