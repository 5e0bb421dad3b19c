"""GET /api/overview: the server at a glance."""

from __future__ import annotations

from typing import Any

from barbicel import __version__
from barbicel.gateway.admin.exchange import Asked
from barbicel.gateway.admin.health import Health
from barbicel.gateway.admin.pulse import Pulse
from barbicel.gateway.admin.timed_disk import TimedDisk
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.kestrel.queues import Queues
from barbicel.kestrel_compat.names import is_reserved_group

__all__ = ["OverviewApi"]


class OverviewApi:
    def __init__(self, broker: Broker, pulse: Pulse, health: Health, queues: Queues | None) -> None:
        self._broker = broker
        self._pulse = pulse
        self._health = health
        self._queues = queues
        self._started_ms = broker.clock()

    async def show(self, asked: Asked) -> dict[str, Any]:
        problems = self._health.problems()
        return {
            "version": __version__,
            "cluster_id": self._broker.cluster_id,
            "node_id": self._broker.node_id,
            "data_directory": self._broker.data_directory,
            "now_ms": self._broker.clock(),
            "uptime_s": max(0, self._broker.clock() - self._started_ms) // 1000,
            "is_ready": not problems,
            "problems": problems,
            "counts": self._counts(),
            "rates": self._pulse.history.rates()._asdict(),
            "series": [
                {"time_ms": time_ms, **rates._asdict()} for time_ms, rates in self._pulse.history.series()
            ],
            "storage": self._storage(),
            "durability": self._durability(),
            "reactor_lag_s": self._pulse.max_lag_s,
        }

    def _counts(self) -> dict[str, int]:
        broker = self._broker
        return {
            "topics": len(broker.topics),
            "partitions": broker.descriptors.partitions,
            "messages": self._pulse.stored.messages,
            "groups": sum(not is_reserved_group(group) for group in broker.offsets.groups()),
            "queues": 0 if self._queues is None else len(broker.offsets.reserved_places()),
            "clients": broker.descriptors.clients,
        }

    def _storage(self) -> dict[str, int | None]:
        looked, stored = self._pulse.looked, self._pulse.stored
        return {
            "data_bytes": stored.size_bytes,
            "disk_total_bytes": None if looked.space is None else looked.space.total_bytes,
            "disk_free_bytes": None if looked.space is None else looked.space.usable_bytes,
            "memory_bytes": looked.memory_bytes,
            "tail_bytes": stored.tail_bytes,
            "tail_max_bytes": self._broker.config.tail_bytes,
        }

    def _durability(self) -> dict[str, Any]:
        disk, config = self._broker.disk, self._broker.config
        syncs = disk.syncs if isinstance(disk, TimedDisk) else None
        return {
            "mode": config.durability,
            "flush_ms": config.flush_ms,
            "unsynced_offsets": self._pulse.stored.unsynced_offsets,
            "group_sync_lag_ms": self._pulse.looked.sync_lag_ms,
            "fsync_median_s": None if syncs is None else syncs.histogram.quantile_s(0.5),
            "fsync_p99_s": None if syncs is None else syncs.histogram.quantile_s(0.99),
            "fsync_failures": None if syncs is None else syncs.failures,
        }
