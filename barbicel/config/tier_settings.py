"""Settings of the tier, which keeps sealed segments in an object store: rows of the table in settings.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from barbicel.config.setting import row
from barbicel.config.values import LONG_MAX, Choice, Switch, Text, Whole

__all__ = [
    "CLUSTER_ID",
    "EMBEDDED",
    "FROM_THE_ENVIRONMENT",
    "OF_ALL_DATA",
    "S3_DEFAULT",
    "TierSettings",
    "has_user_info",
    "tier_contradictions",
]

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS

# The words that stand for what is chosen by itself.
EMBEDDED = "embedded"
CLUSTER_ID = "cluster.id"
S3_DEFAULT = "default"
FROM_THE_ENVIRONMENT = (
    "a URL has no user and no password: S3's credentials come from the environment,"
    " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
# Of local.retention: the same as the topic's retention, as in Kafka.
OF_ALL_DATA = -2


@dataclass(frozen=True, kw_only=True)
class TierSettings:
    """A field is a setting."""

    remote_log_storage_system_enable: bool = row(
        "remote.log.storage.system.enable",
        False,
        Switch(),
        "Topics may keep their sealed segments in an object store: those with remote.storage.enable do. What"
        " is there need not be on this machine's disk as well, see log.local.retention.bytes.",
        section="Tiered storage",
    )
    tier_store: str = row(
        "tier.store",
        EMBEDDED,
        Text(),
        "The object store: s3://BUCKET/PREFIX, or a directory (a path or file:// URL). 'embedded' is the"
        " directory object-store in the data directory. S3's credentials come from the environment, under"
        " AWS's names: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY.",
    )
    tier_s3_endpoint: str = row(
        "tier.s3.endpoint",
        S3_DEFAULT,
        Text(),
        "The URL of an S3 server that is not Amazon's. 'default' takes AWS_ENDPOINT_URL, or Amazon's.",
    )
    tier_s3_region: str = row(
        "tier.s3.region", S3_DEFAULT, Text(), "The region of the bucket. 'default' takes AWS_REGION."
    )
    tier_namespace: str = row(
        "tier.namespace",
        CLUSTER_ID,
        Text(),
        "All objects of this cluster have names that begin with this. A namespace belongs to one cluster, and"
        " another one is refused. 'cluster.id' is the id of the cluster.",
    )
    tier_segment_bytes: int = row(
        "tier.segment.bytes",
        64 * MIB,
        Whole(64 * KIB, 2 * GIB - MIB),
        "Segments of topics that are tiered are sealed at this size, or at segment.bytes if that is less.",
    )
    tier_flush_interval_ms: int = row(
        "tier.flush.interval.ms",
        10 * MINUTE_MS,
        Whole(100, LONG_MAX),
        "Segments of topics that are tiered are sealed at this age, or at segment.ms if that is less: what"
        " the object store lacks is not older. Small values make many small objects.",
    )
    tier_flush_on_shutdown: bool = row(
        "tier.flush.on.shutdown",
        True,
        Switch(),
        "When the server stops in order, all that was not uploaded is, as far as that goes in half a minute.",
    )
    tier_compression_type: str = row(
        "tier.compression.type",
        "zstd",
        Choice(("none", "gzip", "snappy", "lz4", "zstd")),
        "Batches that their producers did not compress are compressed with this before they are uploaded.",
    )
    remote_log_manager_task_interval_ms: int = row(
        "remote.log.manager.task.interval.ms",
        30 * SECOND_MS,
        Whole(1, LONG_MAX),
        "How often sealed segments are looked for, and those that may go from the disk or the store.",
    )
    remote_log_manager_copier_thread_pool_size: int = row(
        "remote.log.manager.copier.thread.pool.size",
        2,
        Whole(1, 64),
        "Partitions whose segments are uploaded at the same time.",
    )
    remote_log_manager_task_retry_backoff_ms: int = row(
        "remote.log.manager.task.retry.backoff.ms",
        500,
        Whole(1, LONG_MAX),
        "An upload that failed is tried again after this time, then after twice as much, and so on.",
    )
    remote_log_manager_task_retry_backoff_max_ms: int = row(
        "remote.log.manager.task.retry.backoff.max.ms",
        30 * SECOND_MS,
        Whole(1, LONG_MAX),
        "And never after more than this.",
    )
    remote_log_reader_threads: int = row(
        "remote.log.reader.threads",
        10,
        Whole(1, 1000),
        "Consumers that read from the object store at the same time. The others wait, and those who read what"
        " is on the disk do not.",
    )
    log_local_retention_ms: int = row(
        "log.local.retention.ms",
        OF_ALL_DATA,
        Whole(OF_ALL_DATA, LONG_MAX),
        "Uploaded data older than this is deleted from the disk; -2 is the same as log.retention.ms. Topics:"
        " local.retention.ms.",
    )
    log_local_retention_bytes: int = row(
        "log.local.retention.bytes",
        OF_ALL_DATA,
        Whole(OF_ALL_DATA, LONG_MAX),
        "A partition keeps about so much of its uploaded data on the disk; -2 is the same as"
        " log.retention.bytes. Topics: local.retention.bytes.",
    )
    tier_cache_bytes: int = row(
        "tier.cache.bytes",
        128 * MIB,
        Whole(1 * MIB, LONG_MAX),
        "Memory for what was read from the object store, of all partitions together.",
    )
    remote_log_index_file_cache_total_size_bytes: int = row(
        "remote.log.index.file.cache.total.size.bytes",
        32 * MIB,
        Whole(1 * MIB, LONG_MAX),
        "Memory for the indexes of segments that are in the object store.",
    )
    tier_readahead_segments: int = row(
        "tier.readahead.segments",
        2,
        Whole(0, 64),
        "Whoever reads from the object store in order finds so many of the next segments begun.",
    )
    tier_manifest_chunk_bytes: int = row(
        "tier.manifest.chunk.bytes",
        256 * KIB,
        Whole(16 * KIB, 1 * MIB),
        "The size of a file of the manifest log, which says of each segment where it is.",
    )
    tier_manifest_rotation_ms: int = row(
        "tier.manifest.rotation.ms",
        30 * SECOND_MS,
        Whole(1, LONG_MAX),
        "A file of the manifest log that nothing was added to for so long is sealed and uploaded.",
    )


def has_user_info(url: str) -> bool:
    """Whether it has what might be a secret: user:password@host. No bucket has such a name."""
    scheme, separator, rest = url.partition("://")
    authority = rest.partition("/")[0]
    return bool(separator) and ("@" in authority or (scheme == "s3" and ":" in authority))


def tier_contradictions(config: TierSettings) -> Iterator[str]:
    """What cannot be served as it is set, a line each. A secret is not repeated: settings are shown."""
    for name, url in (("tier.store", config.tier_store), ("tier.s3.endpoint", config.tier_s3_endpoint)):
        if has_user_info(url):
            yield f"{name}: {FROM_THE_ENVIRONMENT}"
