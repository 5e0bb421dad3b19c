"""What every client has to show when the gateway is killed with kill -9 and started again."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tests.clients import features
from tests.clients.client import Client, Consumer, NewRecord, ProducerOptions, send_all, until
from tests.clients.records import EVERY_PARTITION, numbered, read, stored, take, unique
from tests.support.gateway import Gateway

__all__ = ["Surviving"]


class Surviving:
    client: ClassVar[Client]

    def write(self, gateway: Gateway, topic: str, count: int) -> None:
        """So many records to each partition."""
        with self.client.producer(gateway.bootstrap) as producer:
            for number in range(count):
                for partition in EVERY_PARTITION:
                    producer.send(topic, partition, NewRecord(b"%d/%d" % (partition, number)))
            producer.flush()

    @pytest.mark.feature(features.IDEMPOTENT_KILL)
    def test_an_idempotent_producer(self, gateway: Gateway) -> None:
        """What was under way when the gateway died is sent again; nothing is stored twice."""
        topic = unique("killed")
        records = numbered(0, 400)
        with self.client.producer(gateway.bootstrap, ProducerOptions(idempotent=True)) as producer:
            send_all(producer, topic, 0, records[:10])
            for record in records[10:200]:
                producer.send(topic, 0, record)
            restart(gateway)
            for record in records[200:]:
                producer.send(topic, 0, record)
            assert producer.flush() == list(range(len(records)))
        assert read(self.client, gateway.bootstrap, topic, 0, len(records)) == stored(0, records)

    @pytest.mark.feature(features.CONSUME_KILL)
    def test_a_consumer_by_assignment(self, gateway: Gateway) -> None:
        topic = unique("consume")
        records = numbered(0, 15)
        with self.client.consumer(gateway.bootstrap) as consumer:
            with self.client.producer(gateway.bootstrap) as producer:
                send_all(producer, topic, 0, records[:10])
            consumer.assign(topic, 0, 0)
            before = take(consumer, 10)
            restart(gateway)
            with self.client.producer(gateway.bootstrap) as producer:
                send_all(producer, topic, 0, records[10:])
            assert before + take(consumer, 5) == stored(0, records)

    @pytest.mark.feature(features.RESUME_KILL)
    def test_committed_offsets(self, gateway: Gateway) -> None:
        topic, group = unique("resume"), unique("group")
        self.write(gateway, topic, 10)
        with self.client.consumer(gateway.bootstrap, group) as consumer:
            consumer.subscribe(topic)
            take(consumer, 10 * len(EVERY_PARTITION))
            consumer.commit(topic, dict.fromkeys(EVERY_PARTITION, 5))
        restart(gateway)
        with self.client.consumer(gateway.bootstrap, group) as consumer:
            consumer.subscribe(topic)
            found = take(consumer, 5 * len(EVERY_PARTITION))
            expected = {(partition, offset) for partition in EVERY_PARTITION for offset in range(5, 10)}
            assert {record[:2] for record in found} == expected

    @pytest.mark.feature(features.MEMBER_KILL)
    def test_a_member(self, gateway: Gateway) -> None:
        """Members are forgotten with the gateway, committed offsets are not: it joins again and goes on."""
        topic, group = unique("stay"), unique("group")
        self.write(gateway, topic, 1)
        with self.client.consumer(gateway.bootstrap, group) as consumer:
            consumer.subscribe(topic)
            take(consumer, len(EVERY_PARTITION))
            consumer.commit(topic, dict.fromkeys(EVERY_PARTITION, 1))
            restart(gateway)
            self.write(gateway, topic, 1)
            found = take(consumer, len(EVERY_PARTITION))
            assert {record[:2] for record in found} == {(partition, 1) for partition in EVERY_PARTITION}
            until("its place in the group", lambda: is_committed(consumer, topic))


def restart(gateway: Gateway) -> None:
    gateway.kill()
    gateway.start()


def is_committed(consumer: Consumer, topic: str) -> bool:
    """Whether a commit is taken: the member may still be on its way back into the group."""
    consumer.poll()
    try:
        consumer.commit(topic, dict.fromkeys(EVERY_PARTITION, 2))
    except Exception:  # each client has its own name for "not a member"
        return False
    return True
