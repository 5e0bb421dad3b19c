"""What a driver is asked to do, in options, and what it says of it, in a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

__all__ = ["OPERATIONS", "PERCENTILES", "Job", "Result", "percentile", "render_options", "render_result"]

OPERATIONS = ("set", "get", "set+get", "monitor")
PERCENTILES = {
    "min_us": 0.0,
    "p50_us": 0.5,
    "p90_us": 0.9,
    "p95_us": 0.95,
    "p99_us": 0.99,
    "p999_us": 0.999,
    "max_us": 1.0,
}


@dataclass(frozen=True, slots=True)
class Job:
    """Each field is an option of the driver's; a flag is given or not."""

    port: int
    operation: str
    item_bytes: int
    # Of all connections together; they share it evenly. It ends with these or with the time.
    count: int = -1
    seconds: float = 0.0
    host: str = "127.0.0.1"
    connections: int = 1
    # Requests under way on a connection; 1 is a client that waits for each answer. Of a monitor: its items.
    depth: int = 1
    queue: str = "bench"
    # If there are several: a connection uses <queue><n>, one after the other.
    queues: int = 1
    # What follows the queue's name in a get: "/t=1000".
    key_options: str = ""
    # Items start with a number; gets have to bring them in order. One connection only.
    number_from: int = -1
    monitor_seconds: int = 1
    # The next requests are sent when all that are under way are answered.
    burst: bool = False
    # An END is a miss, and the get is repeated; without this it is an error.
    may_miss: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """`ops` are the sets that were stored and the gets that brought an item."""

    ops: int
    seconds: float
    errors: int
    misses: int
    first_error: str
    min_us: float
    p50_us: float
    p90_us: float
    p95_us: float
    p99_us: float
    p999_us: float
    max_us: float

    @property
    def rate(self) -> float:
        return self.ops / self.seconds


def render_options(job: Job) -> list[str]:
    options: list[str] = []
    for field in fields(job):
        value = getattr(job, field.name)
        name = f"--{field.name.replace('_', '-')}"
        if isinstance(value, bool):
            options += [name] * value
        else:
            options += [name, str(value)]
    return options


def render_result(result: Result) -> str:
    return json.dumps(asdict(result))


def percentile(ordered: Sequence[float], share: float) -> float:
    """By the nearest rank; 0 of nothing."""
    return ordered[int(share * (len(ordered) - 1) + 0.5)] if ordered else 0.0
