"""What operators see of the tier, and may ask of it: /api/tier, its flush, and the metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.support import document, run
from tests.gateway.admin.http import Operator, poll
from tests.support.gateway import running_gateway
from tests.tier.clients.tiered_gateway import Bucket, TieredGateway, tiered_gateway, values

SENT = values(400)
# Only what is asked for happens; nothing is read from memory.
SETTINGS = {"tier_flush_interval_ms": "3600000", "tail_bytes": "0", "tail_partition_bytes": "0"}


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredGateway]:
    path = tmp_path_factory.mktemp("tier")
    with tiered_gateway(path, Bucket("embedded", {}, {}), **SETTINGS) as gateway:
        gateway.create("orders", partitions=2)
        gateway.produce("orders", SENT)
        yield gateway


@pytest.fixture(scope="module")
def tier_operator(tiered: TieredGateway) -> Operator:
    return Operator(tiered)


def metric(operator: Operator, name: str, **labels: str) -> float:
    """The one sample of the name that has these labels. The parser lets each counter end in _total."""
    (value,) = [
        sample.value
        for family in text_string_to_metric_families(operator.get("/metrics").text)
        for sample in family.samples
        if sample.name in (name, f"{name}_total") and labels.items() <= sample.labels.items()
    ]
    return float(value)


def test_a_flush_needs_the_token(tier_operator: Operator) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        assert tier_operator.ask("POST", "/api/tier/flush", headers=headers).status == 401
    assert tier_operator.get("/api/tier/flush").status == 405


def test_what_is_flushed_is_told(tiered: TieredGateway, tier_operator: Operator) -> None:
    assert tier_operator.post("/api/tier/flush").json() == {"partitions": 2, "problems": []}
    tiered.wait_until_tiered("orders", len(SENT))
    told = tier_operator.look("/api/tier")
    assert (told["is_ready"], told["refusal"]) == (True, None)
    assert told["store"] == f"file://{tiered.data}/object-store"
    first, second = sorted(told["partitions"], key=lambda row: int(row["partition"]))
    assert (first["topic"], first["start_offset"], first["tiered_end_offset"]) == ("orders", 0, len(SENT))
    assert (first["waiting_segments"], first["needing_repair"]) == (0, 0)
    assert (second["tiered_segments"], second["end_offset"]) == (0, 0)


def test_the_command_asks_the_running_server(tiered: TieredGateway, tier_operator: Operator) -> None:
    tiered.produce("orders", SENT[:10], partition=1)
    url = f"http://{tiered.host}:{tiered.admin_port}"
    done = run("tier", "flush", "--data", tiered.data, "--admin", url, "--json")
    assert (done.exit_code, document(done)) == (0, {"partitions": 2, "problems": []})
    rows = document(run("tier", "status", "--data", tiered.data, "--json"))["partitions"]
    assert [row["tiered_end_offset"] for row in rows] == [len(SENT), 10]


@pytest.mark.parametrize(
    "name",
    [
        "manifest_chunks_active",
        "manifest_replay_seconds",
        "manifest_crc_error_count",
        "manifest_upload_retry_count",
        "barbicel_tier_segments",
        "barbicel_tier_lag_bytes",
        "barbicel_tier_uploaded_bytes_total",
        "barbicel_tier_upload_failures_total",
        "barbicel_tier_foreign_manifest",
        "barbicel_tier_hydrations_total",
        "barbicel_tier_hydration_failures_total",
    ],
)
def test_each_partition_has_its_metrics(tier_operator: Operator, name: str) -> None:
    assert f'\n{name}{{topic="orders",partition="0"}} ' in tier_operator.get("/metrics").text
    for partition in ("0", "1"):
        assert metric(tier_operator, name, topic="orders", partition=partition) >= 0


def test_metrics_tell_what_was_uploaded_and_read_back(tiered: TieredGateway, tier_operator: Operator) -> None:
    tier_operator.post("/api/tier/flush")
    tiered.wait_until_tiered("orders", len(SENT))
    place = {"topic": "orders", "partition": "0"}
    segments = metric(tier_operator, "barbicel_tier_segments", **place)
    assert segments >= 2
    assert metric(tier_operator, "barbicel_tier_uploaded_bytes_total", **place) > len(SENT) * 300
    assert metric(tier_operator, "barbicel_tier_lag_bytes", **place) == 0
    assert metric(tier_operator, "barbicel_tier_ready") == 1
    for _ in range(2):
        assert tiered.consume("orders", len(SENT)) == SENT
    # Each was loaded once, whoever read it.
    assert metric(tier_operator, "barbicel_tier_cache_misses_total", cache="indexes") == segments
    assert metric(tier_operator, "barbicel_tier_cache_hits_total", cache="segments") > 0
    assert metric(tier_operator, "barbicel_tier_cache_bytes", cache="segments") > len(SENT) * 100
    assert 1 <= metric(tier_operator, "barbicel_tier_hydrations_total", **place) <= segments
    assert metric(tier_operator, "barbicel_tier_hydration_failures_total", **place) == 0


def test_a_topic_that_is_deleted_is_not_told_any_more(tiered: TieredGateway, tier_operator: Operator) -> None:
    tiered.create("passing")
    tiered.produce("passing", SENT[:10])
    assert "passing" in {row["topic"] for row in tier_operator.look("/api/tier")["partitions"]}
    tiered.delete("passing")
    poll(lambda: 'topic="passing"' not in tier_operator.get("/metrics").text)
    assert "passing" not in {row["topic"] for row in tier_operator.look("/api/tier")["partitions"]}


def test_without_tiering_there_is_nothing_of_it(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        operator = Operator(gateway)
        assert operator.get("/api/tier").status == 404
        assert operator.post("/api/tier/flush").status == 404
        assert "barbicel_tier" not in operator.get("/metrics").text
        url = f"http://{gateway.host}:{gateway.admin_port}"
        done = run("tier", "flush", "--data", gateway.data, "--admin", url)
        assert (done.exit_code, "is tiering switched on there?" in done.stderr) == (2, True)
