"""The tier of a data directory on which no server runs: uploaded by a broker without clients."""

from __future__ import annotations

from dataclasses import replace

from twisted.python.failure import Failure

from barbicel.config.settings import Config
from barbicel.disk import Disk
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.broker.data_layout import DataLayout
from barbicel.gateway.broker.tiering.tiering import Flushed
from barbicel.gateway.event_loop import install_reactor

__all__ = ["flush_directory"]


def flush_directory(disk: Disk, config: Config) -> Flushed:
    """Seal and upload everything. Raises LogLocked if a server runs on it, and whatever opening it does."""
    if not config.remote_log_storage_system_enable:
        raise BarbicelError(
            "tiering is switched off", hint="set remote.log.storage.system.enable to true in barbicel.toml"
        )
    layout = DataLayout(disk.resolve(config.data_directory))
    if not disk.exists(layout.cluster_file):
        # A server would make a new one there, and a new cluster with it.
        raise BarbicelError("there is no data directory", path=layout.root)
    reactor = install_reactor()
    # Whatever could not be uploaded when it was asked for is not tried once more at the end.
    broker = Broker.open(disk, replace(config, tier_flush_on_shutdown=False), reactor)
    outcome: list[Flushed | Failure] = []

    def begin() -> None:
        broker.start()
        assert broker.tiering is not None
        broker.tiering.flush().addBoth(outcome.append).addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    try:
        reactor.run()
    finally:
        broker.close()
    if not outcome:  # the reactor has taken the signal
        raise KeyboardInterrupt
    if isinstance(outcome[0], Failure):
        outcome[0].raiseException()
    assert isinstance(outcome[0], Flushed)
    return outcome[0]
