"""Quotas as clients meet them: told in the answer, and muted until the time is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barbicel.codecs.kafka import messages as m
from barbicel.codecs.kafka.error_codes import ErrorCode
from tests.gateway.kafka.in_memory import Client, Gateway, batch, in_memory_gateway
from tests.gateway.kafka.requests import fetch, metadata, only, produce, produced

RATE = 1000.0


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with in_memory_gateway(tmp_path / "data") as gateway:
        gateway.create()
        yield gateway


def alter(
    client: Client,
    key: str = "producer_byte_rate",
    value: float | None = RATE,
    entity: tuple[tuple[str, str | None], ...] = (("client-id", "test"),),
    **options: Any,
) -> Any:
    row = m.AlterClientQuotasRequest.EntryData
    parts = [row.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    op = row.OpData(key=key, value=value or 0.0, remove=value is None)
    request = m.AlterClientQuotasRequest(
        entries=[row(entity=parts, ops=[op])], validate_only=options.get("validate_only", False)
    )
    return only(client.ask(request, 1).entries)


def described(client: Client, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    row = m.DescribeClientQuotasRequest.ComponentData
    asked = [row(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    answer = client.ask(m.DescribeClientQuotasRequest(components=asked, strict=strict), 1)
    if answer.error_code:
        return ErrorCode(answer.error_code)
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


def limited(gateway: Gateway, key: str = "producer_byte_rate") -> Client:
    """A client that came after its quota was set."""
    assert alter(gateway.connect(port=1), key).error_code == ErrorCode.NONE
    return gateway.connect(port=2)


def test_a_producer_that_is_too_fast_waits(gateway: Gateway) -> None:
    client = limited(gateway)
    assert client.ask(produce(batch(b"x" * 5000)), 9).throttle_time_ms == 0
    answer = client.ask(produce(batch(b"x" * 8000)), 9)
    assert produced(answer)[0].error_code == ErrorCode.NONE
    assert 2000 < answer.throttle_time_ms < 5000
    assert client.is_paused
    client.send(metadata("t"), 9)
    gateway.reactor.advance(answer.throttle_time_ms / 1000 - 0.1)
    assert not client.has_answer
    gateway.reactor.advance(0.2)
    assert client.answer().topics[0].error_code == ErrorCode.NONE
    assert not client.is_paused


def test_others_are_not_kept_waiting(gateway: Gateway) -> None:
    client, other = limited(gateway), gateway.connect(port=3)
    client.ask(produce(batch(b"x" * 50_000)), 9)
    assert client.is_paused
    # The same client id, and so the same quota, on another connection: it is served, and told to wait.
    assert other.ask(produce(batch(b"x")), 9).throttle_time_ms > 0
    before = gateway.connect(port=4)
    assert before.ask(metadata("t"), 9).throttle_time_ms == 0


def test_without_an_answer_the_client_is_muted_all_the_same(gateway: Gateway) -> None:
    client = limited(gateway)
    client.send(produce(batch(b"x" * 50_000), acks=0), 9)
    client.forget_answer()
    gateway.reactor.until(lambda: client.is_paused)


@pytest.mark.parametrize("version", [4, 12])
def test_a_consumer_that_is_too_fast_waits(gateway: Gateway, version: int) -> None:
    writer = gateway.connect(port=9)
    writer.ask(produce(batch(b"x" * 20_000)), 9)
    client = limited(gateway, "consumer_byte_rate")
    answer = client.ask(fetch(0), version)
    assert answer.throttle_time_ms > 5000
    assert client.is_paused
    gateway.now_ms += 20_000
    gateway.reactor.advance(20)
    assert client.ask(fetch(1), version).throttle_time_ms == 0


def test_whoever_keeps_the_server_busy_waits(gateway: Gateway) -> None:
    assert alter(gateway.connect(port=1), "request_percentage", 1e-7).error_code == ErrorCode.NONE
    client = gateway.connect(port=2)
    assert client.ask(metadata("t"), 9).throttle_time_ms > 0
    assert client.is_paused


def test_a_short_wait_does_not_end_a_long_one(gateway: Gateway) -> None:
    """Requests that were under way together are answered one after the other, each with its own."""
    client = limited(gateway)
    client.connection._mute(5000)
    client.connection._mute(1)
    gateway.reactor.advance(1.0)
    assert client.connection._is_muted
    gateway.reactor.advance(4.1)
    assert not client.connection._is_muted


def test_a_tiny_quota_is_one(gateway: Gateway) -> None:
    assert alter(gateway.connect(port=1), "request_percentage", 5e-324).error_code == ErrorCode.NONE
    client = gateway.connect(port=2)
    assert client.ask(metadata("t"), 9).throttle_time_ms == 11_000


def test_a_quota_that_is_taken_away_limits_nobody(gateway: Gateway) -> None:
    client = limited(gateway)
    assert alter(gateway.connect(port=5), value=None).error_code == ErrorCode.NONE
    assert client.ask(produce(batch(b"x" * 50_000)), 9).throttle_time_ms == 0
    assert described(gateway.connect(port=6)) == {}


def test_quotas_survive_a_restart_and_limit_the_first_client(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data") as gateway:
        gateway.create()
        assert alter(gateway.connect()).error_code == ErrorCode.NONE
    with in_memory_gateway(tmp_path / "data") as gateway:
        from barbicel.gateway.access.opening import open_access_if_needed

        assert open_access_if_needed(gateway.broker) is not None
        client = gateway.connect()
        assert client.ask(produce(batch(b"x" * 50_000)), 9).throttle_time_ms > 0


def test_which_quotas_there_are(gateway: Gateway) -> None:
    client = gateway.connect()
    both = (("client-id", "c"), ("user", "u"))
    for entity, value in (
        (both, 1.0),
        ((("user", "u"),), 2.0),
        ((("user", None),), 3.0),
        ((("client-id", "c"),), 4.0),
    ):
        assert alter(client, value=value, entity=entity).error_code == ErrorCode.NONE

    def values(*components: tuple[str, int, str | None], strict: bool = False) -> set[float]:
        return {of["producer_byte_rate"] for of in described(client, *components, strict=strict).values()}

    assert values() == {1.0, 2.0, 3.0, 4.0}
    assert values(("user", 0, "u")) == {1.0, 2.0}
    assert values(("user", 0, "u"), strict=True) == {2.0}
    assert values(("user", 1, None)) == {3.0}
    assert values(("user", 2, None)) == {1.0, 2.0, 3.0}
    assert values(("user", 2, None), ("client-id", 0, "c")) == {1.0}
    for bad in (("ip", 2, None), ("user", 3, None), ("user", 0, None), ("user", 1, "u")):
        assert described(client, bad) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "changed",
    [
        {"key": "controller_mutation_rate"},
        {"key": "nonsense"},
        {"value": 0.0},
        {"value": -1.0},
        {"value": 1.5},
        {"value": float("nan")},
        {"value": float("inf")},
        {"entity": ()},
        {"entity": (("ip", "10.0.0.1"),)},
        {"entity": (("user", ""),)},
        {"entity": (("user", "a"), ("user", "b"))},
    ],
)
def test_what_is_no_quota(gateway: Gateway, changed: dict[str, Any]) -> None:
    client = gateway.connect()
    assert alter(client, **changed).error_code == ErrorCode.INVALID_REQUEST
    assert described(client) == {}


def test_only_looking_changes_nothing(gateway: Gateway) -> None:
    client = gateway.connect()
    assert alter(client, validate_only=True).error_code == ErrorCode.NONE
    assert described(client) == {}
