"""A store whose calls wait when a test wants them to, and a gateway of this process that is tiered to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest

from barbicel.gateway.broker.tiering import tiering as tiering_module
from barbicel.gateway.broker.tiering.tiering import Flushed, Tiering
from tests.gateway.kafka.in_memory import Client, Gateway, batch, in_memory_gateway
from tests.gateway.kafka.requests import fetch, only, produce, values_of
from tests.tier.partitions import ScriptedStore

__all__ = ["GatedStore", "TieredBroker", "embedded_broker", "tiered_broker", "values"]

T = TypeVar("T")

PASS_MS = 1000
DEADLINE_S = 30.0
VALUE_BYTES = 1000
SETTINGS: dict[str, Any] = {
    "remote_log_storage_system_enable": True,
    "remote_log_manager_task_interval_ms": PASS_MS,
    "tier_segment_bytes": 64 << 10,
    "tier_flush_on_shutdown": False,
    "tail_bytes": 0,
    "tail_partition_bytes": 0,
}


class GatedStore(ScriptedStore):
    """Calls that `holds` says yes to wait until the gate is opened. `held` are those that came to wait."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.holds: Callable[[str, str], bool] = lambda operation, key: False
        self.held: list[str] = []
        self.on_held: Callable[[], None] = lambda: None
        self._gate = threading.Event()

    def _do(self, operation: str, key: str, function: Callable[[], T]) -> T:
        if self.holds(operation, key):
            self.held.append(f"{operation} {key}")
            self.on_held()
            assert self._gate.wait(DEADLINE_S)
        return super()._do(operation, key, function)

    def open_gate(self) -> None:
        self.holds = lambda operation, key: False
        self.held.clear()
        self._gate.set()


class TieredBroker:
    """What tests ask of it. Nothing happens by itself but in `passes` and `until`."""

    def __init__(self, gateway: Gateway, store: GatedStore) -> None:
        self.gateway = gateway
        self.store = store
        self.client: Client = gateway.connect()

    @property
    def tiering(self) -> Tiering:
        found = self.gateway.broker.tiering
        assert found is not None
        return found

    def create(self, name: str = "t", partitions: int = 1, **settings: str) -> None:
        wanted = {"remote_storage_enable": "true", "local_retention_bytes": "0", **settings}
        self.gateway.create(name, partitions, **wanted)

    def produce(self, sent: list[bytes], topic: str = "t", partition: int = 0) -> None:
        for value in sent:
            answer = self.client.ask(produce(batch(value), topic=topic, partitions=[partition]), 9)
            assert only(only(answer.responses).partition_responses).error_code == 0

    def fetched(self, offset: int, topic: str = "t", client: Client | None = None, **options: Any) -> Any:
        """The row of the one partition."""
        answer = (client or self.client).ask(fetch(offset, topic=topic, **options), 11)
        return only(only(answer.responses).partitions)

    def read(self, count: int, topic: str = "t") -> list[bytes | None]:
        found: list[bytes | None] = []
        while len(found) < count:
            row = self.fetched(len(found), topic)
            assert row.error_code == 0, row
            found += values_of(row)
        return found

    def flush(self) -> Flushed:
        flushed = self.gateway.reactor.result(self.tiering.flush())
        assert isinstance(flushed, Flushed)
        return flushed

    def until(self, condition: Callable[[], object]) -> None:
        """Passes begin, one a second, until it is so."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, "it has not come to that"
            self.gateway.now_ms += PASS_MS
            self.gateway.reactor.advance(PASS_MS / 1000)
            self.gateway.reactor.until(lambda: not self.tiering._busy or self.store.held or condition())

    def local_start(self, topic: str = "t", partition: int = 0) -> int:
        found = self.gateway.broker.topics.partition(topic, partition)
        assert found is not None
        return found.log.start_offset


def values(count: int, seed: int = 0) -> list[bytes]:
    return [(b"%d %06d " % (seed, number)).ljust(VALUE_BYTES, b"x") for number in range(count)]


@contextmanager
def tiered_broker(
    path: Path, monkeypatch: pytest.MonkeyPatch, store: GatedStore | None = None, **settings: Any
) -> Iterator[TieredBroker]:
    used = store or GatedStore(path / "objects")
    monkeypatch.setattr(tiering_module, "open_configured_store", lambda config, disk, layout: used)
    with in_memory_gateway(path / "data", **{**SETTINGS, **settings}) as gateway:
        # Whoever waits for it looks again.
        used.on_held = lambda: gateway.reactor.callFromThread(lambda: None)
        try:
            yield TieredBroker(gateway, used)
        finally:
            used.open_gate()


@contextmanager
def embedded_broker(path: Path, **settings: Any) -> Iterator[TieredBroker]:
    """On the directory `data`, with its objects in there."""
    with in_memory_gateway(path / "data", **{**SETTINGS, **settings}) as gateway:
        yield TieredBroker(gateway, GatedStore(path / f"unused-{uuid4().hex}"))
