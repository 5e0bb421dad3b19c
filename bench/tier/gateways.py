"""Gateways that upload their topics when they are told to, each on a copy of what was filled."""

from __future__ import annotations

import http.client
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from bench.tier.filling import PARTITIONS, QUIET, Topic, copy_filled
from bench.tier.stores import Place
from tests.support.gateway import Gateway

__all__ = ["TieringGateway", "copied_gateway"]

DEADLINE_S = 120.0
# What is uploaded leaves the disk.
TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "0"}


class TieringGateway(Gateway):
    def __init__(self, directory: Path, place: Place, **more: str) -> None:
        settings = {
            "remote_log_storage_system_enable": "true",
            "remote_log_manager_copier_thread_pool_size": str(PARTITIONS),
            "tier_flush_on_shutdown": "false",
            **place.settings,
            **more,
        }
        super().__init__(directory, settings)

    def switch_on(self, topic: Topic) -> None:
        """From here on its segments may go to the store: by and by, or when they are flushed."""
        changes = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in TIERED.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic.name, incremental_configs=changes)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        for changed in admin.incremental_alter_configs([resource]).values():
            changed.result()

    def flush(self) -> float:
        """Seconds until the store has everything, verified, and the manifest says so."""
        started = time.perf_counter()
        answer = self._ask("POST", "/api/tier/flush")
        took = time.perf_counter() - started
        if self.has_waiting:
            raise RuntimeError(f"not all was uploaded: {answer}")
        return took

    @property
    def has_waiting(self) -> bool:
        return any(one["waiting_segments"] for one in self._partitions())

    def tiered_bytes(self, topic: Topic) -> int:
        return sum(one["tiered_bytes"] for one in self._partitions() if one["topic"] == topic.name)

    def _partitions(self) -> list[dict[str, Any]]:
        partitions: list[dict[str, Any]] = self._ask("GET", "/api/tier")["partitions"]
        return partitions

    def _ask(self, method: str, path: str) -> Any:
        token = (self.data / "admin.token").read_text().strip()
        connection = http.client.HTTPConnection(self.host, self.admin_port, timeout=DEADLINE_S)
        try:
            connection.request(method, path, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise RuntimeError(f"{method} {path}: {answer.status} {content!r}")
        return json.loads(content)


@contextmanager
def copied_gateway(filled: Path, directory: Path, place: Place, **settings: str) -> Iterator[TieringGateway]:
    """It, and its directory, are gone afterwards; what it has uploaded is not."""
    copy_filled(filled, directory / "data")
    gateway = TieringGateway(directory, place, **settings)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.kill()
        shutil.rmtree(directory)
