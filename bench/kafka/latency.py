"""How long a single message takes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from statistics import median, quantiles

from bench.kafka.clients import run_client
from bench.kafka.driver import Job
from bench.kafka.scale import ONE_KB, Scale
from bench.kafka.servers import AGAINST, FSYNC, KAFKA, PROMISES, WRITE, Server
from bench.report import Measurement, compare
from bench.rounds import interleave

__all__ = ["latency_rows"]

PERCENTS = (50, 99)


def latency_rows(servers: Mapping[str, Server], scale: Scale) -> list[Measurement]:
    # Each message's time, by server and round.
    times_ms: dict[str, list[list[float]]] = {name: [] for name in servers}

    def race(name: str, server: Server) -> float:
        job = Job("produce_singly", server.bootstrap, "single", scale.single_messages, ONE_KB.size_bytes)
        times_ms[name].append(run_client(job).each_ms)
        return median(times_ms[name][-1])

    interleave({name: partial(race, name, server) for name, server in servers.items()}, scale.rounds)
    return [_row(name, percent, times_ms) for name in (WRITE, FSYNC) for percent in PERCENTS]


def _row(name: str, percent: int, times_ms: Mapping[str, list[list[float]]]) -> Measurement:
    ours, peer = ([quantiles(each, n=100)[percent - 1] for each in times_ms[one]] for one in (name, KAFKA))
    return compare(
        f"latency p{percent}, {name}",
        "ms",
        ours,
        peer,
        against=AGAINST,
        reading="a message of 1 KB in a batch of its own, acknowledged before the next is sent; linger.ms 0,"
        f" the client's own way from thread to thread included. {PROMISES[name]}",
    )
