"""A real Apache Kafka for a test or a benchmark: one node, KRaft, its own directory and ports.

It is started by `running_kafka` and stopped by its own process id when the block ends, or killed when the
program itself is. Nothing outside the given directory is written.
"""

from __future__ import annotations

import base64
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.rig.jars import JAVA, jars
from tests.rig.jvm import bound_to_this_process, java_command, peak_rss_bytes
from tests.rig.readiness import is_ready

__all__ = ["KafkaServer", "free_ports", "running_kafka"]

HOST = "127.0.0.1"
START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 20.0
POLL_S = 0.02
# Between choosing a free port and listening on it, somebody else may take it.
ATTEMPTS = 3
PORT_TAKEN = "Address already in use"

# What a single node needs; all else is Kafka's default.
SINGLE_NODE: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A server that is alone has nobody to hand its partitions to.
    "controlled.shutdown.enable": "false",
}


@dataclass(frozen=True)
class KafkaServer:
    """A server that answers."""

    bootstrap: str
    pid: int
    log: Path
    format_seconds: float
    # From the start of the process to the first good answer.
    startup_seconds: float

    def peak_rss_bytes(self) -> int:
        return peak_rss_bytes(self.pid)


class _PortTaken(Exception):
    """One of the ports that looked free was not."""


@contextmanager
def running_kafka(
    directory: Path, properties: Mapping[str, str] | None = None, *, heap_mb: int = 512
) -> Iterator[KafkaServer]:
    """A server with these properties over `SINGLE_NODE`.

    Raises `RigUnavailable` where it cannot be run, and `RuntimeError` with its log if it does not start.
    """
    with ExitStack() as stack:
        yield _start(stack, directory, properties or {}, heap_mb)


def _start(stack: ExitStack, directory: Path, properties: Mapping[str, str], heap_mb: int) -> KafkaServer:
    for attempt in range(ATTEMPTS):
        try:
            place = directory / f"kafka-{attempt}"
            place.mkdir(parents=True)
            return stack.enter_context(_server(place, properties, heap_mb))
        except _PortTaken:
            continue
    raise RuntimeError(f"{ATTEMPTS} times a free port was taken before Kafka could listen on it")


@contextmanager
def _server(place: Path, properties: Mapping[str, str], heap_mb: int) -> Iterator[KafkaServer]:
    port, controller_port = free_ports(2)
    settings = place / "server.properties"
    ours = {**SINGLE_NODE, **_addresses(place, port, controller_port), **properties}
    settings.write_text("".join(f"{name}={value}\n" for name, value in ours.items()), encoding="utf-8")
    format_seconds = _format(settings, place)
    log = place / "server.log"
    command = java_command(jars("kafka-server"), "kafka.Kafka", str(settings), options=_options(heap_mb))
    with log.open("wb") as output:
        started = time.monotonic()
        process = subprocess.Popen(
            bound_to_this_process(command),
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _await_ready(process, port, log, started + START_DEADLINE_S)
        elapsed = time.monotonic() - started
        yield KafkaServer(f"{HOST}:{port}", process.pid, log, format_seconds, elapsed)
    finally:
        _stop(process)


def _options(heap_mb: int) -> list[str]:
    return [f"-Xmx{heap_mb}m", f"-Dlog4j2.configurationFile={JAVA / 'log4j2.properties'}"]


def _addresses(place: Path, port: int, controller_port: int) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.dirs": str(place / "data"),
    }


def free_ports(count: int) -> list[int]:
    """Ports that differ: each is held until all are chosen."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [int(listener.getsockname()[1]) for listener in listeners]


def _format(settings: Path, place: Path) -> float:
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # The tool takes an id that begins with a dash for an option.
    arguments = ("format", f"--cluster-id={cluster_id}", "--config", str(settings))
    started = time.monotonic()
    done = subprocess.run(
        java_command(jars("kafka-server"), "kafka.tools.StorageTool", *arguments),
        cwd=place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=START_DEADLINE_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"Kafka's storage cannot be formatted:\n{done.stdout}{done.stderr}")
    return time.monotonic() - started


def _await_ready(process: subprocess.Popen[bytes], port: int, log: Path, deadline: float) -> None:
    while not is_ready(HOST, port):
        try:
            process.wait(timeout=POLL_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() < deadline:
                continue
            raise RuntimeError(f"Kafka is not ready after {START_DEADLINE_S} s:\n{_tail(log)}") from None
        said = _tail(log)
        raise _PortTaken if PORT_TAKEN in said else RuntimeError(f"Kafka has ended:\n{said}")
    if process.poll() is not None:
        # Who answered was somebody else, on the port that was ours a moment ago.
        raise _PortTaken


def _tail(log: Path) -> str:
    return log.read_bytes()[-20_000:].decode("utf-8", "replace")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
