"""What every client has to show as members of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

import pytest

from tests.clients import features
from tests.clients.client import Client, Consumer, NewRecord, StoredRecord, until
from tests.clients.member import killed_member
from tests.clients.records import EVERY_PARTITION as EVERY
from tests.clients.records import take, unique
from tests.support.gateway import Gateway

__all__ = ["Grouping"]


class Grouping:
    client: ClassVar[Client]

    def write(self, gateway: Gateway, topic: str, count: int) -> None:
        """So many records to each partition."""
        with self.client.producer(gateway.bootstrap) as producer:
            for number in range(count):
                for partition in EVERY:
                    producer.send(topic, partition, NewRecord(b"%d/%d" % (partition, number)))
            producer.flush()

    def created(self, gateway: Gateway) -> str:
        """A topic with one record in each partition."""
        topic = unique("group")
        self.write(gateway, topic, 1)
        return topic

    def has_all(self, gateway: Gateway, topic: str, consumer: Consumer) -> None:
        """It comes to have every partition, and reads on in all of them."""
        until("every partition", lambda: polled(consumer) and consumer.assignment() == EVERY)
        self.write(gateway, topic, 1)
        found = take(consumer, len(EVERY))
        assert sorted(record[:2] for record in found) == [(partition, 1) for partition in sorted(EVERY)]

    @pytest.mark.feature(features.SHARING)
    def test_members_share(self, gateway: Gateway) -> None:
        topic, group = self.created(gateway), unique("share")
        with (
            self.client.consumer(gateway.bootstrap, group) as first,
            self.client.consumer(gateway.bootstrap, group) as second,
        ):
            join_alone(first, topic)
            first.commit(topic, dict.fromkeys(EVERY, 1))
            second.subscribe(topic)
            share(first, second)
            self.write(gateway, topic, 5)
            found = take_from((first, second), 5 * len(EVERY))
            assert Counter((record.partition, record.offset) for record in found) == Counter(
                (partition, offset) for partition in EVERY for offset in range(1, 6)
            )

    @pytest.mark.feature(features.LEAVING)
    def test_a_member_leaves(self, gateway: Gateway) -> None:
        topic, group = self.created(gateway), unique("leave")
        with self.client.consumer(gateway.bootstrap, group) as first:
            join_alone(first, topic)
            first.commit(topic, dict.fromkeys(EVERY, 1))
            with self.client.consumer(gateway.bootstrap, group) as second:
                second.subscribe(topic)
                share(first, second)
            self.has_all(gateway, topic, first)

    @pytest.mark.feature(features.CRASH)
    def test_a_member_is_killed(self, gateway: Gateway) -> None:
        topic, group = self.created(gateway), unique("crash")
        with self.client.consumer(gateway.bootstrap, group) as survivor:
            join_alone(survivor, topic)
            survivor.commit(topic, dict.fromkeys(EVERY, 1))
            with killed_member(self.client, gateway.bootstrap, topic, group) as others:
                until(
                    "each its part", lambda: polled(survivor) and is_shared(survivor.assignment(), others())
                )
            self.has_all(gateway, topic, survivor)

    @pytest.mark.feature(features.RESUME)
    def test_resume(self, gateway: Gateway) -> None:
        topic, group = self.created(gateway), unique("resume")
        self.write(gateway, topic, 9)
        with self.client.consumer(gateway.bootstrap, group) as consumer:
            consumer.subscribe(topic)
            take(consumer, 10 * len(EVERY))
            consumer.commit(topic, dict.fromkeys(EVERY, 5))
        with self.client.consumer(gateway.bootstrap, group) as consumer:
            consumer.subscribe(topic)
            found = take(consumer, 5 * len(EVERY))
            expected = {(partition, offset) for partition in EVERY for offset in range(5, 10)}
            assert {record[:2] for record in found} == expected


def join_alone(consumer: Consumer, topic: str) -> None:
    """On return it has every partition and the record of each."""
    consumer.subscribe(topic)
    take(consumer, len(EVERY))
    assert consumer.assignment() == EVERY


def polled(*members: Consumer) -> bool:
    """Let them do what is to be done; there is nothing to read meanwhile."""
    for member in members:
        assert member.poll() == []
    return True


def is_shared(some: set[int], others: set[int]) -> bool:
    """Whether each has a part, and together they have it all."""
    return bool(some and others) and not some & others and some | others == EVERY


def share(first: Consumer, second: Consumer) -> None:
    until(
        "each its part",
        lambda: polled(first, second) and is_shared(first.assignment(), second.assignment()),
    )


def take_from(members: Sequence[Consumer], count: int) -> list[StoredRecord]:
    taken: list[StoredRecord] = []

    def enough() -> bool:
        for member in members:
            taken.extend(member.poll())
        return len(taken) >= count

    until(f"{count} records", enough)
    return taken
