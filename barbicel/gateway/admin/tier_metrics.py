"""The tier's metrics: the manifest log's under the names of its specification, and beside them ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from barbicel.clock import Clock
from barbicel.gateway.admin.metrics import Family, MetricType, Registry, Sample
from barbicel.gateway.broker.tiering.tiering import Tiering
from barbicel.tier.tiered_partition import TieredPartition

__all__ = ["register_tier_metrics"]

# What is told of each partition: the metric, what it tells, and where it is found.
_OF_PARTITIONS: tuple[tuple[str, MetricType, str, Callable[[TieredPartition], float]], ...] = (
    (
        "manifest_chunks_active",
        "gauge",
        "Chunks of the manifest log that take records.",
        lambda one: one.stream.manifest_chunks_active,
    ),
    (
        "manifest_replay_seconds",
        "gauge",
        "How long the replay of the manifest log took at the last start.",
        lambda one: one.stream.manifest_replay_seconds,
    ),
    (
        "manifest_crc_error_count",
        "counter",
        "Damaged places found in the manifest log.",
        lambda one: one.stream.manifest_crc_error_count,
    ),
    (
        "manifest_upload_retry_count",
        "counter",
        "Uploads of the manifest log that had to be tried again.",
        lambda one: one.stream.manifest_upload_retry_count,
    ),
    (
        "barbicel_tier_segments",
        "gauge",
        "Segments in the object store.",
        lambda one: len(one.tiered),
    ),
    (
        "barbicel_tier_lag_bytes",
        "gauge",
        "Bytes of sealed segments that are not in the object store.",
        lambda one: sum(segment.size_bytes for segment in one.pending),
    ),
    (
        "barbicel_tier_uploaded_bytes_total",
        "counter",
        "Bytes of segments that were uploaded since the start.",
        lambda one: one.uploaded_bytes,
    ),
    (
        "barbicel_tier_upload_failures_total",
        "counter",
        "Uploads of segments that failed since the start.",
        lambda one: one.failed_uploads,
    ),
    (
        "barbicel_tier_foreign_manifest",
        "gauge",
        "1 if the object store has a manifest of this partition that is not from this disk.",
        lambda one: int(one.is_foreign),
    ),
    (
        "barbicel_tier_hydrations_total",
        "counter",
        "Segments that somebody began to read back from the object store since the start.",
        lambda one: one.hydrations.begun,
    ),
    (
        "barbicel_tier_hydration_failures_total",
        "counter",
        "Reads from the object store that failed since the start.",
        lambda one: one.hydrations.failed,
    ),
)
_OF_CACHES: tuple[tuple[str, MetricType, str, str], ...] = (
    ("barbicel_tier_cache_bytes", "gauge", "What a cache of the tier holds.", "held_bytes"),
    ("barbicel_tier_cache_hits_total", "counter", "Found in a cache of the tier.", "hits"),
    ("barbicel_tier_cache_misses_total", "counter", "Not found in a cache of the tier.", "misses"),
)


def register_tier_metrics(registry: Registry, tiering: Tiering, clock: Clock) -> None:
    for name, kind, text, number in _OF_PARTITIONS:
        registry.add(Family(name, text, kind, _each(tiering, number)))
    caches = (("segments", tiering.reader.blocks), ("indexes", tiering.reader.maps.cache))
    for name, kind, text, attribute in _OF_CACHES:
        registry.add(Family(name, text, kind, _of_caches(caches, attribute)))
    registry.add(
        Family(
            "manifest_snapshot_age_seconds",
            "How old the newest snapshot of the manifest log is.",
            "gauge",
            lambda: _snapshot_ages(tiering, clock()),
        )
    )
    registry.add(
        Family(
            "barbicel_tier_ready",
            "Whether the object store can be used.",
            "gauge",
            lambda: (Sample(int(tiering.is_ready)),),
        )
    )


def _each(tiering: Tiering, number: Callable[[TieredPartition], float]) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        for tiered, topic, _ in tiering.partitions:
            yield Sample(number(tiered), _place(topic().name, tiered.partition))

    return samples


def _of_caches(caches: Sequence[tuple[str, object]], attribute: str) -> Callable[[], Iterator[Sample]]:
    return lambda: (Sample(getattr(cache, attribute), (("cache", name),)) for name, cache in caches)


def _snapshot_ages(tiering: Tiering, now_ms: int) -> Iterator[Sample]:
    for tiered, topic, _ in tiering.partitions:
        created_ms = tiered.stream.snapshot_created_ms
        if created_ms is not None:
            yield Sample(max(0, now_ms - created_ms) / 1000, _place(topic().name, tiered.partition))


def _place(topic: str, partition: int) -> tuple[tuple[str, str], ...]:
    return ("topic", topic), ("partition", str(partition))
