"""A stream's way through a real S3 server: upload, reconciliation, bundles, a new disk."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from barbicel.disk import RealDisk
from barbicel.tier.manifest_log.follower import catch_up
from barbicel.tier.manifest_log.reconciliation import Reconciliation
from barbicel.tier.manifest_log.remote import RemoteSource, replay_remote
from barbicel.tier.manifest_log.verify import verify
from barbicel.tier.object_store import ObjectStore
from barbicel.tier.stores import open_store
from tests.support.object_store_server import ObjectStoreServer
from tests.tier.manifest_log.builders import (
    KEYS,
    QUIET,
    STREAM,
    begun,
    opened,
    put_segment,
    segment_key,
    uploaded,
)

_prefixes = count()


@pytest.fixture
def store(s3_server: ObjectStoreServer) -> ObjectStore:
    url = f"s3://bucket/manifests/{next(_prefixes)}"
    return open_store(url, disk=RealDisk(), options=s3_server.options)


def test_the_whole_way(store: ObjectStore, tmp_path: Path) -> None:
    disk, first, second = RealDisk(), str(tmp_path / "first"), str(tmp_path / "second")
    settings = replace(QUIET, bundle_min_chunks=2)
    with opened(disk, directory=first, settings=settings) as stream:
        for segment_id in (0, 100, 200):
            stream.append(*begun(segment_id), *uploaded(segment_id, put_segment(store, segment_id)))
            stream.seal()
        stream.snapshot()
        stream.seal()
        assert stream.upload(store, KEYS) == 5
        assert stream.upload(store, KEYS) == 0
        nothing = Reconciliation([], [], [], {}, [], [])
        assert stream.reconcile(store, KEYS) == nothing
        assert stream.compact(store, KEYS).bundled == [0, 1, 2]
        stream.seal()
        stream.upload(store, KEYS)
        assert stream.reconcile(store, KEYS) == nothing
        stream.maintain()
        assert verify(first, stream_id=STREAM, disk=disk, store=store, keys=KEYS) == []
        store.delete(KEYS.chunk(STREAM, 3))
        store.delete(segment_key(100))
        report = stream.reconcile(store, KEYS)
        assert (report.rebuilt, list(report.broken)) == ([3], [100])
        stream.seal()
        stream.upload(store, KEYS)
        image = stream.catalogue.image()
    assert len(RemoteSource(store, KEYS, STREAM).bundles) == 1
    assert replay_remote(store, KEYS, STREAM).catalogue.image() == image
    catch_up(second, stream_id=STREAM, disk=disk, store=store, keys=KEYS)
    with opened(disk, directory=second, settings=settings) as stream:
        assert stream.catalogue.image() == image
    store.close()
