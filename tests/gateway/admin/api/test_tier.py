"""What the operators' side tells of segments that have left the disk."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.admin.http import Operator, poll
from tests.gateway.admin.kafka_clients import create_topic, produce
from tests.support.gateway import Gateway, running_gateway

FIRST_MS = 1_700_000_000_000
MESSAGES = 60


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    settings = {
        "remote_log_storage_system_enable": "true",
        "remote_log_manager_task_interval_ms": "20",
        "tier_segment_bytes": str(64 << 10),
    }
    with running_gateway(tmp_path_factory.mktemp("tiered"), **settings) as running:
        yield running


@pytest.fixture(scope="module")
def segments(gateway: Gateway, operator: Operator) -> list[Any]:
    """Of a partition that has something in the store alone."""
    create_topic(
        gateway,
        "deep",
        1,
        remote_storage_enable="true",
        local_retention_bytes="0",
        retention_ms="-1",
    )
    for number in range(MESSAGES):
        produce(gateway, "deep", b"%d " % number + b"x" * 8000, timestamp=FIRST_MS + number * 1000)
    assert operator.post("/api/tier/flush").status == 200

    def look() -> list[Any] | None:
        found: list[Any] = operator.look("/api/topics/deep")["partition_rows"][0]["segments"]
        return found if not found[0]["is_local"] else None

    rows: list[Any] = poll(look)
    return rows


def test_segments_in_the_store_are_told_before_those_on_the_disk(
    operator: Operator, segments: list[Any]
) -> None:
    assert segments[0]["base_offset"] == 0
    assert all(one["end_offset"] == two["base_offset"] for one, two in itertools.pairwise(segments))
    assert segments[0]["tier"] == "store"
    assert segments[0]["size_bytes"] > 0
    assert segments[-1]["is_active"]
    row = operator.look("/api/topics/deep")
    assert row["messages"] == MESSAGES
    assert row["partition_rows"][0]["local_start_offset"] > 0


def test_messages_in_the_store_are_browsed_by_offset_and_by_time(
    operator: Operator, segments: list[Any]
) -> None:
    for query in ("offset=3", f"time={FIRST_MS + 3000}"):
        found = operator.look(f"/api/topics/deep/messages?limit=2&{query}")
        assert [message["value"]["data"][:2] for message in found["messages"]] == ["3 ", "4 "]


def test_the_pages_tell_it_too(operator: Operator, segments: list[Any]) -> None:
    page = operator.get("/tier")
    assert page.status == 200
    assert "deep" in page.text
    assert 'href="/tier"' in operator.get("/").text
    assert ">store</span>" in operator.get("/topics/deep").text
