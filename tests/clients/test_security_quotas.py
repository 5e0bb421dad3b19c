"""A real producer and a real consumer that are too fast: told to wait, and kept waiting."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from barbicel.codecs.kafka import messages as m
from tests.gateway.kafka.raw_client import RawClient
from tests.support.gateway import Gateway, running_gateway

RATE = 20_000
# What the windows let through at once, and as much again.
BURST_BYTES = RATE * 11
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running_gateway(tmp_path_factory.mktemp("quotas")) as gateway:
        row = m.AlterClientQuotasRequest.EntryData
        entity = row.EntityData(entity_type="client-id", entity_name="greedy")
        ops = [
            row.OpData(key=key, value=float(RATE), remove=False)
            for key in ("producer_byte_rate", "consumer_byte_rate")
        ]
        request = m.AlterClientQuotasRequest(entries=[row(entity=[entity], ops=ops)], validate_only=False)
        with RawClient((gateway.host, gateway.port)) as client:
            (entry,) = client.ask(request, 1).entries
            assert entry.error_code == 0
        yield gateway


def send(gateway: Gateway, client_id: str, size_bytes: int) -> tuple[float, list[float]]:
    """How long it took, and the waits that the producer was told, in seconds."""
    waits: list[float] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": gateway.bootstrap,
        "client.id": client_id,
        "log_level": 0,
        "linger.ms": 0,
        "batch.num.messages": 1,
        "max.in.flight": 1,
        "throttle_cb": lambda event: waits.append(event.throttle_time),
    }
    producer = confluent_kafka.Producer(settings)
    began = time.monotonic()
    for _ in range(size_bytes // 10_000):
        producer.produce("t", b"x" * 10_000)
    assert producer.flush(DEADLINE_S) == 0
    took_s = time.monotonic() - began
    producer.poll(0)
    return took_s, waits


def test_a_producer_keeps_to_its_rate(gateway: Gateway) -> None:
    size = BURST_BYTES + 3 * RATE
    took_s, waits = send(gateway, "greedy", size)
    assert waits
    assert took_s >= 1.0
    _, others = send(gateway, "modest", size)
    assert not others


def test_a_consumer_is_told_to_wait(gateway: Gateway) -> None:
    send(gateway, "modest", BURST_BYTES * 2)
    waits: list[float] = []
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "client.id": "greedy",
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "log_level": 0,
            "throttle_cb": lambda event: waits.append(event.throttle_time),
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        deadline = time.monotonic() + DEADLINE_S
        while not waits and time.monotonic() < deadline:
            consumer.poll(0.1)
    finally:
        consumer.close()
    assert waits
