"""An ordinary client beside hostile ones: how much slower it is, and what they make the server hold and do.

It is measured when they have been there for a while. Their own work, on the same machine, counts with the
server's for how much slower the client is; what of it is the server's is a row of its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

from bench.kafka.attackers import Attack, raise_file_limit
from bench.kafka.clients import run_client
from bench.kafka.driver import Job
from bench.kafka.scale import ONE_KB, Scale, chosen_scale
from bench.kafka.servers import WRITE, Server, processor_seconds, running_servers
from bench.report import Measurement, Target, compare
from bench.rounds import ROOT, interleave

__all__ = ["measure_hostile"]

ALONE = "alone"
MIB = 1 << 20
TOPIC, LARGE_TOPIC = "ordinary", "large"
LARGE_BYTES, LARGE_MESSAGES = 100_000, 400
# How long it is watched what attackers make the server hold, and how often it is looked at. By then they are
# all there, and what they do goes on as it is.
WATCHED_S, LOOK_S = 2.0, 0.02
UNDISTURBED = Target(">=", 0.8)
LITTLE_WORK = Target("<=", 0.2)
BOUNDED = Target("<=", 1.0)


@dataclass(frozen=True, slots=True)
class Kind:
    """`connections` at full scale, and how much memory each of them, or all together, may take."""

    name: str
    connections: int
    reading: str
    bound: str
    kib_each: float = 0.0
    mib_in_all: float = 0.0

    def wanted(self, scale: Scale) -> int:
        return max(1, round(self.connections * scale.share))

    def bound_mib(self, connections: int) -> float:
        return self.mib_in_all or self.kib_each * connections / 1024


KINDS: Mapping[str, Kind] = {
    "idle": Kind(
        "idle connections",
        10_000,
        "connected, answered once, and silent since.",
        "8 KiB a connection",
        kib_each=8,
    ),
    "half_sent": Kind(
        "half-sent requests",
        1_000,
        "each client has announced 10 MB, sent 100 bytes of it, and sends one more twice a second.",
        "8 KiB a connection",
        kib_each=8,
    ),
    "unread": Kind(
        "clients that never read",
        100,
        "each client has asked twenty times for all of a topic of 40 MB and reads nothing; who is thrown out"
        " comes back.",
        "1.5 times queued.max.request.bytes",
        mib_in_all=384,
    ),
    "two_gigabytes": Kind(
        "2 GB announced again and again",
        1,
        "a client announces a request of 2 GB, is sent away, and is back 5 ms later.",
        "a bound",
        mib_in_all=8,
    ),
}


class Watched(NamedTuple):
    """What attackers alone make of a server that has just started."""

    grown_mib: float
    # Of one core's time.
    processor_share: float
    # As many as there could be.
    connections: int


@dataclass(slots=True)
class Found:
    """By what happened beside the ordinary client."""

    # A figure a round.
    rates: Mapping[str, list[float]]
    p99_ms: Mapping[str, list[float]]
    watched: Mapping[str, Watched]


def measure_hostile(directory: str) -> list[Measurement]:
    scale = chosen_scale()
    raise_file_limit()  # which the server inherits
    with running_servers(Path(directory, "hostile"), (WRITE,)) as servers:
        found = _measure(servers[WRITE], scale)
    return [row for kind in KINDS for row in _rows(kind, found, scale)]


def _measure(server: Server, scale: Scale) -> Found:
    large = max(10, round(LARGE_MESSAGES * scale.share))
    run_client(Job("produce", server.bootstrap, LARGE_TOPIC, large, LARGE_BYTES))
    watched = {kind: _watch(server, scale, kind) for kind in KINDS}
    p99_ms: dict[str, list[float]] = {kind: [] for kind in (ALONE, *KINDS)}

    def run(kind: str) -> float:
        with _under(_attack(server, scale, kind)) if kind in KINDS else nullcontext():
            time.sleep(_watched_s(scale))
            rate, latency_ms = _run(server, scale)
        p99_ms[kind].append(latency_ms)
        return rate

    _run(server, scale)
    # Of a second each, in which the disk may be twice as fast as in the next: of few the median is luck.
    rates = interleave({kind: partial(run, kind) for kind in p99_ms}, 2 * scale.rounds)
    return Found(rates, p99_ms, watched)


def _run(server: Server, scale: Scale) -> tuple[float, float]:
    """Messages a second, and the time of the slowest but one in a hundred."""
    messages = scale.messages(ONE_KB)
    took = run_client(Job("produce", server.bootstrap, TOPIC, messages, ONE_KB.size_bytes))
    singly = Job("produce_singly", server.bootstrap, TOPIC, scale.single_messages // 5, ONE_KB.size_bytes)
    return messages / took.seconds, quantiles(run_client(singly).each_ms, n=100)[98]


# --- the attackers ----------------------------------------------------------------------------------------


def _attack(server: Server, scale: Scale, kind: str) -> Attack:
    port = int(server.bootstrap.rpartition(":")[2])
    return Attack(kind, port, KINDS[kind].wanted(scale), topic=LARGE_TOPIC)


@contextmanager
def _under(attack: Attack) -> Iterator[int]:
    """How many connections the attackers have, for as long as they go on."""
    command = [sys.executable, "-m", "bench.kafka.attackers", json.dumps(asdict(attack))]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _watch(server: Server, scale: Scale, kind: str) -> Watched:
    """Memory that others have given back would hide what these take."""
    server.restart()
    before = grown = _resident_bytes(server)
    with _under(_attack(server, scale, kind)) as connections:
        deadline = time.monotonic() + _watched_s(scale)
        while time.monotonic() < deadline:
            grown = max(grown, _resident_bytes(server))
            time.sleep(LOOK_S)
        used_s, since_s = processor_seconds(server.pid), time.monotonic()
        time.sleep(_watched_s(scale))
        share = (processor_seconds(server.pid) - used_s) / (time.monotonic() - since_s)
    return Watched((grown - before) / MIB, share, connections)


def _watched_s(scale: Scale) -> float:
    return WATCHED_S * min(1.0, 4 * scale.share)


def _resident_bytes(server: Server) -> int:
    pages = int(Path(f"/proc/{server.pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


# --- the rows ---------------------------------------------------------------------------------------------


def _rows(kind: str, found: Found, scale: Scale) -> Iterator[Measurement]:
    about, (grown_mib, processor_share, connections) = KINDS[kind], found.watched[kind]
    name = f"{connections:,} {about.name}" if about.connections > 1 else about.name
    reading = about.reading
    if connections < about.wanted(scale):
        reading += f" {about.wanted(scale):,} were wanted; the limit of open files allows no more."
    yield compare(
        f"produce 1 KB beside {name}",
        "messages/s",
        found.rates[kind],
        found.rates[ALONE],
        against="undisturbed",
        reading=f"one client, one partition, acks=all, durability write; {reading}",
        target=UNDISTURBED,
    )
    yield compare(
        f"latency p99 beside {name}",
        "ms",
        found.p99_ms[kind],
        found.p99_ms[ALONE],
        against="undisturbed",
        reading=f"a message of 1 KB, acknowledged before the next is sent; {reading}",
    )
    yield compare(
        f"server's processor for {name}",
        "ms/s",
        [processor_share * 1000],
        [1000.0],
        against="one core",
        reading=f"what they make the server do, and nobody else asks for anything; {reading}",
        target=LITTLE_WORK,
    )
    yield compare(
        f"memory of {name}",
        "MiB",
        [grown_mib],
        [about.bound_mib(connections)],
        against=about.bound,
        reading="by how much the resident memory of a server that has just started grows, which is"
        f" {grown_mib * 1024 / connections:,.1f} KiB a connection; {reading}",
        target=BOUNDED,
    )
