"""What is published here is there for real clients."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.admin.http import Operator
from tests.gateway.admin.kafka_clients import consume, create_topic
from tests.kestrel_clients.raw_client import Memcache
from tests.support.gateway import Gateway


@pytest.fixture(scope="module", autouse=True)
def topic(gateway: Gateway) -> None:
    create_topic(gateway, "orders", 3)
    create_topic(gateway, "small", 1, max_message_bytes="200")


def test_a_kafka_client_reads_what_was_published(gateway: Gateway, operator: Operator) -> None:
    headers = [{"key": "a", "value": "1"}, {"key": "b", "value": None}]
    body = {"value": '{"n": 1}', "key": "k", "headers": headers, "partition": 2}
    reply = operator.post("/api/topics/orders/messages", body)
    assert reply.json() == {"topic": "orders", "partition": 2, "offset": 0}
    (message,) = consume(gateway, "orders", 2, 0, 1)
    assert (message.key(), message.value()) == (b"k", b'{"n": 1}')
    assert message.headers() == [("a", b"1"), ("b", None)]


def test_bytes_may_be_anything(gateway: Gateway, operator: Operator) -> None:
    body = {"value": "00ff", "key": "fe", "partition": 1, "encoding": "hex"}
    assert operator.post("/api/topics/orders/messages", body).status == 200
    assert operator.post("/api/topics/orders/messages", {"value": None, "partition": 1}).status == 200
    first, second = consume(gateway, "orders", 1, 0, 2)
    assert (first.key(), first.value()) == (b"\xfe", b"\x00\xff")
    assert (second.key(), second.value()) == (None, None)


def test_a_key_has_its_partition_and_without_one_it_is_any(operator: Operator) -> None:
    def partition(body: dict[str, Any]) -> int:
        found: int = operator.post("/api/topics/orders/messages", body).json()["partition"]
        return found

    assert {partition({"value": "x", "key": "always the same"}) for _ in range(10)} == {
        partition({"value": "y", "key": "always the same"})
    }
    assert len({partition({"value": "x"}) for _ in range(40)}) > 1


@pytest.mark.parametrize(
    ("topic", "body", "status"),
    [
        ("none", {"value": "x"}, 404),
        ("small", {"value": "x" * 300}, 413),
        ("orders", {"value": "x", "partition": 3}, 400),
        ("orders", {"value": "x", "partition": -1}, 400),
        ("orders", {"value": "x", "partition": "1"}, 400),
        ("orders", {"value": "x", "partition": True}, 400),
        ("orders", {"value": 5}, 400),
        ("orders", {"value": "x", "headers": [{"key": "\ud800", "value": "x"}]}, 400),
        ("orders", {"value": "x", "headers": "a: b"}, 400),
        ("orders", {"value": "x", "headers": [["a", "b"]]}, 400),
        ("orders", {"value": "x", "headers": [{"key": "a", "value": 1}]}, 400),
        ("orders", {"value": "x", "headers": [{"key": "a"}] * 101}, 400),
    ],
)
def test_what_cannot_be_published_is_refused(operator: Operator, topic: str, body: Any, status: int) -> None:
    reply = operator.post(f"/api/topics/{topic}/messages", body)
    assert reply.status == status
    assert reply.json()["error"]


def test_without_the_token_nothing_is_published(operator: Operator) -> None:
    before = operator.look("/api/topics/orders")["messages"]
    for path in ("topics/orders/messages", "queues/unwanted/items", "queues/jobs/move"):
        assert operator.ask("POST", f"/api/{path}", {"value": "x"}).status == 401
    assert operator.look("/api/topics/orders")["messages"] == before
    assert operator.get("/api/queues/unwanted").status == 404


def test_a_memcache_client_gets_what_was_put(gateway: Gateway, operator: Operator) -> None:
    assert operator.post("/api/queues/jobs/items", {"value": "to do", "flags": 7}).json() == {"queue": "jobs"}
    with Memcache(gateway.kestrel_port) as client:
        taken = client.take("jobs")
        assert taken is not None
        assert (taken.data, taken.flags) == (b"to do", 7)
        assert client.get("jobs") is None


@pytest.mark.parametrize(
    ("queue", "body", "status"),
    [
        ("a%2Fb", {"value": "x"}, 400),
        ("jobs", {}, 400),
        ("jobs", {"value": "x", "flags": -1}, 400),
        ("jobs", {"value": "x", "flags": 2**32}, 400),
        ("jobs", {"value": "x", "expiry_ms": "soon"}, 400),
    ],
)
def test_what_cannot_be_put_is_refused(operator: Operator, queue: str, body: Any, status: int) -> None:
    assert operator.post(f"/api/queues/{queue}/items", body).status == status


def test_a_topic_that_is_no_queue_takes_no_items(operator: Operator) -> None:
    reply = operator.post("/api/queues/orders/items", {"value": "x"})
    assert reply.status == 409
    assert "3 partitions, and a queue has one" in reply.json()["error"]


def test_an_item_that_has_expired_is_nobodys(gateway: Gateway, operator: Operator) -> None:
    assert operator.post("/api/queues/old/items", {"value": "x", "expiry_ms": 1000}).status == 200
    with Memcache(gateway.kestrel_port) as client:
        assert client.get("old") is None
