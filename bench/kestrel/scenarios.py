"""Kestrel's five load scenarios on the gateway, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.kestrel.cores import DRIVER, pinned_to
from bench.kestrel.flood import Flood, run_flood
from bench.kestrel.leaky_reader import LeakyReader, run_leaky_reader
from bench.kestrel.many_clients import ManyClients, run_many_clients
from bench.kestrel.packing import Packing, run_packing
from bench.kestrel.put_many import PutMany, run_put_many
from bench.kestrel.scale import Scale, chosen_scale
from bench.kestrel.scenario import Phase
from bench.kestrel.servers import FSYNC, WRITE, Server, running_gateway
from bench.report import Measurement

__all__ = ["SCENARIOS", "measure_scenarios"]

Scenario = Callable[[str, int, Scale], list[Phase]]


def _put_many(host: str, port: int, scale: Scale) -> list[Phase]:
    return run_put_many(PutMany(host, port, items=max(100, scale.items(20_000)), get_also=True))


def _flood(host: str, port: int, scale: Scale) -> list[Phase]:
    return run_flood(Flood(host, port, items=scale.items(10_000)))


def _blocking_flood(host: str, port: int, scale: Scale) -> list[Phase]:
    return run_flood(Flood(host, port, items=scale.items(10_000), blocking=True))


def _rolled_up_flood(host: str, port: int, scale: Scale) -> list[Phase]:
    return run_flood(Flood(host, port, items=scale.items(20_000), roll_up=20))


def _many_clients(host: str, port: int, scale: Scale) -> list[Phase]:
    return run_many_clients(ManyClients(host, port, sleep_ms=20, items=max(5, scale.items(200))))


def _killed_clients(host: str, port: int, scale: Scale) -> list[Phase]:
    return run_many_clients(
        ManyClients(host, port, sleep_ms=20, items=max(5, scale.items(200)), kill_percent=10)
    )


def _packing(host: str, port: int, scale: Scale) -> list[Phase]:
    return run_packing(Packing(host, port, items=scale.items(5_000), cycles=4, pause_s=0))


def _leaky_reader(host: str, port: int, scale: Scale) -> list[Phase]:
    return run_leaky_reader(LeakyReader(host, port, items=max(50, scale.items(2_000)), readers=4))


ONE_AND_ONE = "One producer and one consumer of 1 KB items at the same time, each waiting for every answer"
# By name: what runs, in which durabilities, and what it is.
SCENARIOS: Sequence[tuple[str, Scenario, tuple[str, ...], str]] = (
    (
        "put-many",
        _put_many,
        (WRITE, FSYNC),
        "100 clients put 1 KB items, each waiting for every answer, and then get them. Kestrel's own README"
        " told of 61 µs a put (16,400/s) on a laptop of 2010, without a sync.",
    ),
    (
        "flood",
        _flood,
        (WRITE, FSYNC),
        f"{ONE_AND_ONE}; the consumer asks again at once when there is nothing. Kestrel's README told of"
        " 6,400 items/s.",
    ),
    ("flood -B", _blocking_flood, (WRITE,), f"{ONE_AND_ONE}; a get waits in the server for an item."),
    (
        "flood -r 20",
        _rolled_up_flood,
        (WRITE,),
        "One producer that puts 20 items at once, and one consumer that monitors and confirms 20.",
    ),
    (
        "many-clients",
        _many_clients,
        (WRITE,),
        "100 clients wait for items that come 20 ms apart: the percentiles are of an item's way from before"
        " its set until a client has it; the rate is the producer's.",
    ),
    (
        "many-clients -k 10",
        _killed_clients,
        (WRITE,),
        "The same with reads that are opened and closed, and every tenth request's connection is lost.",
    ),
    (
        "packing",
        _packing,
        (WRITE,),
        "A backlog of 1 KB items, and cycles that put and get as many at the same time, in order; p99 is that"
        " of the worst cycle.",
    ),
    (
        "leaky-reader",
        _leaky_reader,
        (WRITE,),
        "4 readers open and confirm items, and lose their connection instead with one in a hundred; all of"
        " them arrive. The clients are Python's, and share the rate.",
    ),
)


def measure_scenarios(directory: str) -> list[Measurement]:
    scale = chosen_scale()
    rows: list[Measurement] = []
    for durability in (WRITE, FSYNC):
        with running_gateway(Path(directory, f"scenarios-{durability}"), durability) as server:
            for name, scenario, durabilities, reading in SCENARIOS:
                if durability in durabilities:
                    print(f"kestrel: {name}, {durability} ...", flush=True)
                    with pinned_to(DRIVER):
                        phases = scenario("127.0.0.1", server.port, scale)
                    rows += [
                        row for phase in phases for row in _rows(f"{name}, {durability}", phase, reading)
                    ]
                if name == "packing" and durability in durabilities:
                    rows.append(_left_on_disk(server))
    return rows


def _rows(name: str, phase: Phase, reading: str) -> list[Measurement]:
    name = f"{name}: {phase.name}"
    return [
        Measurement(name, phase.rate, "ops/s", reading),
        Measurement(f"{name}, p50", phase.p50_us / 1000, "ms", "of the operations of the row above."),
        Measurement(f"{name}, p99", phase.p99_us / 1000, "ms", "of the same."),
    ]


def _left_on_disk(server: Server) -> Measurement:
    assert server.data is not None
    # What is preallocated is counted as well; files may go while they are counted.
    used = sum(_allocated_bytes(path) for path in server.data.rglob("*"))
    return Measurement(
        "packing, write: data directory afterwards",
        used / (1 << 20),
        "MiB",
        "what all scenarios so far have left allocated on the disk, when every item has been read.",
    )


def _allocated_bytes(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0
