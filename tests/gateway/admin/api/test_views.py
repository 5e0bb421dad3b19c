"""The JSON API against a real server: it tells what real clients have done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymemcache
import pytest

from barbicel.config.settings import SETTINGS
from tests.gateway.admin.http import Operator, poll
from tests.gateway.admin.kafka_clients import commit, create_topic, produce
from tests.support.gateway import Gateway


@pytest.fixture(scope="module", autouse=True)
def traffic(gateway: Gateway) -> None:
    """A topic with two partitions, a group that is behind, and a queue with one item open."""
    create_topic(gateway, "orders", 2)
    produce(gateway, "orders", *(b"%d" % number for number in range(10)))
    commit(gateway, "workers", ("orders", 0, 7))


@pytest.fixture(scope="module")
def memcache(gateway: Gateway) -> Iterator[Any]:
    client = pymemcache.Client(("127.0.0.1", gateway.kestrel_port))
    for number in range(3):
        client.set("jobs", b"job %d" % number)
    client.set("jobs+audit", b"only for one")
    assert client.raw_command(b"get jobs/open", b"END\r\n").startswith(b"VALUE jobs")
    yield client
    client.close()


def test_the_overview_counts_what_there_is(operator: Operator) -> None:
    overview = operator.look("/api/overview")
    assert overview["is_ready"] is True
    assert overview["counts"]["topics"] >= 1
    assert overview["counts"]["partitions"] >= 2
    assert overview["durability"]["mode"] == "fsync"
    sampled = poll(lambda: (found := operator.look("/api/overview"))["counts"]["messages"] and found)
    assert sampled["storage"]["data_bytes"] > 0
    assert sampled["storage"]["disk_free_bytes"] > 0
    assert sampled["storage"]["memory_bytes"] > 1 << 20


def test_a_topic_is_told_with_its_partitions_segments_settings_and_groups(operator: Operator) -> None:
    (row,) = operator.look("/api/topics?search=orde")["topics"]
    assert (row["name"], row["partitions"], row["messages"]) == ("orders", 2, 10)
    topic = operator.look("/api/topics/orders")
    first, second = topic["partition_rows"]
    assert (first["start_offset"], first["end_offset"]) == (0, 10)
    assert second["end_offset"] == 0
    (segment,) = first["segments"]
    assert (segment["base_offset"], segment["end_offset"], segment["is_active"]) == (0, 10, True)
    assert segment["size_bytes"] == first["size_bytes"] > 0
    assert topic["groups"] == ["workers"]
    assert {"retention.ms", "segment.bytes"} <= {setting["name"] for setting in topic["settings"]}


def test_groups_and_lines_are_in_one_list(operator: Operator, memcache: Any) -> None:
    rows = {(row["name"], row["kind"]): row for row in operator.look("/api/groups")["groups"]}
    workers = rows["workers", "kafka"]
    assert (workers["lag"], workers["state"], workers["members"]) == (3, "Empty", 0)
    jobs = rows["jobs", "kestrel"]
    assert (jobs["lag"], jobs["inflight"]) == (2, 1)
    assert rows["jobs+audit", "kestrel"]["inflight"] == 0


def test_a_queue_is_told_with_its_statistics_and_settings(operator: Operator, memcache: Any) -> None:
    queues = {row["name"]: row for row in operator.look("/api/queues")["queues"]}
    assert queues["jobs"]["stats"]["items"] == 2
    assert queues["jobs"]["topic"] == "jobs"
    queue = operator.look("/api/queues/jobs")
    assert queue["stats"]["open_transactions"] == 1
    assert queue["settings"]["maxItems"] == "none"
    assert operator.get("/api/queues/nothing").status == 404


def test_every_setting_is_told_with_its_origin(operator: Operator, gateway: Gateway) -> None:
    rows = {row["name"]: row for row in operator.look("/api/settings")["settings"]}
    assert rows.keys() == SETTINGS.keys()
    data = rows["data.directory"]
    assert (data["value"], data["origin"]) == (str(gateway.data), "flag")
    assert data["where"] == "flag --data-directory"
    assert (rows["flush.ms"]["value"], rows["flush.ms"]["origin"]) == ("100", "default")


def test_no_answer_has_the_token(operator: Operator) -> None:
    paths = ("overview", "topics", "topics/orders", "groups", "groups/workers", "queues", "settings")
    for path in (*(f"/api/{path}" for path in paths), "/metrics", "/readyz"):
        assert operator.token not in operator.get(path).text


def test_lists_are_told_in_parts(operator: Operator, memcache: Any) -> None:
    whole = operator.look("/api/topics")
    parts: list[str] = []
    start: int | None = 0
    while start is not None:
        part = operator.look(f"/api/topics?start={start}&limit=1")
        parts += [row["name"] for row in part["topics"]]
        start = part["next"]
    assert parts == [row["name"] for row in whole["topics"]]
    assert whole["total"] == len(parts) >= 2


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "start=-1", f"start={'9' * 30}"])
def test_a_number_out_of_its_range_is_refused(operator: Operator, query: str) -> None:
    assert operator.get(f"/api/topics?{query}").status == 400


def test_names_that_are_none_are_not_found(operator: Operator) -> None:
    for path in ("topics/none", "topics/..%2F..%2Fetc", "groups/none", "queues/%00", "topics/%ff%fe"):
        assert operator.get(f"/api/{path}").status == 404
