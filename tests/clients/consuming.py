"""What every client has to show as a consumer that chooses its partitions."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tests.clients import features
from tests.clients.client import Client, ProducerOptions, send_all
from tests.clients.records import FIRST_TIMESTAMP_MS, numbered, stored, take, unique
from tests.support.gateway import Gateway

__all__ = ["Consuming"]

RECORDS = 100


class Consuming:
    client: ClassVar[Client]

    def filled(self, gateway: Gateway) -> str:
        """A topic with RECORDS records in partition 0, ten milliseconds apart, in a batch of several."""
        topic = unique("consume")
        with self.client.producer(gateway.bootstrap, ProducerOptions(codec="gzip")) as producer:
            send_all(producer, topic, 0, numbered(0, RECORDS))
        return topic

    @pytest.mark.feature(features.ASSIGNMENT)
    def test_any_offset(self, gateway: Gateway) -> None:
        topic, expected = self.filled(gateway), stored(0, numbered(0, RECORDS))
        with self.client.consumer(gateway.bootstrap) as consumer:
            for offset in (0, 57, RECORDS - 1):
                consumer.assign(topic, 0, offset)
                assert consumer.assignment() == {0}
                assert take(consumer, RECORDS - offset) == expected[offset:]

    @pytest.mark.feature(features.BY_TIME)
    def test_seek_by_time(self, gateway: Gateway) -> None:
        topic, expected = self.filled(gateway), stored(0, numbered(0, RECORDS))
        with self.client.consumer(gateway.bootstrap) as consumer:
            for after_ms, offset in {-1: 0, 0: 0, 1: 1, 420: 42, 425: 43, 990: 99, 991: None}.items():
                assert consumer.offset_for_time(topic, 0, FIRST_TIMESTAMP_MS + after_ms) == offset
            consumer.assign(topic, 0, 43)
            assert take(consumer, RECORDS - 43) == expected[43:]

    @pytest.mark.feature(features.WAITING)
    def test_what_arrives_while_it_waits(self, gateway: Gateway) -> None:
        topic = self.filled(gateway)
        with (
            self.client.consumer(gateway.bootstrap) as consumer,
            self.client.producer(gateway.bootstrap) as producer,
        ):
            consumer.assign(topic, 0, RECORDS)
            for turn in range(3):
                assert consumer.poll() == []
                producer.send(topic, 0, numbered(turn, turn + 1)[0])
                producer.flush()
                assert [record.offset for record in take(consumer, 1)] == [RECORDS + turn]
