"""One real Kafka and one gateway, set up alike, for all conversations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import FindCoordinatorRequest, InitProducerIdRequest, OffsetFetchRequest
from tests.differential.asking import NO_LABEL
from tests.differential.comparison import Difference, compare
from tests.differential.conversations import CONVERSATIONS
from tests.differential.script import Ask, Await, Steps
from tests.differential.talk import converse
from tests.rig.real_kafka import running_real_kafka
from tests.rig.skipping import skip_without_rig
from tests.support.gateway import running_gateway

__all__ = ["SETTINGS", "Comparisons", "Servers", "running_servers"]

# Of both, under Kafka's names.
SETTINGS: Mapping[str, str] = {
    "node.id": "1",
    # The records have times of long ago.
    "log.retention.ms": "-1",
    "group.initial.rebalance.delay.ms": "0",
}
# FindCoordinator's key types.
GROUP, TRANSACTION = 0, 1


class Servers(NamedTuple):
    kafka: tuple[str, int]
    ours: tuple[str, int]
    # What the real one runs in, and why.
    chosen: str


@contextmanager
def running_servers(directory: Path) -> Iterator[Servers]:
    flags = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    (directory / "gateway").mkdir()
    with (
        skip_without_rig(),
        running_real_kafka(directory / "kafka", SETTINGS) as kafka,
        running_gateway(directory / "gateway", **flags) as gateway,
    ):
        host, port = kafka.bootstrap.rsplit(":", 1)
        servers = Servers((host, int(port)), (gateway.host, gateway.port), kafka.chosen)
        for server in (servers.kafka, servers.ours):
            converse(server, warm_up)
        yield servers


def warm_up() -> Steps:
    """A server that has just started puts off who asks for these. That is not compared."""
    for key_type in (GROUP, TRANSACTION):
        coordinator = FindCoordinatorRequest(key="warm-up", key_type=key_type, coordinator_keys=["warm-up"])
        yield Await(Ask(NO_LABEL, coordinator, 3), _is_up)
    producer = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    yield Await(Ask(NO_LABEL, producer, 1), _is_up)
    offsets = OffsetFetchRequest(group_id="warm-up", topics=[])
    yield Await(Ask(NO_LABEL, offsets, 5), _is_up)


def _is_up(answer: Any) -> bool:
    return answer.error_code not in (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )


class Comparisons:
    """Each conversation is held once, with both servers at the same time."""

    def __init__(self, servers: Servers, pool: ThreadPoolExecutor) -> None:
        self._servers = servers
        self._pool = pool
        self._found: dict[str, list[Difference]] = {}

    @property
    def chosen(self) -> str:
        return self._servers.chosen

    def of(self, name: str) -> list[Difference]:
        """What differs in a conversation."""
        if name not in self._found:
            both = (self._servers.kafka, self._servers.ours)
            held = [self._pool.submit(converse, server, CONVERSATIONS[name]) for server in both]
            kafka, ours = (conversation.result() for conversation in held)
            self._found[name] = compare(name, kafka, ours)
        return self._found[name]


@pytest.fixture(scope="session")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparisons]:
    directory = tmp_path_factory.mktemp("differential")
    with running_servers(directory) as servers, ThreadPoolExecutor(2) as pool:
        yield Comparisons(servers, pool)
