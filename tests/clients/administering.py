"""What every client has to show as an administrator."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tests.clients import features
from tests.clients.client import Client, send_all
from tests.clients.records import numbered, take, unique
from tests.support.gateway import Gateway

__all__ = ["Administering"]


class Administering:
    client: ClassVar[Client]

    @pytest.mark.feature(features.CLUSTER)
    def test_the_cluster(self, gateway: Gateway) -> None:
        with self.client.admin(gateway.bootstrap) as admin:
            assert admin.brokers() == [(gateway.host, gateway.port)]

    @pytest.mark.feature(features.TOPICS)
    def test_topics(self, gateway: Gateway) -> None:
        topic = unique("topic")
        with self.client.admin(gateway.bootstrap) as admin:
            admin.create_topic(topic, 3, {})
            assert topic in admin.topics()
            assert admin.partitions_of(topic) == 3
            with pytest.raises(Exception, match="(?i)exists"):
                admin.create_topic(topic, 3, {})
            admin.delete_topic(topic)
            assert topic not in admin.topics()

    @pytest.mark.feature(features.PARTITIONS)
    def test_more_partitions(self, gateway: Gateway) -> None:
        topic = unique("partitions")
        with self.client.admin(gateway.bootstrap) as admin:
            admin.create_topic(topic, 2, {})
            admin.add_partitions(topic, 5)
            assert admin.partitions_of(topic) == 5
            with pytest.raises(Exception, match="(?i)partitions"):
                admin.add_partitions(topic, 1)

    @pytest.mark.feature(features.SETTINGS)
    def test_settings(self, gateway: Gateway) -> None:
        topic = unique("settings")
        with self.client.admin(gateway.bootstrap) as admin:
            admin.create_topic(topic, 1, {"retention.ms": "3600000"})
            assert admin.settings_of(topic)["retention.ms"] == "3600000"
            assert admin.settings_of(topic)["cleanup.policy"] == "delete"
            admin.change_setting(topic, "retention.ms", "7200000")
            assert admin.settings_of(topic)["retention.ms"] == "7200000"
            with pytest.raises(Exception, match="(?i)config"):
                admin.change_setting(topic, "retention.ms", "soon")

    @pytest.mark.feature(features.DELETE_RECORDS)
    def test_records_are_deleted(self, gateway: Gateway) -> None:
        topic = unique("delete-records")
        with self.client.producer(gateway.bootstrap) as producer:
            send_all(producer, topic, 0, numbered(0, 20))
        with self.client.admin(gateway.bootstrap) as admin:
            assert admin.delete_records(topic, 0, 8) == 8
        with self.client.consumer(gateway.bootstrap) as consumer:
            consumer.assign(topic, 0, 8)
            assert [record.offset for record in take(consumer, 12)] == list(range(8, 20))

    @pytest.mark.feature(features.GROUPS)
    def test_groups(self, gateway: Gateway) -> None:
        topic, group = unique("groups"), unique("group")
        with self.client.producer(gateway.bootstrap) as producer:
            send_all(producer, topic, 0, numbered(0, 10))
        with self.client.admin(gateway.bootstrap) as admin:
            with self.client.consumer(gateway.bootstrap, group) as consumer:
                consumer.subscribe(topic)
                take(consumer, 10)
                consumer.commit(topic, {0: 7})
                assert group in admin.groups()
                assert admin.state_of(group) == "Stable"
            assert admin.state_of(group) == "Empty"
            assert admin.offsets_of(group, topic) == {0: 7}

    @pytest.mark.feature(features.SET_OFFSETS)
    def test_offsets_are_set(self, gateway: Gateway) -> None:
        topic, group = unique("set-offsets"), unique("group")
        with self.client.producer(gateway.bootstrap) as producer:
            send_all(producer, topic, 0, numbered(0, 10))
        with self.client.admin(gateway.bootstrap) as admin:
            admin.set_offsets(group, topic, {0: 4, 1: 0})
            assert admin.offsets_of(group, topic) == {0: 4, 1: 0}
        with self.client.consumer(gateway.bootstrap, group) as consumer:
            consumer.subscribe(topic)
            assert [record.offset for record in take(consumer, 6)] == list(range(4, 10))

    @pytest.mark.feature(features.DELETE_GROUPS)
    def test_a_group_is_deleted(self, gateway: Gateway) -> None:
        topic, group = unique("delete-group"), unique("group")
        with self.client.producer(gateway.bootstrap) as producer:
            send_all(producer, topic, 0, numbered(0, 1))
        with self.client.admin(gateway.bootstrap) as admin:
            admin.set_offsets(group, topic, {0: 1})
            assert group in admin.groups()
            admin.delete_group(group)
            assert group not in admin.groups()
