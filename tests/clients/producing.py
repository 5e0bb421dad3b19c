"""What every client has to show as a producer."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tests.clients import features
from tests.clients.client import Client, Headers, NewRecord, ProducerOptions, StoredRecord, send_all
from tests.clients.features import CODECS, codec_feature
from tests.clients.records import FIRST_TIMESTAMP_MS as STAMP_MS
from tests.clients.records import mixed_records, numbered, read, stored, unique
from tests.support.gateway import Gateway

__all__ = ["Producing"]

RECORDS = 60
# Above max.message.bytes, and below what the clients themselves refuse.
TOO_LARGE_BYTES = 600_000
LIMIT = {"max.message.bytes": "500000"}


class Producing:
    client: ClassVar[Client]

    def send(
        self, gateway: Gateway, topic: str, records: list[NewRecord], options: ProducerOptions
    ) -> list[int]:
        with self.client.producer(gateway.bootstrap, options) as producer:
            return send_all(producer, topic, 0, records)

    def round_trip(
        self, gateway: Gateway, records: list[NewRecord], options: ProducerOptions
    ) -> list[StoredRecord]:
        """What comes back; it must be what was sent, wherever a row looks closer."""
        topic = unique("produce")
        offsets = self.send(gateway, topic, records, options)
        assert offsets == list(range(len(records)))
        found = read(self.client, gateway.bootstrap, topic, 0, len(records))
        assert found == stored(0, records)
        return found

    @pytest.mark.parametrize(
        "codec", [pytest.param(codec, marks=pytest.mark.feature(codec_feature(codec))) for codec in CODECS]
    )
    def test_codec(self, gateway: Gateway, codec: str) -> None:
        self.round_trip(gateway, mixed_records(self.client), ProducerOptions(codec=codec))

    @pytest.mark.feature(features.NULLS)
    def test_nulls_and_empty_ones_stay_apart(self, gateway: Gateway) -> None:
        kinds = (None, b"", b"something")
        pairs = (NewRecord(value, key, timestamp_ms=STAMP_MS) for key in kinds for value in kinds)
        self.round_trip(gateway, list(filter(self.client.can_send, pairs)), ProducerOptions())

    @pytest.mark.feature(features.HEADERS)
    def test_headers_come_back_in_order(self, gateway: Gateway) -> None:
        headers = (("same", b"1"), ("other", b"2"), ("same", b"3"), ("empty", b""), ("größe", b"\x00"))
        kinds: tuple[Headers, ...] = (headers, (*headers, ("null", None)))
        records = (NewRecord(b"value", headers=kind, timestamp_ms=STAMP_MS) for kind in kinds)
        self.round_trip(gateway, list(filter(self.client.can_send, records)), ProducerOptions())

    @pytest.mark.feature(features.ACKS)
    def test_acks(self, gateway: Gateway) -> None:
        for acks in ("1", "all"):
            self.round_trip(gateway, numbered(0, RECORDS), ProducerOptions(acks=acks))
        topic = unique("acks-0")
        self.send(gateway, topic, numbered(0, RECORDS), ProducerOptions(acks="0"))
        assert read(self.client, gateway.bootstrap, topic, 0, RECORDS) == stored(0, numbered(0, RECORDS))

    @pytest.mark.feature(features.AUTO_CREATION)
    def test_the_first_record_creates_its_topic(self, gateway: Gateway) -> None:
        topic = unique("created")
        with self.client.producer(gateway.bootstrap) as producer:
            producer.send(topic, 3, NewRecord(b"in the last partition"))
            assert producer.flush() == [0]
        assert [record.value for record in read(self.client, gateway.bootstrap, topic, 3, 1)] == [
            b"in the last partition"
        ]

    @pytest.mark.feature(features.TOO_LARGE)
    def test_too_large_a_record_is_refused(self, gateway: Gateway) -> None:
        topic = unique("too-large")
        with self.client.admin(gateway.bootstrap) as admin:
            admin.create_topic(topic, 1, LIMIT)
        with pytest.raises(Exception, match="(?i)too.?large|larger"):
            self.send(gateway, topic, [NewRecord(b"x" * TOO_LARGE_BYTES)], ProducerOptions())
        assert self.send(gateway, topic, [NewRecord(b"small")], ProducerOptions()) == [0]

    @pytest.mark.feature(features.IDEMPOTENT)
    def test_an_idempotent_producer_keeps_the_order(self, gateway: Gateway) -> None:
        topic = unique("idempotent")
        records = numbered(0, 500)
        with self.client.producer(gateway.bootstrap, ProducerOptions(idempotent=True)) as producer:
            for start in range(0, len(records), 50):
                send_all(producer, topic, 0, records[start : start + 50])
        assert read(self.client, gateway.bootstrap, topic, 0, len(records)) == stored(0, records)
