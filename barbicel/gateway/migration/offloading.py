"""An imported family as `.kfs` segments and a manifest in an object store, as a tiered topic is there.

The topic's id is made of the import's, so that a try which was cut short is taken up under the same keys. Its
description is written last: a topic that has one is there whole. Positions of readers are not in a store, so
what is written is an ordinary topic with every record of every line.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from uuid import UUID, uuid4

from barbicel.clock import wall_clock_ms
from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.topic_file import ClusterFile, Topic, decode_cluster, render_id
from barbicel.disk import Disk
from barbicel.errors import ObjectMissing
from barbicel.gateway.broker.data_layout import DataLayout, topic_directory
from barbicel.gateway.broker.tiering.keratin_log import KeratinLog
from barbicel.gateway.broker.tiering.namespace import claim, describe_topic
from barbicel.gateway.migration.directory_queue import PARTITION
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.source import Family
from barbicel.gateway.migration.target import LEDGER_SETTINGS
from barbicel.keratin import Log
from barbicel.tier.cold_reader import ColdReader
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.object_store import ObjectStore
from barbicel.tier.tiered_partition import Policy, Tier, TieredPartition

__all__ = ["claim_namespace", "is_offloaded", "offload_family"]

SETTINGS = {**LEDGER_SETTINGS, "remote.storage.enable": "true"}
BACK_OFF_MS = 1000


def claim_namespace(store: ObjectStore, keys: Keys) -> None:
    """Use the namespace as whoever has it, or as somebody new. Raises StoreError."""
    try:
        cluster = decode_cluster(store.get(keys.cluster))
    except ObjectMissing:
        cluster = ClusterFile(uuid4(), wall_clock_ms(), 0)
    claim(store, keys, cluster)


def is_offloaded(store: ObjectStore, keys: Keys, family: Family) -> bool:
    try:
        store.head(keys.topic(topic_directory(_topic(family))).description)
    except ObjectMissing:
        return False
    return True


def offload_family(disk: Disk, store: ObjectStore, keys: Keys, family: Family, staged: str) -> None:
    """Upload what was imported into a directory of its own. On return the store has all of it, verified."""
    with DirectoryTarget.open(disk, staged, may_create=False) as target:
        found = target.catalogue.by_name(family.topic)
        assert found is not None, staged
        topic = _topic(family, found)
        with Log.open(target.catalogue.layout.partition(found, PARTITION), disk=disk) as log:
            _upload(disk, store, keys, topic, log, DataLayout(staged))
    describe_topic(store, keys, topic_directory(topic), topic)


def _upload(disk: Disk, store: ObjectStore, keys: Keys, topic: Topic, log: Log, layout: DataLayout) -> None:
    directory = layout.manifest(topic, PARTITION)
    disk.make_directory(directory)
    reader = ColdReader(store)
    tier = Tier(store, keys, reader, disk, wall_clock_ms, Codec.ZSTD, BACK_OFF_MS, BACK_OFF_MS)
    stream = ManifestStream.open(
        directory, stream_id=layout.stream(topic, PARTITION), disk=disk, clock=wall_clock_ms
    )
    partition = TieredPartition(tier, stream, directory, topic_directory(topic), PARTITION)
    try:
        partition.attach(KeratinLog(log))
        problems = partition.flush(Policy(is_copied=True))
    finally:
        partition.close()
        reader.close()
    if problems:
        raise problems[0]


def _topic(family: Family, imported: Topic | None = None) -> Topic:
    created_ms = 0 if imported is None else imported.created_ms
    base = imported or Topic(family.topic, _identity(family), 1, created_ms)
    return replace(base, id=_identity(family), settings=SETTINGS)


def _identity(family: Family) -> UUID:
    """Always the same for the same journals."""
    number = 0
    while True:
        digest = sha256(f"{family.topic}/{family.import_id}/{number}".encode()).digest()
        identity = UUID(bytes=digest[:16], version=4)
        if not render_id(identity).startswith("-"):
            return identity
        number += 1
