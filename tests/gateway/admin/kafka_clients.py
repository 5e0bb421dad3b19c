"""What tests of the operators' side do with real Kafka clients."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.gateway import Gateway

__all__ = ["commit", "consume", "create_topic", "produce"]

DEADLINE_S = 30


def create_topic(gateway: Gateway, name: str, partitions: int, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    config = {setting.replace("_", "."): value for setting, value in settings.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(DEADLINE_S)


def produce(gateway: Gateway, topic: str, *values: bytes, partition: int = 0, **fields: Any) -> None:
    """`fields` are those of Producer.produce, the same for all."""
    producer = Producer({"bootstrap.servers": gateway.bootstrap})
    for value in values:
        producer.produce(topic, value, partition=partition, **fields)
    assert producer.flush(DEADLINE_S) == 0


def commit(gateway: Gateway, group: str, *positions: tuple[str, int, int]) -> None:
    """(topic, partition, offset) each."""
    consumer = Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(*position) for position in positions], asynchronous=False)
    consumer.close()


def consume(gateway: Gateway, topic: str, partition: int, offset: int, count: int) -> list[Any]:
    """So many messages from there on."""
    consumer = Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": "readers"})
    consumer.assign([TopicPartition(topic, partition, offset)])
    messages: list[Any] = []
    while len(messages) < count:
        found = consumer.consume(count - len(messages), DEADLINE_S)
        assert found, f"only {len(messages)} of {count} messages came"
        messages += found
    consumer.close()
    return messages
