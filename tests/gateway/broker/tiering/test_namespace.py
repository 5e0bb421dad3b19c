"""A namespace belongs to one cluster, and has nothing in it that nobody needs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from barbicel.clock import wall_clock_ms
from barbicel.codecs.topic_file import ClusterFile, Topic, decode_topic
from barbicel.disk import RealDisk
from barbicel.errors import BarbicelError, StoreError, StoreRefused
from barbicel.gateway.broker.tiering.namespace import check_claim, claim, describe_topic
from barbicel.tier.directory import DirectoryObjects
from barbicel.tier.keys import Keys

KEYS = Keys("ours")
CLUSTER = ClusterFile(uuid4(), 1, 0)
HOUR_MS = 60 * 60 * 1000


@pytest.fixture
def store(tmp_path: Path) -> DirectoryObjects:
    (tmp_path / "objects").mkdir()
    return DirectoryObjects(str(tmp_path / "objects"), disk=RealDisk())


def keys_of(store: DirectoryObjects) -> list[str]:
    return [info.key for info in store.list("")]


def test_a_claim_leaves_one_object_and_may_be_made_again(store: DirectoryObjects) -> None:
    for _ in range(2):
        claim(store, KEYS, CLUSTER)
        assert keys_of(store) == ["ours/cluster.json"]


def test_another_cluster_is_refused_and_told_what_to_do(store: DirectoryObjects) -> None:
    claim(store, KEYS, CLUSTER)
    with pytest.raises(StoreRefused, match=r"belongs to cluster .*tier\.namespace"):
        claim(store, KEYS, ClusterFile(uuid4(), 1, 0))
    claim(store, Keys("theirs"), ClusterFile(uuid4(), 1, 0))


def test_a_namespace_that_is_gone_is_not_mounted(store: DirectoryObjects) -> None:
    claim(store, KEYS, CLUSTER)
    check_claim(store, KEYS, CLUSTER)
    store.delete(KEYS.cluster)
    with pytest.raises(StoreError, match=r"ours/cluster.json is gone.*is it mounted\?") as caught:
        check_claim(store, KEYS, CLUSTER)
    assert caught.value.is_passing
    assert keys_of(store) == []


def test_a_claim_that_cannot_be_read_is_an_error_and_stays(store: DirectoryObjects) -> None:
    store.put_new(KEYS.cluster, [b"{"])
    with pytest.raises(BarbicelError):
        claim(store, KEYS, CLUSTER)
    assert store.get(KEYS.cluster) == b"{"


def test_old_probes_are_swept_and_nothing_else(store: DirectoryObjects, tmp_path: Path) -> None:
    old, new = f"ours/probe/{uuid4().hex}", f"ours/probe/{uuid4().hex}"
    # Another namespace may have a name that looks like one.
    others = ["ours/probe/cluster.json", f"ours/probe/{uuid4().hex}/cluster.json", "ours/probe/1"]
    for key in (old, *others):
        store.put_new(key, [b"first"])
    then = wall_clock_ms() / 1000 - 2 * HOUR_MS / 1000
    for path in (tmp_path / "objects" / "ours").rglob("*"):
        os.utime(path, (then, then))
    store.put_new(new, [b"first"])
    claim(store, KEYS, CLUSTER)
    assert sorted(keys_of(store)) == sorted([*others, new, "ours/cluster.json"])


def test_a_topic_is_described_as_it_is_now(store: DirectoryObjects) -> None:
    topic = Topic("orders", uuid4(), 1, 1)
    for wanted in (topic, topic, replace(topic, partitions=3)):
        describe_topic(store, KEYS, "orders-x", wanted)
        assert decode_topic(store.get("ours/orders-x/topic.json")) == wanted


def test_two_may_describe_a_topic_at_once(store: DirectoryObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic("orders", uuid4(), 1, 1)
    true_put = store.put_new

    def late(key: str, pieces: list[bytes]) -> object:
        true_put(key, pieces)
        return true_put(key, pieces)

    monkeypatch.setattr(store, "put_new", late)
    describe_topic(store, KEYS, "orders-x", topic)
    assert decode_topic(store.get("ours/orders-x/topic.json")) == topic
