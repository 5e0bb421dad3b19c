"""Whether a store can be used, and by whom: the namespace belongs to one cluster. Waits for the store."""

from __future__ import annotations

import re
from contextlib import suppress

from barbicel.clock import Clock, wall_clock_ms
from barbicel.codecs.topic_file import (
    ClusterFile,
    Topic,
    decode_cluster,
    encode_cluster,
    encode_topic,
    render_id,
)
from barbicel.errors import ObjectChanged, ObjectExists, ObjectMissing, StoreError, StoreRefused
from barbicel.tier.keys import Keys
from barbicel.tier.object_store import ObjectStore
from barbicel.tier.probe import probe

__all__ = ["PROBE_MS", "check_claim", "claim", "describe_topic", "sweep_probes"]

PROBE = re.compile(r"probe/[0-9a-f]{32}")
# Nobody's probe takes as long.
PROBE_MS = 60 * 60 * 1000
DESCRIBING_TRIES = 3


def claim(store: ObjectStore, keys: Keys, cluster: ClusterFile, clock: Clock = wall_clock_ms) -> None:
    """Make sure that conditions are kept and that the namespace is this cluster's. Raises StoreError."""
    probe(store, keys.namespace)
    with suppress(ObjectExists):
        store.put_new(keys.cluster, [encode_cluster(cluster)])
    check_claim(store, keys, cluster)
    sweep_probes(store, keys, clock())


def check_claim(store: ObjectStore, keys: Keys, cluster: ClusterFile) -> None:
    """Raises StoreError if the namespace is not this cluster's, or nobody's any more.

    A file system that is not mounted is an empty directory: what is written there is gone when it is back.
    """
    try:
        owner = decode_cluster(store.get(keys.cluster)).cluster_id
    except ObjectMissing:
        raise StoreError(
            f"{keys.cluster} is gone, and so is what else was there",
            path=store.url,
            hint="is it mounted? If all of it is lost for good, copy the data directory's cluster.json there",
            is_passing=True,
        ) from None
    if owner != cluster.cluster_id:
        raise StoreRefused(
            f"the namespace {keys.namespace!r} belongs to cluster {render_id(owner)}",
            path=store.url,
            hint="give this cluster another one: tier.namespace",
        )


def sweep_probes(store: ObjectStore, keys: Keys, now_ms: int) -> None:
    """A store that went away, or a server that was killed, in the middle of a probe has left its object."""
    for info in list(store.list(f"{keys.prefix}probe/")):
        is_probe = PROBE.fullmatch(info.key.removeprefix(keys.prefix))
        if is_probe and info.modified_ms < now_ms - PROBE_MS:
            store.delete(info.key)


def describe_topic(store: ObjectStore, keys: Keys, topic_dir: str, topic: Topic) -> None:
    """Let the store have what the topic is, as it is now: its name, id, partitions and settings."""
    key, content = keys.topic(topic_dir).description, encode_topic(topic)
    # Another partition of the topic may be doing the same right now.
    for _ in range(DESCRIBING_TRIES):
        with suppress(ObjectMissing, ObjectExists, ObjectChanged):
            return _describe(store, key, content)
    return _describe(store, key, content)


def _describe(store: ObjectStore, key: str, content: bytes) -> None:
    try:
        info = store.head(key)
    except ObjectMissing:
        store.put_new(key, [content])
        return
    if store.get(key) != content:
        store.replace(key, [content], info.etag)
