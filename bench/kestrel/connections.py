"""Many connections: three hundred that work, and fifty that work among thousands that do not."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.kestrel.client import Client
from bench.kestrel.drive import run_driver
from bench.kestrel.job import Job
from bench.kestrel.rates import compare_rates
from bench.kestrel.scale import ONE_KB, Scale, chosen_scale
from bench.kestrel.servers import (
    AGAINST,
    BARE,
    WRITE,
    Server,
    resident_bytes,
    running_gateway,
    running_servers,
)
from bench.report import Measurement, compare
from bench.rounds import interleave

__all__ = ["measure_idle_connections", "measure_many_connections"]

MANY = 300
WORKING = 50
OPERATIONS = 20_000
# Files that a process has open beside its connections.
OTHER_FILES = 200


def measure_many_connections(directory: str) -> list[Measurement]:
    scale = chosen_scale()
    with running_servers(Path(directory, "many-connections"), ONE_KB.item_bytes) as servers:
        raced = {name: servers[name] for name in (WRITE, BARE)}
        for server in list(raced.values()) * scale.uncounted_rounds:
            _work(server, MANY, scale)
        rates = interleave(
            {name: partial(_work, server, MANY, scale) for name, server in raced.items()}, scale.rounds
        )
    return [
        compare_rates(
            f"set and get 1 KB, {MANY} connections, write",
            rates[WRITE],
            rates[BARE],
            against=AGAINST,
            reading="each connection sets an item, gets one, and so on, and waits for every answer. Others"
            " measured 62,000/s of Kestrel 2.4.8 on a desktop i7 with all its cores.",
        )
    ]


def measure_idle_connections(directory: str) -> list[Measurement]:
    scale = chosen_scale()
    idle = _allowed_connections(scale.idle_connections)
    with running_gateway(Path(directory, "idle-connections"), WRITE) as server:
        _work(server, WORKING, scale)  # so that memory which any work takes is not counted
        alone = [_work(server, WORKING, scale) for _ in range(scale.rounds)]
        before_bytes = resident_bytes(server.pid)
        with _idle_connections(server, idle) as connections:
            taken_bytes = resident_bytes(server.pid) - before_bytes
            among = [_work(server, WORKING, scale) for _ in range(scale.rounds)]
            for connection in connections:
                connection.version()  # raises if the server has let go of it
    return [
        compare(
            f"set and get 1 KB, {WORKING} connections among {idle:,} idle ones, write",
            "ops/s",
            among,
            alone,
            against="no others",
            reading="the idle ones have asked once before; afterwards each of them still answers.",
        ),
        Measurement(
            f"memory of a connection, {idle:,} idle ones",
            max(0, taken_bytes) / idle / 1024,
            "KiB",
            "what the server's resident memory grew by while they connected, divided by their number.",
        ),
    ]


def _work(server: Server, connections: int, scale: Scale) -> float:
    job = Job(server.port, "set+get", ONE_KB.item_bytes, scale.items(OPERATIONS) * 2, connections=connections)
    return run_driver(job).rate


def _allowed_connections(wanted: int) -> int:
    """Both this process and the server, which inherits its limit, need a file for each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))
    allowed = min(wanted, max(soft, min(needed, hard)) - OTHER_FILES)
    if allowed < wanted:
        print(f"kestrel: {allowed} idle connections instead of {wanted}: RLIMIT_NOFILE is {hard}", flush=True)
    return allowed


@contextmanager
def _idle_connections(server: Server, count: int) -> Iterator[list[Client]]:
    with ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = Client("127.0.0.1", server.port)
            stack.callback(connection.close)
            connection.version()
            connections.append(connection)
        yield connections
