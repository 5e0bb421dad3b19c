"""The servers that are compared: the gateway in both durabilities and the bare protocol, on the same core.

All of them run for as long as a measurement lasts; those whose turn it is not have nothing to do.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.kafka.servers import FSYNC, WRITE, processor_seconds
from bench.kestrel.cores import SERVER, pinned_to
from bench.rounds import ROOT
from tests.support.gateway import Gateway

__all__ = [
    "AGAINST",
    "BARE",
    "FSYNC",
    "WRITE",
    "Server",
    "processor_seconds",
    "resident_bytes",
    "running_bare",
    "running_gateway",
    "running_servers",
]

BARE = "bare"
AGAINST = "bare Twisted protocol"


class Server:
    """A process, and the port that it serves memcache clients on. The bare one has no data."""

    def __init__(self, pid: int, port: int, data: Path | None = None) -> None:
        self.pid = pid
        self.port = port
        self.data = data


@contextmanager
def running_gateway(directory: Path, durability: str) -> Iterator[Server]:
    directory.mkdir(parents=True)
    gateway = Gateway(directory, {"durability": durability})
    with pinned_to(SERVER):
        gateway.start()
    try:
        yield Server(gateway.pid, gateway.kestrel_port, gateway.data)
    finally:
        gateway.stop()


@contextmanager
def running_bare(item_bytes: int) -> Iterator[Server]:
    command = [sys.executable, "-m", "bench.kestrel.bare_server", str(item_bytes)]
    with pinned_to(SERVER):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield Server(process.pid, int(process.stdout.readline()))
    finally:
        process.kill()
        process.communicate()


@contextmanager
def running_servers(directory: Path, item_bytes: int) -> Iterator[Mapping[str, Server]]:
    """The gateways on new directories; the bare one's items have this size."""
    with ExitStack() as stack:
        yield {
            **{name: stack.enter_context(running_gateway(directory / name, name)) for name in (WRITE, FSYNC)},
            BARE: stack.enter_context(running_bare(item_bytes)),
        }


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"process {pid} has ended")
