"""Tiering is switched off at a restart, and what left the disk is in the store alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.disk import RealDisk
from barbicel.gateway.broker.data_layout import DataLayout
from barbicel.gateway.broker.tiering.leftover import has_manifests
from tests.cli.support import snapshot
from tests.gateway.broker.tiering.gated_store import embedded_broker, values
from tests.gateway.kafka.admin_requests import (
    alter,
    create,
    increment,
    make_topic,
    new_topic,
    setting,
    topic_names,
)
from tests.gateway.kafka.in_memory import in_memory_gateway
from tests.gateway.kafka.raw_client import RawClient
from tests.support.gateway import running_gateway

SENT = values(100)
OFF = {"remote_log_storage_system_enable": False}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with embedded_broker(tmp_path) as broker:
        broker.create()
        broker.produce(SENT)
        assert broker.flush().problems == []
        broker.until(lambda: broker.local_start() == len(SENT))
    return tmp_path / "data"


def test_it_is_read_and_nothing_is_written_to_the_store(
    tmp_path: Path, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = snapshot(data / "object-store")
    with embedded_broker(tmp_path, **OFF) as broker:
        broker.produce(SENT)
        for _ in range(3):
            broker.gateway.reactor.advance(1)
        assert broker.read(200) == SENT + SENT
        assert broker.flush().problems == ["tiering is switched off: remote.log.storage.system.enable"]
    assert snapshot(data / "object-store") == before
    assert any("tiering is switched off" in record.message for record in caplog.records)
    with embedded_broker(tmp_path) as broker:
        assert broker.flush().problems == []
        broker.until(lambda: broker.local_start() == 200)
        assert broker.read(200) == SENT + SENT


def test_without_the_store_a_reader_is_told_to_wait_and_never_passes_over_anything(
    tmp_path: Path, data: Path
) -> None:
    shutil.move(data / "object-store", tmp_path / "away")
    with embedded_broker(tmp_path, **OFF) as broker:
        broker.produce(SENT)
        assert broker.fetched(0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.fetched(100).error_code == 0
    assert not (data / "object-store").exists()
    shutil.move(tmp_path / "away", data / "object-store")
    with embedded_broker(tmp_path, **OFF) as broker:
        assert broker.read(200) == SENT + SENT


def test_a_directory_without_tiered_data_needs_no_store(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data") as gateway:
        gateway.create()
        assert gateway.broker.tiering is None
    assert not has_manifests(RealDisk(), DataLayout(str(tmp_path / "data")))


# --- topics that want a tier ------------------------------------------------------------------------------

TIERED = "remote.storage.enable"


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_server_that_tiers_nothing_does_not_promise_it(tmp_path: Path, validate_only: bool) -> None:
    with running_gateway(tmp_path) as gateway, RawClient((gateway.host, gateway.port)) as client:
        make_topic(client, "plain", remote_storage_enable="false")
        wanted = new_topic("tiered", configs=[(TIERED, "true")])
        rows = [
            *create(client, wanted, validate_only=validate_only),
            *increment(client, (2, "plain", [(TIERED, 0, "true")]), validate_only=validate_only),
            *alter(client, (2, "plain", [(TIERED, "true")]), validate_only=validate_only),
        ]
        assert [row.error_code for row in rows] == [ErrorCode.INVALID_CONFIG] * 3
        assert all("remote.log.storage.system.enable is false" in row.error_message for row in rows)
        assert topic_names(client) == {"plain"}
        assert setting(client, "plain", TIERED) == "false"


def test_a_topic_that_was_tiered_before_can_be_changed(tmp_path: Path) -> None:
    with (
        running_gateway(tmp_path, remote_log_storage_system_enable="true") as gateway,
        RawClient((gateway.host, gateway.port)) as client,
    ):
        make_topic(client, "t", remote_storage_enable="true")
    with running_gateway(tmp_path) as gateway, RawClient((gateway.host, gateway.port)) as client:
        (row,) = increment(client, (2, "t", [("retention.ms", 0, "1000")]))
        assert (row.error_code, setting(client, "t", TIERED)) == (0, "true")
        (row,) = increment(client, (2, "t", [(TIERED, 0, "false")]))
        assert (row.error_code, setting(client, "t", TIERED)) == (0, "false")
