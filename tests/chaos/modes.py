"""How a gateway is set up for a run, and what has to be true of its files when that is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from barbicel.clock import wall_clock_ms
from barbicel.codecs.manifest_snapshot import Progress
from barbicel.disk import RealDisk
from barbicel.gateway.broker.tiering.namespace import PROBE_MS, sweep_probes
from barbicel.tier.directory import DirectoryObjects
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.reconciliation import index_key
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.manifest_log.verify import Severity, verify

__all__ = ["MODES", "Mode"]


@dataclass(frozen=True)
class Mode:
    name: str
    settings: Mapping[str, str]
    topic: Mapping[str, str] = field(default_factory=dict)
    # What is wrong in the data directory, after the gateway has stopped in order.
    look_at: Callable[[Path], list[str]] = lambda data: []


def look_at_tier(data: Path) -> list[str]:
    """Everything that the store has is known to a manifest, and the other way round."""
    store = DirectoryObjects(str(data / "object-store"), disk=RealDisk())
    streams = sorted(path.name for path in (data / "tier").iterdir())
    keys = Keys(next(info.key for info in store.list("") if info.key.endswith("/cluster.json")).split("/")[0])
    # What a kill in the middle of a probe leaves goes with the first start an hour later.
    sweep_probes(store, keys, wall_clock_ms() + PROBE_MS + 1)
    known = {keys.cluster, *(keys.topic(stream.rpartition("-")[0]).description for stream in streams)}
    troubles: list[str] = []
    tiered = 0
    for stream in streams:
        directory = str(data / "tier" / stream)
        found = verify(directory, stream_id=stream, disk=RealDisk(), store=store, keys=keys)
        troubles += [f"{one.place}: {one.message}" for one in found if one.severity is Severity.DAMAGE]
        of_stream = list(_objects_of(directory, stream))
        tiered += len(of_stream)
        known |= {*of_stream, *map(index_key, of_stream)}
    there = {info.key for info in store.list("") if f"{keys.namespace}/manifest/" not in info.key}
    troubles += [f"{key} is in the store, and nobody knows it" for key in sorted(there - known)]
    troubles += [f"{key} is not in the store" for key in sorted(known - there)]
    return troubles if tiered else [*troubles, "nothing was tiered"]


def _objects_of(directory: str, stream: str) -> Iterator[str]:
    with ManifestStream.open(directory, stream_id=stream, disk=RealDisk(), read_only=True) as opened:
        for entry in opened.catalogue.segments:
            if entry.upload is Progress.DONE:
                yield entry.key


MODES: Mapping[str, Mode] = {
    mode.name: mode
    for mode in (
        Mode("fsync", {"durability": "fsync"}),
        Mode("write", {"durability": "write"}),
        Mode(
            "tiered",
            {
                "durability": "fsync",
                "remote_log_storage_system_enable": "true",
                "remote_log_manager_task_interval_ms": "20",
                "tier_segment_bytes": str(64 << 10),
                "tier_flush_interval_ms": "500",
            },
            {"remote.storage.enable": "true", "local.retention.bytes": "0"},
            look_at_tier,
        ),
    )
}
