"""The numbers of the moment, for `stats`."""

from __future__ import annotations

from collections.abc import Sequence

from barbicel import __version__
from barbicel.gateway.kestrel.shared import Shared
from barbicel.kestrel_compat.stats import AliasStats, Moment, QueueStats

__all__ = ["moment_of"]


def moment_of(shared: Shared, queues: Sequence[tuple[str, QueueStats | AliasStats]]) -> Moment:
    config = shared.config
    own = {name: stats for name, stats in queues if isinstance(stats, QueueStats)}
    # A child reads its master's log: it needs no memory of its own.
    logs = sum("+" not in name for name in own)
    return Moment(
        uptime_s=int(shared.seconds() - shared.started_s),
        time_s=shared.clock() // 1000,
        version=__version__,
        curr_items=sum(stats.items for stats in own.values()),
        bytes=sum(stats.bytes for stats in own.values()),
        reserved_memory_ratio=logs * config.tail_partition_bytes / max(1, config.tail_bytes),
        cluster_id=shared.queues.broker.cluster_id,
    )
