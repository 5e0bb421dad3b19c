"""A gateway whose topics are tiered, as its users run it, and what a test asks of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barbicel.disk import RealDisk
from barbicel.tier.object_store import ObjectStore
from barbicel.tier.stores import open_store
from tests.support.gateway import Gateway

__all__ = ["Bucket", "TieredGateway", "tiered_gateway", "until"]

DEADLINE_S = 60.0
POLL_S = 0.05
SETTINGS = {
    "remote_log_storage_system_enable": "true",
    "remote_log_manager_task_interval_ms": "50",
    "remote_log_manager_task_retry_backoff_ms": "50",
    "remote_log_manager_task_retry_backoff_max_ms": "200",
    "tier_segment_bytes": str(64 << 10),
    "tier_flush_interval_ms": "200",
}
TOPIC = {"remote.storage.enable": "true", "local.retention.bytes": "0"}


def until(condition: Callable[[], bool], what: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(POLL_S)


class Bucket:
    """Where objects go: its URL, the settings that lead a gateway there, and how a test looks into it."""

    def __init__(self, url: str, settings: Mapping[str, str], options: Mapping[str, str]) -> None:
        self.url = url
        self.settings = {"tier_store": url, **settings}
        self.options = options

    def open(self) -> ObjectStore:
        return open_store(self.url, disk=RealDisk(), options=dict(self.options))

    def list(self, text: str = "") -> Sequence[str]:
        store = self.open()
        try:
            return [info.key for info in store.list("") if text in info.key]
        finally:
            store.close()


class TieredGateway(Gateway):
    def __init__(self, directory: Path, bucket: Bucket, **settings: str) -> None:
        super().__init__(directory, {**SETTINGS, **bucket.settings, **settings})
        self.bucket = bucket

    # --- clients ----------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        config = {**TOPIC, **{name.replace("_", "."): value for name, value in settings.items()}}
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for created in admin.create_topics([NewTopic(topic, partitions, config=config)]).values():
            created.result()

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for deleted in admin.delete_topics([topic]).values():
            deleted.result()

    def produce(self, topic: str, values: list[bytes], *, partition: int = 0, codec: str = "none") -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.size": 16384,
                "compression.type": codec,
            }
        )
        for value in values:
            producer.produce(topic, value, key=value[:4], headers={"n": value[:4]}, partition=partition)
        assert producer.flush(DEADLINE_S) == 0

    def consume(
        self, topic: str, count: int, *, partition: int = 0, offset: int = OFFSET_BEGINNING
    ) -> list[bytes]:
        """As a real consumer sees it; offsets ascend by one."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader"})
        consumer.assign([TopicPartition(topic, partition, offset)])
        values: list[bytes] = []
        last: int | None = None
        deadline = time.monotonic() + DEADLINE_S
        try:
            while len(values) < count:
                assert time.monotonic() < deadline, f"{len(values)} of {count}"
                message = consumer.poll(0.2)
                if message is None:
                    continue
                assert message.error() is None, message.error()
                assert last is None or message.offset() == last + 1
                last = message.offset()
                value = message.value()
                assert value is not None
                values.append(value)
        finally:
            consumer.close()
        return values

    # --- what is where ----------------------------------------------------------------------------------

    def local_bytes(self, topic: str) -> int:
        return sum(path.stat().st_size for path in self.data.glob(f"topics/{topic}-*/*/segments/*.log"))

    def wait_until_tiered(self, topic: str, end_offset: int, partition: int = 0) -> None:
        """Until the store has everything, and the disk nothing."""
        until(
            lambda: self._local_start(topic, partition) == end_offset,
            lambda: f"{topic} is here from {self._local_start(topic, partition)}: {self.log.read_text()}",
        )

    def _local_start(self, topic: str, partition: int) -> int:
        found = self.data.glob(f"topics/{topic}-*/{partition}/segments/*.log")
        return min((int(path.stem) for path in found), default=0)


@contextmanager
def tiered_gateway(directory: Path, bucket: Bucket, **settings: str) -> Iterator[TieredGateway]:
    directory.mkdir(exist_ok=True)
    gateway = TieredGateway(directory, bucket, **settings)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()


def values(count: int, size: int = 300, seed: bytes = b"") -> list[bytes]:
    """Each is another one, and none compresses well."""
    return [b"%06d" % number + seed + os.urandom(size // 2) + bytes(size // 2) for number in range(count)]
