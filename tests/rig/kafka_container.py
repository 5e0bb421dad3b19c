"""A real Apache Kafka in a container, for tests that ask it and look at nothing else of it.

Where no engine answers, or its image cannot be had, `container_problem` says why. What measures a server
needs a process of this machine: `kafka_server` has that one.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from docker.errors import (
    DockerException,
    ImageNotFound,
)
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient

from tests.rig.kafka_server import POLL_S, SINGLE_NODE, START_DEADLINE_S
from tests.rig.readiness import is_ready

__all__ = ["IMAGE", "container_problem", "environment", "running_container"]

# The version of java/pom-kafka-server.xml.
IMAGE = "apache/kafka:4.3.1"
PORT, CONTROLLER_PORT = 9092, 9093

# Within the container. Nobody follows what it advertises: the tests know where they reach it.
ADDRESSES: Mapping[str, str] = {
    "listeners": f"PLAINTEXT://0.0.0.0:{PORT},CONTROLLER://127.0.0.1:{CONTROLLER_PORT}",
    "advertised.listeners": f"PLAINTEXT://127.0.0.1:{PORT}",
    "controller.quorum.voters": f"1@127.0.0.1:{CONTROLLER_PORT}",
    "log.dirs": "/tmp/kafka",
}


def container_problem() -> str | None:
    """Why there can be no container here; None if there can."""
    with warnings.catch_warnings():
        # A client that no engine answers leaves its socket open.
        warnings.simplefilter("ignore", ResourceWarning)
        problem = _problem()
        gc.collect()
    return problem


def _problem() -> str | None:
    try:
        # It asks the engine for its version.
        with closing(DockerClient().client) as engine:
            try:
                engine.images.get(IMAGE)
            except ImageNotFound:
                engine.images.pull(IMAGE)
    except (DockerException, OSError) as error:
        return f"no container of {IMAGE}: {error}"
    return None


def environment(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties as the image takes them."""
    return {f"KAFKA_{_escaped(name).upper()}": value for name, value in properties.items()}


def _escaped(name: str) -> str:
    return name.replace("_", "__").replace("-", "___").replace(".", "_")


@contextmanager
def running_container(properties: Mapping[str, str]) -> Iterator[str]:
    """The address of a server that answers. Raises RuntimeError with its log if it does not."""
    settings = {**SINGLE_NODE, **ADDRESSES, **properties}
    with DockerContainer(IMAGE, env=environment(settings), ports=[PORT]) as container:
        host, port = container.get_container_host_ip(), container.get_exposed_port(PORT)
        _await_ready(container, host, port)
        yield f"{host}:{port}"


def _await_ready(container: DockerContainer, host: str, port: int) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while not is_ready(host, port):
        if time.monotonic() > deadline:
            said = b"".join(container.get_logs())[-20_000:].decode("utf-8", "replace")
            raise RuntimeError(f"Kafka is not ready after {START_DEADLINE_S} s:\n{said}")
        time.sleep(POLL_S)
