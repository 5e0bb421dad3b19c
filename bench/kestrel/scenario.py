"""What Kestrel's five load scenarios have in common: options, phases and how they are printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from bench.kestrel.job import Result, percentile

__all__ = ["Phase", "common_options", "phase_of_latencies", "phase_of_results", "print_phases"]

Command = TypeVar("Command", bound=Callable[..., Any])

# The letters are Kestrel's.
COMMON_OPTIONS = (
    click.option("-h", "--host", default="127.0.0.1", show_default=True, help="The server's address."),
    click.option("-p", "--port", default=22133, show_default=True, help="Its memcache port."),
    click.option("-q", "--queue", default="spam", show_default=True, help="Use this queue."),
    click.option("-F", "--no-flush", is_flag=True, help="Do not flush the queue first."),
)


@dataclass(frozen=True, slots=True)
class Phase:
    """One part of a scenario; its percentiles are of single operations, in microseconds."""

    name: str
    ops: int
    seconds: float
    p50_us: float
    p99_us: float
    max_us: float
    misses: int = 0

    @property
    def rate(self) -> float:
        return self.ops / self.seconds


def common_options(command: Command) -> Command:
    for option in reversed(COMMON_OPTIONS):
        command = option(command)
    return command


def phase_of_results(name: str, *results: Result) -> Phase:
    """Of runs one after the other: the p50 is the middle one of theirs, p99 and max are the worst."""
    return Phase(
        name,
        sum(result.ops for result in results),
        sum(result.seconds for result in results),
        percentile(sorted(result.p50_us for result in results), 0.5),
        max(result.p99_us for result in results),
        max(result.max_us for result in results),
        sum(result.misses for result in results),
    )


def phase_of_latencies(name: str, latencies_us: Sequence[float], seconds: float, misses: int = 0) -> Phase:
    ordered = sorted(latencies_us)
    p50, p99, most = (percentile(ordered, share) for share in (0.5, 0.99, 1))
    return Phase(name, len(ordered), seconds, p50, p99, most, misses)


def print_phases(phases: Sequence[Phase]) -> None:
    for phase in phases:
        print(
            f"{phase.name}: {phase.ops:,} in {phase.seconds * 1000:,.0f} ms, {phase.rate:,.0f} ops/s"
            f" ({phase.seconds * 1e6 / max(1, phase.ops):.1f} µs each);"
            f" p50 {phase.p50_us:,.0f} µs, p99 {phase.p99_us:,.0f} µs, max {phase.max_us:,.0f} µs;"
            f" {phase.misses:,} misses"
        )
