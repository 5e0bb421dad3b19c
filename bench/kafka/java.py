"""The same with Kafka's own performance tools, whose batches are small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

from bench.kafka import java_tools
from bench.kafka.clients import run_client
from bench.kafka.contest import Contest
from bench.kafka.driver import Job
from bench.kafka.scale import MessageSize, Scale, chosen_scale
from bench.kafka.servers import KAFKA, PROMISES, WRITE, Server, running_servers
from bench.kafka.targets import THROUGHPUT, durabilities
from bench.report import Measurement

__all__ = ["measure_java"]

# Its small batches take longer, and starting Java counts for more than what it then does.
SHARE = 0.5
PRODUCED = (
    "Java's ProducerPerformance with its defaults: acks=all, idempotent, linger.ms 5, batch.size 16,384."
)
CONSUMED = "Java's ConsumerPerformance with its defaults, a new group each time; joining it is not counted."


def measure_java(directory: str) -> list[Measurement]:
    scale = _patient(chosen_scale())
    with running_servers(Path(directory, "java")) as servers:
        for size in scale.sizes:
            _create_topics(servers, size)
        rows = [row for size in scale.sizes for row in _produce(servers, size, scale)]
        two = {name: servers[name] for name in (WRITE, KAFKA)}
        return rows + [row for size in scale.sizes for row in _consume(two, size, scale)]


def _patient(scale: Scale) -> Scale:
    """Both ends are Java, and Kafka gets faster over the first two rounds. A client that starts anew each
    time is uneven, too: the median of five rounds still moved by a twentieth."""
    return replace(scale, uncounted_rounds=2 * scale.uncounted_rounds, rounds=2 * scale.rounds)


def _create_topics(servers: Mapping[str, Server], size: MessageSize) -> None:
    """By a client that waits for it patiently: the tool would lose a second over it."""
    for server in servers.values():
        run_client(_job(server, size, 1, do="produce"))


def _produce(servers: Mapping[str, Server], size: MessageSize, scale: Scale) -> list[Measurement]:
    messages = _messages(size, scale)
    names = durabilities(size)
    contest = Contest(
        f"Java produce {size.name}",
        {name: servers[name] for name in (*names, KAFKA)},
        size,
        messages,
        lambda server: java_tools.produce(_job(server, size, messages)),
        scale=scale,
    )
    return [
        row
        for name in names
        for row in contest.rows(name, f"{PRODUCED} {PROMISES[name]}", THROUGHPUT.get((name, size.name)))
    ]


def _consume(servers: Mapping[str, Server], size: MessageSize, scale: Scale) -> list[Measurement]:
    messages = _messages(size, scale) * scale.rounds
    groups = (f"group-{number}" for number in count())
    contest = Contest(
        f"Java consume {size.name}",
        servers,
        size,
        messages,
        lambda server: java_tools.consume(_job(server, size, messages), next(groups)),
        scale=scale,
    )
    return contest.rows(WRITE, CONSUMED, THROUGHPUT.get((WRITE, size.name)))


def _messages(size: MessageSize, scale: Scale) -> int:
    return max(1, round(scale.messages(size) * SHARE))


def _job(server: Server, size: MessageSize, messages: int, *, do: str = "") -> Job:
    return Job(do, server.bootstrap, f"java-{size.size_bytes}", messages, size.size_bytes)
