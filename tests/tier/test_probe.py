"""Stores that keep conditions pass, stores that do not are found out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barbicel.disk import RealDisk
from barbicel.errors import StoreError, StoreRefused
from barbicel.tier.object_store import ObjectStore
from barbicel.tier.probe import probe
from barbicel.tier.stores import open_store
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.object_store_server import ObjectStoreServer


@pytest.fixture
def proxy(s3_server: ObjectStoreServer) -> Iterator[FaultProxy]:
    with FaultProxy(s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def store(proxy: FaultProxy, request: pytest.FixtureRequest) -> ObjectStore:
    """In the bucket that everybody may use: a signature would not outlive the loss of a header."""
    options = {"endpoint": proxy.endpoint, "skip_signature": "true"}
    return open_store(f"s3://open-bucket/{request.node.name}", disk=RealDisk(), options=options)


def test_a_directory_keeps_conditions(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"), disk=RealDisk())
    probe(store, "namespace")
    assert list(store.list("")) == []


def test_s3_keeps_conditions(store: ObjectStore) -> None:
    probe(store, "namespace")
    assert list(store.list("")) == []


@pytest.mark.parametrize(("after", "ignored"), [(1, "If-None-Match"), (3, "If-Match")])
def test_a_store_that_ignores_a_condition_is_refused(
    store: ObjectStore, proxy: FaultProxy, after: int, ignored: str
) -> None:
    """The probe's puts are: create, create again, replace, replace with the etag from before."""
    proxy.fail(Fault.IGNORE_CONDITIONS, method="PUT", after=after, times=1)
    with pytest.raises(StoreRefused, match=ignored) as caught:
        probe(store, "namespace")
    assert caught.value.path == store.url
    assert list(store.list("")) == []


def test_a_store_that_ignores_all_conditions_is_refused(store: ObjectStore, proxy: FaultProxy) -> None:
    proxy.fail(Fault.IGNORE_CONDITIONS, times=-1)
    with pytest.raises(StoreRefused, match="ignores If-None-Match"):
        probe(store, "namespace")


def test_a_store_that_is_away_is_not_refused_for_it(store: ObjectStore, proxy: FaultProxy) -> None:
    proxy.fail(Fault.UNAVAILABLE, times=-1)
    with pytest.raises(StoreError) as caught:
        probe(store, "namespace")
    assert caught.value.is_passing
