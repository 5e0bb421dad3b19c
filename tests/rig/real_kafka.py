"""A real Apache Kafka to compare answers with: in a container where that can be, from its jars elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.rig.kafka_container import IMAGE, container_problem, running_container
from tests.rig.kafka_server import running_kafka

__all__ = ["RealKafka", "running_real_kafka"]


class RealKafka(NamedTuple):
    """A server that answers. `chosen` says what it runs in, and why."""

    bootstrap: str
    chosen: str


@contextmanager
def running_real_kafka(
    directory: Path, properties: Mapping[str, str], problem: Callable[[], str | None] = container_problem
) -> Iterator[RealKafka]:
    """Raises RigUnavailable if there is neither a container nor Java."""
    reason = problem()
    if reason is None:
        with running_container(properties) as bootstrap:
            yield RealKafka(bootstrap, f"a container of {IMAGE}")
    else:
        with running_kafka(directory, properties) as server:
            yield RealKafka(server.bootstrap, f"its jars ({reason})")
