"""A running gateway as the target, by its own protocols and with its own clients.

Lines come to be by a Kestrel `peek`, so that the gateway makes topics and groups by its own settings. Batches
go by a Kafka producer, one request at a time, and records are read back by a consumer that is in no group.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic  # type: ignore[import-untyped]
from kafka.errors import KafkaError, TopicAlreadyExistsError  # type: ignore[import-untyped]
from kafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]

from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.gateway.migration.kestrel_lines import TIMEOUT_S, KestrelLines
from barbicel.gateway.migration.marks import MAX_BATCH_BYTES, StoredItem, stored_item
from barbicel.gateway.migration.target import (
    LEDGER_SETTINGS,
    LEDGER_TOPIC,
    Begun,
    Completed,
    Reading,
    Target,
    TargetQueue,
    TargetRefused,
    guard_group,
    parse_completed,
    render_completed,
)
from barbicel.kestrel_compat.names import QueueName, child_of, parse_queue_name, queue_of, topic_of

__all__ = ["GatewayQueue", "GatewayTarget"]

PARTITION = 0
LIMIT = "max.message.bytes"
# Beside an item's data.
MESSAGE_ROOM_BYTES = 64 << 10
TIMEOUT_MS = 30_000
POLL_MS = 1000
# The gateway counts what a Kafka producer has appended in the background.
COUNT_DEADLINE_S = 5.0
COUNT_PAUSE_S = 0.1
# The producer cuts batches by size or by time. It must do neither: a batch is what was flushed.
PRODUCER = {
    "acks": "all",
    "enable_idempotence": True,
    "max_in_flight_requests_per_connection": 1,
    "batch_size": 4 * MAX_BATCH_BYTES,
    "linger_ms": 60_000,
    "max_request_size": 256 << 20,
    "delivery_timeout_ms": 120_000,
    "request_timeout_ms": TIMEOUT_MS,
    "allow_auto_create_topics": False,
}
CONSUMER = {
    "enable_auto_commit": False,
    "auto_offset_reset": "none",
    "allow_auto_create_topics": False,
    "fetch_max_bytes": 16 << 20,
    "max_partition_fetch_bytes": 8 << 20,
}


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """The clients' errors as ours."""
    try:
        yield
    except (KafkaError, OSError) as error:
        raise TargetRefused(f"{what}: {type(error).__name__}: {error}") from error


class GatewayTarget(Target):
    """Use `open`. One thread only."""

    def __init__(self, bootstrap: str, kestrel: KestrelLines, admin: Any, producer: Any) -> None:
        self.bootstrap = bootstrap
        self.kestrel = kestrel
        self.admin = admin
        self.producer = producer

    @classmethod
    def open(cls, kafka: tuple[str, int], kestrel: tuple[str, int]) -> GatewayTarget:
        """Raises TargetRefused if nobody answers."""
        bootstrap = f"{kafka[0]}:{kafka[1]}"
        with _refusing(f"Kestrel at {kestrel[0]}:{kestrel[1]}"):
            lines = KestrelLines(kestrel)
        try:
            with _refusing(f"Kafka at {bootstrap}"):
                admin = KafkaAdminClient(bootstrap_servers=bootstrap)
                producer = KafkaProducer(bootstrap_servers=bootstrap, **PRODUCER)
        except TargetRefused:
            lines.close()
            raise
        return cls(bootstrap, lines, admin, producer)

    def close(self) -> None:
        self.kestrel.close()
        self.producer.close(timeout=TIMEOUT_S)
        self.admin.close()

    def consumer(self, **settings: object) -> Any:
        return KafkaConsumer(bootstrap_servers=self.bootstrap, **CONSUMER, **settings)

    # --- queues -------------------------------------------------------------------------------------

    def find(self, topic: str) -> GatewayQueue | None:
        with _refusing(topic):
            return GatewayQueue(self, topic) if self._describe(topic) else None

    def topic_id(self, topic: str) -> str | None:
        with _refusing(topic):
            found = self._describe(topic)
        return None if found is None else str(found["topic_id"])

    def _describe(self, topic: str) -> dict[str, Any] | None:
        described = self.admin.describe_topics([topic])
        return described[0] if described and not described[0].get("error_code") else None

    def make(self, names: Sequence[QueueName]) -> GatewayQueue:
        with _refusing(names[0].master):
            for name in names:
                self.kestrel.begin(name.text)
            return GatewayQueue(self, topic_of(names[0].master))

    # --- the ledger ---------------------------------------------------------------------------------

    def completed(self) -> list[Completed]:
        ledger = self.find(LEDGER_TOPIC)
        if ledger is None:
            return []
        with ledger:
            found = [parse_completed(item.data) for item in ledger.scan(0)]
        return [entry for entry in found if entry is not None]

    def note_completed(self, entry: Completed) -> None:
        with _refusing(LEDGER_TOPIC):
            if self._describe(LEDGER_TOPIC) is None:
                self._make_ledger()
            record = NewRecord(entry.completed_ms, entry.topic.encode(), render_completed(entry))
            with GatewayQueue(self, LEDGER_TOPIC) as ledger:
                ledger.append([record])

    def _make_ledger(self) -> None:
        topic = NewTopic(LEDGER_TOPIC, num_partitions=1, replication_factor=1, topic_configs=LEDGER_SETTINGS)
        try:
            self.admin.create_topics([topic])
        except TopicAlreadyExistsError:
            return


class GatewayQueue(TargetQueue):
    def __init__(self, target: GatewayTarget, topic: str) -> None:
        self.topic = topic
        self._target = target
        # Batches of several items are no larger.
        self._max_item_bytes = MAX_BATCH_BYTES
        self._partition = TopicPartition(topic, PARTITION)
        self._consumer = target.consumer()
        self._consumer.assign([self._partition])

    def close(self) -> None:
        self._consumer.close(autocommit=False)

    @property
    def start_offset(self) -> int:
        with _refusing(self.topic):
            return int(self._consumer.beginning_offsets([self._partition])[self._partition])

    @property
    def end_offset(self) -> int:
        with _refusing(self.topic):
            return int(self._consumer.end_offsets([self._partition])[self._partition])

    # --- lines --------------------------------------------------------------------------------------

    @property
    def groups(self) -> frozenset[str]:
        with _refusing(self.topic):
            names = map(parse_queue_name, self._target.kestrel.items_by_queue())
            return frozenset(name.group for name in names if topic_of(name.master) == self.topic)

    def reading(self, group: str) -> Reading | None:
        name = QueueName(queue_of(self.topic), child_of(group)).text
        with _refusing(self.topic):
            exists = name in self._target.kestrel.items_by_queue()
        return Reading(None, partial(self._count_items, name)) if exists else None

    def _count_items(self, name: str, expected: int) -> int:
        deadline = time.monotonic() + COUNT_DEADLINE_S
        while True:
            with _refusing(self.topic):
                items = self._target.kestrel.items_by_queue().get(name, 0)
            if items >= expected or time.monotonic() > deadline:
                return min(items, expected)
            time.sleep(COUNT_PAUSE_S)

    def keep_open(self, group: str, offsets: Sequence[int], deadline_ms: int) -> None:
        raise TargetRefused("an open read is a connection's in a running gateway: nothing can be kept open")

    # --- an import ----------------------------------------------------------------------------------

    @contextmanager
    def _guard(self) -> Iterator[Any]:
        with _refusing(self.topic):
            consumer = self._target.consumer(group_id=guard_group(self.topic))
            try:
                consumer.assign([self._partition])
                yield consumer
            finally:
                consumer.close(autocommit=False)

    def begun(self) -> Begun | None:
        with self._guard() as consumer:
            found = consumer.committed(self._partition, metadata=True)
        return None if found is None or found.offset < 0 else Begun(found.metadata, found.offset)

    def begin(self, import_id: str) -> Begun:
        first_offset = self.end_offset
        with self._guard() as consumer:
            consumer.commit({self._partition: OffsetAndMetadata(first_offset, import_id, -1)})
        return Begun(import_id, first_offset)

    def end(self) -> None:
        with _refusing(self.topic):
            self._target.admin.delete_groups([guard_group(self.topic)])

    # --- records ------------------------------------------------------------------------------------

    def append(self, batch: Sequence[NewRecord]) -> None:
        """Waits for the answer: the next batch is sent when this one is durable."""
        producer = self._target.producer
        with _refusing(self.topic):
            if len(batch) == 1 and len(batch[0].value or b"") > self._max_item_bytes:
                self._allow(len(batch[0].value or b""))
            sent = [
                producer.send(
                    self.topic,
                    record.value,
                    record.key,
                    [(key.decode(), value) for key, value in record.headers],
                    PARTITION,
                    record.timestamp_ms,
                )
                for record in batch
            ]
            producer.flush(timeout=TIMEOUT_S * 4)
            offsets = [future.get(timeout=TIMEOUT_S).offset for future in sent]
        if offsets[-1] - offsets[0] != len(batch) - 1:
            raise TargetRefused(f"{self.topic}: a batch was stored in pieces")

    def _allow(self, item_bytes: int) -> None:
        """Kestrel's items may be larger than what a Kafka producer may send. The limit is only raised, and
        stays so."""
        admin, wanted = self._target.admin, item_bytes + MESSAGE_ROOM_BYTES
        found = admin.describe_configs([self._config({LIMIT: None})], config_filter="all")
        if int(found["topic"][self.topic][LIMIT]["value"]) < wanted:
            admin.alter_configs([self._config({LIMIT: str(wanted)})])
        self._max_item_bytes = item_bytes

    def _config(self, settings: dict[str, str | None]) -> Any:
        return ConfigResource(ConfigResourceType.TOPIC, self.topic, settings)

    def settle(self) -> None:
        """Each append has waited."""

    def scan(self, from_offset: int) -> Iterator[StoredItem]:
        offset, end_offset = max(from_offset, self.start_offset), self.end_offset
        if offset >= end_offset:
            return
        self._consumer.seek(self._partition, offset)
        while offset < end_offset:
            with _refusing(self.topic):
                found = self._consumer.poll(timeout_ms=POLL_MS).get(self._partition, ())
                offset = int(self._consumer.position(self._partition))
            for record in found:
                if record.value is not None and record.offset < end_offset:
                    headers = tuple((key.encode(), value) for key, value in record.headers)
                    yield stored_item(record.offset, record.timestamp, record.value, headers)
