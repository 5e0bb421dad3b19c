"""Topics that grow beyond the disk: clients read across the border unaware, and nothing is left behind."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
)
from pymemcache.client.base import Client

from tests.cli.support import run
from tests.tier.clients.tiered_gateway import Bucket, TieredGateway, tiered_gateway, until, values

COUNT = 3000
EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
MAX_TIMESTAMP: OffsetSpec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]


def list_offset(gateway: TieredGateway, topic: str, spec: OffsetSpec) -> int:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    (found,) = admin.list_offsets({TopicPartition(topic, 0): spec}).values()
    return int(found.result().offset)


def test_a_consumer_reads_what_left_the_disk_and_what_did_not(tmp_path: Path, bucket: Bucket) -> None:
    sent = values(COUNT)
    with tiered_gateway(tmp_path, bucket) as gateway:
        gateway.create("orders")
        gateway.produce("orders", sent)
        gateway.wait_until_tiered("orders", COUNT)
        assert gateway.local_bytes("orders") < sum(map(len, sent)) / 4
        assert gateway.consume("orders", COUNT) == sent
        assert gateway.consume("orders", 100, offset=COUNT // 2) == sent[COUNT // 2 : COUNT // 2 + 100]
        assert list_offset(gateway, "orders", EARLIEST) == 0
        # And after a kill, and after a stop in order, which uploads the rest.
        gateway.kill()
        gateway.start()
        assert gateway.consume("orders", COUNT) == sent
        gateway.produce("orders", sent[:100])
        assert gateway.stop() == 0
        gateway.start()
        assert gateway.consume("orders", COUNT + 100) == sent + sent[:100]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back(tmp_path: Path, codec: str) -> None:
    sent = values(600)
    with tiered_gateway(tmp_path, _directory(tmp_path)) as gateway:
        gateway.create("orders")
        gateway.produce("orders", sent, codec=codec)
        gateway.wait_until_tiered("orders", len(sent))
        assert gateway.consume("orders", len(sent)) == sent


def test_a_seek_by_time_finds_its_place_in_the_store(tmp_path: Path) -> None:
    with tiered_gateway(tmp_path, _directory(tmp_path)) as gateway:
        gateway.create("orders")
        gateway.produce("orders", values(500))
        middle_ms = int(time.time() * 1000) + 1
        until(lambda: time.time() * 1000 > middle_ms + 1)
        gateway.produce("orders", values(500))
        gateway.wait_until_tiered("orders", 1000)
        assert list_offset(gateway, "orders", OffsetSpec.for_timestamp(middle_ms)) == 500
        assert list_offset(gateway, "orders", OffsetSpec.for_timestamp(0)) == 0
        assert list_offset(gateway, "orders", MAX_TIMESTAMP) >= 500


def test_records_are_deleted_from_the_store_too(tmp_path: Path, bucket: Bucket) -> None:
    sent = values(1500)
    with tiered_gateway(tmp_path, bucket) as gateway:
        gateway.create("orders")
        gateway.produce("orders", sent)
        gateway.wait_until_tiered("orders", len(sent))
        before = len(bucket.list(".kfs"))
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
        for deleted in admin.delete_records([TopicPartition("orders", 0, 1000)]).values():
            assert deleted.result().low_watermark == 1000
        until(lambda: len(bucket.list(".kfs")) < before)
        assert list_offset(gateway, "orders", EARLIEST) == 1000
        assert gateway.consume("orders", 500) == sent[1000:]
        gateway.kill()
        gateway.start()
        assert gateway.consume("orders", 500) == sent[1000:]


def test_retention_takes_the_oldest_from_the_store(tmp_path: Path) -> None:
    bucket = _directory(tmp_path)
    with tiered_gateway(tmp_path, bucket) as gateway:
        gateway.create("orders", retention_bytes=str(200 << 10))
        sent = values(3000)
        gateway.produce("orders", sent)
        gateway.wait_until_tiered("orders", len(sent))
        until(lambda: len(bucket.list(".kfs")) == len(bucket.list(".index")) < 8)
        start = list_offset(gateway, "orders", EARLIEST)
        assert start > 1000
        assert gateway.consume("orders", len(sent) - start) == sent[start:]


def test_a_deleted_topic_leaves_nothing_and_a_new_one_of_its_name_is_empty(
    tmp_path: Path, bucket: Bucket
) -> None:
    with tiered_gateway(tmp_path, bucket) as gateway:
        gateway.create("orders")
        gateway.produce("orders", values(1000))
        gateway.wait_until_tiered("orders", 1000)
        gateway.delete("orders")
        gateway.create("orders")
        fresh = values(700, seed=b"new")
        gateway.produce("orders", fresh)
        gateway.wait_until_tiered("orders", 700)
        assert gateway.consume("orders", 700) == fresh
        gateway.delete("orders")
        until(lambda: [key.rpartition("/")[2] for key in bucket.list()] == ["cluster.json"])
        until(lambda: list(gateway.data.glob("tier/*")) == list(gateway.data.glob("topics/*")) == [])


def test_a_topic_that_is_deleted_while_the_server_is_down_is_deleted_at_the_start(tmp_path: Path) -> None:
    """Killed right after the answer, before its objects were looked for."""
    bucket = _directory(tmp_path)
    settings = {"remote_log_manager_task_interval_ms": "60000", "tier_flush_interval_ms": "60000"}
    with tiered_gateway(tmp_path, bucket, **settings) as gateway:
        gateway.create("orders")
        gateway.produce("orders", values(1000))
        assert gateway.stop() == 0  # which uploads
        assert bucket.list(".kfs")
        gateway.start()
        gateway.delete("orders")
        gateway.kill()
        gateway.start()
        until(lambda: [key.rpartition("/")[2] for key in bucket.list()] == ["cluster.json"])


def test_tiering_can_be_switched_on_for_a_topic_that_has_data(tmp_path: Path) -> None:
    sent = values(1000)
    with tiered_gateway(tmp_path, _directory(tmp_path)) as gateway:
        gateway.create("orders", remote_storage_enable="false")
        gateway.produce("orders", sent)
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
        change = ConfigEntry("remote.storage.enable", "true", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=[change])
        for changed in admin.incremental_alter_configs([resource]).values():
            changed.result()
        gateway.produce("orders", sent)
        gateway.wait_until_tiered("orders", 2000)
        assert gateway.consume("orders", 2000) == sent + sent


def test_a_kestrel_queue_whose_items_are_in_the_store_is_read_in_order(tmp_path: Path) -> None:
    bucket = _directory(tmp_path)
    sent = values(1500)
    with tiered_gateway(tmp_path, bucket) as gateway:
        gateway.create("work")
        client = Client((gateway.host, gateway.kestrel_port), timeout=30)
        client.get("work")  # from here on there is a reader
        for value in sent:
            client.set("work", value, noreply=False)
        gateway.wait_until_tiered("work", len(sent))
        assert [client.get("work") for _ in sent] == sent
        client.close()


def test_the_disk_is_lost_and_everything_comes_back_from_the_store(tmp_path: Path, bucket: Bucket) -> None:
    sent = values(COUNT)
    with tiered_gateway(tmp_path / "first", bucket) as gateway:
        gateway.create("orders", partitions=2)
        gateway.produce("orders", sent)
        gateway.produce("orders", sent[:500], partition=1)
        assert gateway.stop() == 0
    options = [
        f"--{name}={bucket.options[name]}" for name in ("endpoint", "region") if name in bucket.options
    ]
    target = tmp_path / "second" / "data"
    target.parent.mkdir()
    restored = run("tier", "restore", bucket.url, str(target), "--json", *options)
    assert restored.exit_code == 0, restored.output
    ends = {row["partition"]: row["end_offset"] for row in json.loads(restored.output)["partitions"]}
    assert ends == {0: COUNT, 1: 500}
    with tiered_gateway(tmp_path / "second", bucket) as gateway:
        assert gateway.consume("orders", COUNT) == sent
        assert gateway.consume("orders", 500, partition=1) == sent[:500]
        gateway.produce("orders", sent[:10])
        assert gateway.consume("orders", 10, offset=COUNT) == sent[:10]


def _directory(tmp_path: Path) -> Bucket:
    path = tmp_path / "objects"
    path.mkdir()
    return Bucket(str(path), {}, {})
