"""The servers that are compared: the gateway in both durabilities, and Apache Kafka, with their defaults.

All of them run for as long as a measurement lasts; those whose turn it is not have nothing to do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.rig.jvm import peak_rss_bytes
from tests.rig.kafka_server import HOST, KafkaServer, running_kafka
from tests.rig.readiness import is_ready
from tests.support.gateway import Gateway

__all__ = [
    "AGAINST",
    "FSYNC",
    "KAFKA",
    "KAFKA_HEAP_MB",
    "PROMISES",
    "WRITE",
    "GatewayUnderTest",
    "KafkaUnderTest",
    "Server",
    "processor_seconds",
    "running_servers",
]

WRITE, FSYNC, KAFKA = "write", "fsync", "kafka"
# What Kafka's answer promises belongs to every figure of it.
AGAINST = "Kafka, no fsync"
PROMISES: Mapping[str, str] = {
    WRITE: "An answer of ours survives the end of the server, as Kafka's does; it is synced within 100 ms.",
    FSYNC: "An answer of ours is on the disk; Kafka's is in the kernel's memory.",
}
# What Kafka's own start script gives it.
KAFKA_HEAP_MB = 1024

# The kernel's CPUCLOCK_SCHED.
SCHEDULER_CLOCK = 2


class GatewayUnderTest:
    """`barbicel serve` with one durability."""

    def __init__(self, directory: Path, durability: str, partitions: int) -> None:
        directory.mkdir(parents=True)
        self._gateway = Gateway(directory, {"durability": durability, "num_partitions": str(partitions)})
        self._peak_bytes = 0
        self.startup_seconds = 0.0

    @property
    def bootstrap(self) -> str:
        return self._gateway.bootstrap

    @property
    def pid(self) -> int:
        return self._gateway.pid

    def start(self) -> None:
        started = time.monotonic()
        self._gateway.start()
        if not is_ready(HOST, self._gateway.port):
            raise RuntimeError(f"the gateway does not answer, see {self._gateway.log}")
        self.startup_seconds = time.monotonic() - started

    def stop(self) -> None:
        self._peak_bytes = self.peak_bytes()
        self._gateway.stop()

    def restart(self) -> None:
        """After this nothing of the log is in the gateway's memory."""
        self.stop()
        self.start()

    def peak_bytes(self) -> int:
        """The largest of its processes."""
        return max(self._peak_bytes, peak_rss_bytes(self.pid))


class KafkaUnderTest:
    def __init__(self, server: KafkaServer) -> None:
        self.bootstrap = server.bootstrap
        self.pid = server.pid
        self.startup_seconds = server.startup_seconds

    def restart(self) -> None:
        """Nothing to do: it always reads from its files, that is from the kernel's memory."""

    def peak_bytes(self) -> int:
        return peak_rss_bytes(self.pid)


Server = GatewayUnderTest | KafkaUnderTest


@contextmanager
def running_servers(
    directory: Path, names: tuple[str, ...] = (WRITE, FSYNC, KAFKA), *, partitions: int = 1
) -> Iterator[Mapping[str, Server]]:
    """Each on a new directory. Raises RigUnavailable where Kafka cannot be run."""
    with ExitStack() as stack:
        yield {name: _start(stack, directory / name, name, partitions) for name in names}


def _start(stack: ExitStack, directory: Path, name: str, partitions: int) -> Server:
    if name == KAFKA:
        properties = {"num.partitions": str(partitions)}
        return KafkaUnderTest(
            stack.enter_context(running_kafka(directory, properties, heap_mb=KAFKA_HEAP_MB))
        )
    gateway = GatewayUnderTest(directory, name, partitions)
    gateway.start()
    stack.callback(gateway.stop)
    return gateway


def processor_seconds(pid: int) -> float:
    """What a process has used of all cores so far, in its own code and in the kernel's."""
    # As clock_getcpuclockid(3) makes it, which Python does not have; /proc only counts hundredths.
    return time.clock_gettime((~pid << 3) | SCHEDULER_CLOCK)
