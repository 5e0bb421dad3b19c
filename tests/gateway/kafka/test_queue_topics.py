"""Topics that are Kestrel queues, through Kafka's admin APIs: created as such, shown, and kept so."""

from __future__ import annotations

from typing import Any

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode as E
from tests.gateway.kafka.admin_requests import (
    TOPIC,
    alter,
    create,
    create_partitions,
    describe,
    increment,
    new_topic,
    setting,
)
from tests.gateway.kafka.in_memory import Gateway

SET, DELETE = 0, 1
QUEUE = ("kestrel.queue", "true")


@pytest.fixture
def client(gateway: Gateway) -> Any:
    return gateway.connect()


@pytest.fixture
def queue(client: Any) -> str:
    (row,) = create(client, new_topic("q", 1, configs=[QUEUE]))
    assert row.error_code == E.NONE
    return "q"


def test_a_queue_says_so(client: Any, queue: str) -> None:
    create(client, new_topic("t", 1))
    assert [setting(client, name, "kestrel.queue") for name in (queue, "t")] == ["true", "false"]
    (row,) = describe(client, (TOPIC, queue, ["kestrel.queue"]), documentation=True)
    assert (row.configs[0].config_source, row.configs[0].read_only) == (1, False)
    assert "one partition" in row.configs[0].documentation


def test_a_queue_has_one_partition(client: Any, queue: str) -> None:
    (row,) = create(client, new_topic("two", 2, configs=[QUEUE]))
    assert (row.error_code, row.error_message) == (
        E.INVALID_PARTITIONS,
        "2 partitions, a Kestrel queue has one",
    )
    assert create_partitions(client, (queue, 2, None))[0].error_code == E.INVALID_PARTITIONS
    assert create_partitions(client, (queue, 2, None), validate_only=True)[0].error_code == (
        E.INVALID_PARTITIONS
    )


def test_a_queue_stays_one_whatever_is_altered(client: Any, queue: str) -> None:
    refused = [
        increment(client, (TOPIC, queue, [("kestrel.queue", SET, "false")])),
        increment(client, (TOPIC, queue, [("kestrel.queue", DELETE, None)])),
        # This API takes away whatever it does not name.
        alter(client, (TOPIC, queue, [("retention.ms", "5")])),
    ]
    assert [row.error_code for (row,) in refused] == [E.INVALID_CONFIG] * 3
    assert "'q' it stays true" in refused[0][0].error_message
    allowed = [
        increment(client, (TOPIC, queue, [("retention.ms", SET, "5")])),
        alter(client, (TOPIC, queue, [QUEUE, ("retention.ms", "6")])),
    ]
    assert [row.error_code for (row,) in allowed] == [E.NONE] * 2
    assert setting(client, queue, "kestrel.queue") == "true"


def test_a_topic_does_not_become_one(client: Any) -> None:
    create(client, new_topic("t", 1))
    (row,) = increment(client, (TOPIC, "t", [("kestrel.queue", SET, "true")]))
    assert row.error_code == E.INVALID_CONFIG
    assert setting(client, "t", "kestrel.queue") == "false"
