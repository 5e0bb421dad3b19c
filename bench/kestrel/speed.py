"""Sets and gets a second, on one connection that never waits and on fifty that always do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from bench.kestrel.drive import run_driver
from bench.kestrel.job import Job, Result
from bench.kestrel.rates import compare_rates
from bench.kestrel.scale import ItemSize, Scale, chosen_scale
from bench.kestrel.servers import AGAINST, BARE, FSYNC, WRITE, Server, processor_seconds, running_servers
from bench.report import Measurement, Target, compare
from bench.rounds import interleave

__all__ = ["PIPELINED", "UNPIPELINED", "Shape", "measure_speed", "race"]


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    connections: int
    depth: int
    # Of a round at full scale: about a second at the target.
    items: int
    # By operation and durability.
    targets: Mapping[tuple[str, str], Target]


PIPELINED = Shape(
    "pipelined",
    connections=1,
    depth=100,
    items=50_000,
    targets={("set", WRITE): Target(">=", 50_000), ("get", WRITE): Target(">=", 50_000)},
)
UNPIPELINED = Shape(
    "50 connections",
    connections=50,
    depth=1,
    items=20_000,
    targets={
        ("set", WRITE): Target(">=", 20_000),
        ("get", WRITE): Target(">=", 20_000),
        ("set", FSYNC): Target(">=", 15_000),
    },
)
OPERATIONS = ("set", "get")
PROMISES: Mapping[str, str] = {
    WRITE: "A set is answered when it survives the end of the server; it is synced within 100 ms.",
    FSYNC: "A set is answered when it is on the disk.",
}


@dataclass(slots=True)
class Race:
    """What a server did in each counted round, by operation."""

    rates: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in OPERATIONS})
    processor_us: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in OPERATIONS})

    def note(self, operation: str, result: Result, processor_s: float) -> None:
        self.rates[operation].append(result.rate)
        self.processor_us[operation].append(processor_s * 1e6 / result.ops)


def measure_speed(directory: str) -> list[Measurement]:
    scale = chosen_scale()
    rows: list[Measurement] = []
    for size in scale.sizes:
        with running_servers(Path(directory, f"speed-{size.item_bytes}"), size.item_bytes) as servers:
            for shape in (PIPELINED, UNPIPELINED):
                rows += _rows(shape, size, race(shape, size, scale, servers))
    return rows


def race(shape: Shape, size: ItemSize, scale: Scale, servers: Mapping[str, Server]) -> dict[str, Race]:
    """Each round sets items and gets all of them again, on every server that the shape has a target for."""
    job = Job(
        port=0,
        operation="",
        item_bytes=size.item_bytes,
        count=scale.items(shape.items),
        connections=shape.connections,
        depth=shape.depth,
        queue=f"{shape.connections}-{size.item_bytes}",
    )
    raced = {name: servers[name] for name in (*dict.fromkeys(name for _, name in shape.targets), BARE)}
    for server in list(raced.values()) * scale.uncounted_rounds:
        _run(job, server, Race())
    races = {name: Race() for name in raced}
    interleave(
        {name: partial(_run, job, server, races[name]) for name, server in raced.items()}, scale.rounds
    )
    return races


def _run(job: Job, server: Server, noted: Race) -> float:
    for operation in OPERATIONS:
        before_s = processor_seconds(server.pid)
        result = run_driver(replace(job, port=server.port, operation=operation))
        noted.note(operation, result, processor_seconds(server.pid) - before_s)
    return noted.rates[OPERATIONS[0]][-1]


def _rows(shape: Shape, size: ItemSize, races: Mapping[str, Race]) -> list[Measurement]:
    rows: list[Measurement] = []
    for (operation, name), target in shape.targets.items():
        ours, bare = races[name], races[BARE]
        rows += [
            compare_rates(
                f"{operation} {size.name}, {shape.name}, {name}",
                ours.rates[operation],
                bare.rates[operation],
                against=AGAINST,
                target=target,
                reading=_reading(shape, operation, name),
            ),
            compare(
                f"{operation} {size.name}, {shape.name}, {name}: server's processor",
                "µs",
                ours.processor_us[operation],
                bare.processor_us[operation],
                against=AGAINST,
                reading="of an operation, with every thread, in the server's code and in the kernel's.",
            ),
        ]
    return rows


def _reading(shape: Shape, operation: str, durability: str) -> str:
    waits = (
        f"{shape.connections} connections, each of which waits for an answer before it asks again"
        if shape.depth == 1
        else f"one connection with {shape.depth} requests under way"
    )
    told = PROMISES[durability] if operation == "set" else "The items that were just set, each get takes one."
    return f"{waits}, driven from another core. {told}"
