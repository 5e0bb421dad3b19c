"""The Kestrel side of the server, put together: queues, connections, upkeep, and what operators may ask."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from barbicel.config.reloading import take_reload
from barbicel.config.settings import Config
from barbicel.errors import BarbicelError
from barbicel.gateway.access.opening import opened_access
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.kestrel.dialect import MEMCACHE, TEXT, Dialect
from barbicel.gateway.kestrel.queues import Queues
from barbicel.gateway.kestrel.server import KestrelServer
from barbicel.gateway.kestrel.shared import Controls, Done, Shared
from barbicel.gateway.kestrel.status import ServerStatus
from barbicel.gateway.kestrel.upkeep import Upkeep

__all__ = ["KestrelFrontEnd"]

_log = logging.getLogger(__name__)


class KestrelFrontEnd:
    """Made before the reactor runs; then `start` it, and `drain` it before the broker closes."""

    def __init__(
        self, broker: Broker, config: Config, load: Callable[[], Config], shutdown: Callable[[], None]
    ) -> None:
        """`load` reads the settings from where they came from, and waits for the disk."""
        self._broker = broker
        self._config = config
        self._load = load
        self._queues = Queues(broker, config)
        self._upkeep = Upkeep(self._queues)
        reactor = broker.reactor
        shared = Shared(
            queues=self._queues,
            config=config,
            status=ServerStatus(broker.disk, broker.data_directory, broker.change),
            counters=self._queues.counters,
            controls=Controls(self._reload, shutdown),
            clock=broker.clock,
            seconds=reactor.seconds,
            started_s=reactor.seconds(),
        )
        self._server = KestrelServer(shared, reactor, broker.descriptors)
        if config.kestrel_auth_enable:
            from barbicel.gateway.kestrel.login import LoginGate

            self._server.gate = LoginGate(broker, opened_access(broker))

    @property
    def queues(self) -> Queues:
        return self._queues

    def listenings(self) -> Iterator[tuple[str, int, Any]]:
        """What to listen for: (the protocol, its port, the factory)."""
        yield "Kestrel", self._config.kestrel_port, self._factory(MEMCACHE)
        if self._config.kestrel_text_enable:
            yield "Kestrel-text", self._config.kestrel_text_port, self._factory(TEXT)

    def _factory(self, dialect: Dialect) -> Any:
        listening = self._server.listening(dialect, has_tls=self._config.kestrel_ssl_enable)
        if not self._config.kestrel_ssl_enable:
            return listening
        return opened_access(self._broker).with_tls(listening, self._broker.notes)

    def start(self) -> None:
        self._queues.open_all()
        self._upkeep.start()

    def drain(self) -> Deferred[None]:
        """Answer what was accepted and send everybody away; open reads go back to their queues."""
        self._upkeep.stop()
        return self._server.drain().addCallback(lambda _: self._queues.written())

    # --- reloading ----------------------------------------------------------------------------------

    def _reload(self, done: Done) -> None:
        def take(loaded: Config) -> None:
            self._config, needs_restart = take_reload(self._config, loaded)
            self._queues.reload(self._config)
            _log.info("the settings of queues were read again")
            if needs_restart:
                _log.warning("changed, but only from the next start on: %s", ", ".join(needs_restart))
            done(None)

        def fail(failure: Failure) -> None:
            error = failure.value
            _log.error("the settings stay as they are: %s", error)
            done(error if isinstance(error, Exception) else BarbicelError(repr(error)))

        self._broker.change(self._load).addCallbacks(take, fail)
