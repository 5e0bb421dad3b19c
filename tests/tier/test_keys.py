"""The names of objects, and what they say."""

from __future__ import annotations

import pytest

from barbicel.errors import StoreRefused
from barbicel.tier.keys import Keys, SegmentKey, parse_chunk_key, parse_segment_key, parse_snapshot_key
from barbicel.tier.object_store import check_key

TOPIC = "orders-AAAAAAAAAAAAAAAAAAAAAA"
STREAM = f"{TOPIC}-7"


def test_every_key_is_where_the_layout_says() -> None:
    keys = Keys("prod")
    topic = keys.topic(TOPIC)
    found = [
        keys.prefix,
        keys.cluster,
        topic.prefix,
        topic.description,
        topic.partition(7),
        topic.segment(7, 42),
        topic.index(7, 42),
        keys.manifest(STREAM),
        keys.chunk(STREAM, 3),
        keys.snapshot(STREAM, 12),
        keys.bundle(STREAM, "bundle-1"),
    ]
    assert found == [
        "prod/",
        "prod/cluster.json",
        f"prod/{TOPIC}/",
        f"prod/{TOPIC}/topic.json",
        f"prod/{TOPIC}/7/",
        f"prod/{TOPIC}/7/segment-00000000000000000042.kfs",
        f"prod/{TOPIC}/7/segment-00000000000000000042.index",
        f"prod/manifest/{STREAM}/",
        f"prod/manifest/{STREAM}/00000000000000000003.mlog",
        f"prod/manifest/{STREAM}/snapshot_12.bin",
        f"prod/manifest/{STREAM}/bundle-1",
    ]
    for key in found:
        check_key(key.removesuffix("/"))


@pytest.mark.parametrize("namespace", ["prod", "a/b/c", "a.b_c-D9"])
@pytest.mark.parametrize(("partition", "base_offset"), [(0, 0), (7, 42), (2**31 - 1, 2**63 - 1)])
def test_a_key_of_a_segment_is_parsed_back(namespace: str, partition: int, base_offset: int) -> None:
    topic = Keys(namespace).topic(TOPIC)
    key = topic.segment(partition, base_offset)
    assert parse_segment_key(key) == SegmentKey(TOPIC, partition, base_offset)
    assert parse_segment_key(topic.index(partition, base_offset)) is None


def test_keys_of_a_manifest_are_parsed_back() -> None:
    keys = Keys("a/b")
    assert parse_chunk_key(keys.chunk(STREAM, 3)) == (STREAM, 3)
    assert parse_snapshot_key(keys.snapshot(STREAM, 12)) == (STREAM, 12)
    for key in (keys.cluster, keys.bundle(STREAM, "bundle-1"), keys.topic(TOPIC).segment(1, 2)):
        assert parse_chunk_key(key) is None
        assert parse_snapshot_key(key) is None


@pytest.mark.parametrize(
    "key",
    [
        "",
        "segment-00000000000000000042.kfs",
        "0/segment-00000000000000000042.kfs",
        "ns/topic/x/segment-00000000000000000042.kfs",
        "ns/topic/00/segment-00000000000000000042.kfs",
        "ns/topic/0/segment-42.kfs",
        "ns/topic/0/segment-00000000000000000042.kfs.tmp",
        "ns/topic/0/segment-00000000000000000042.index",
        "ns/topic/0/segment-0000000000000000004٢.kfs",
        "ns/topic/0/segment-00000000000000000042.kfs\n",
        "ns/topic/-1/segment-00000000000000000042.kfs",
    ],
)
def test_other_keys_are_no_segments(key: str) -> None:
    assert parse_segment_key(key) is None


def test_keys_sort_as_their_numbers() -> None:
    keys, offsets = Keys("ns"), [0, 9, 10, 99, 10**12, 2**63 - 1]
    assert sorted(keys.topic(TOPIC).segment(0, offset) for offset in offsets) == [
        keys.topic(TOPIC).segment(0, offset) for offset in offsets
    ]


@pytest.mark.parametrize(
    "namespace", ["", "/", "a/", "/a", "a//b", ".", "a/../b", "a b", "a%", "é", "x" * 65]
)
def test_a_namespace_is_plain_names(namespace: str) -> None:
    with pytest.raises(StoreRefused, match="namespace"):
        Keys(namespace)
