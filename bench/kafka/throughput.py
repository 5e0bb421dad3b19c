"""confluent-kafka produces, follows and consumes messages of several sizes; latency and memory beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from bench.kafka.clients import follow, run_client
from bench.kafka.contest import Contest
from bench.kafka.driver import CONSUMER, PRODUCER, Job, Took
from bench.kafka.latency import latency_rows
from bench.kafka.memory import memory_row
from bench.kafka.scale import MessageSize, Scale, chosen_scale
from bench.kafka.servers import FSYNC, KAFKA, PROMISES, WRITE, Server, running_servers
from bench.kafka.targets import THROUGHPUT, durabilities
from bench.report import Measurement

__all__ = ["measure_throughput"]

PRODUCED = (
    "confluent-kafka, one client, one partition, no compression, acks=all, idempotent, linger.ms"
    f" {PRODUCER['linger.ms']}, batch.size {PRODUCER['batch.size']:,}, librdkafka's defaults otherwise."
)
FOLLOWED = (
    "A consumer waits at the end of the topic while another process produces; from its first message to its"
    " last, so it is no faster than producing is. It asks again"
    f" {CONSUMER['fetch.queue.backoff.ms']} ms after its queue was full, not after a second."
)
CONSUMED = (
    "A consumer reads the topic from its beginning. Ours was restarted, so that nothing of it is in the"
    " gateway's own memory; on both sides it is in the kernel's. Durability has no part in it."
)


def measure_throughput(directory: str) -> list[Measurement]:
    scale = chosen_scale()
    with running_servers(Path(directory, "throughput")) as servers:
        rows = [row for size in scale.sizes for row in _produce(servers, size, scale)]
        rows += latency_rows(servers, scale)
        rows += [row for size in scale.sizes for row in _follow(servers, size, scale)]
        two = {name: servers[name] for name in (WRITE, KAFKA)}
        for server in two.values():
            server.restart()
        rows += [row for size in scale.sizes for row in _consume(two, size, scale)]
        return rows + [memory_row(f"memory, {name}", name, servers) for name in (WRITE, FSYNC)]


def _produce(servers: Mapping[str, Server], size: MessageSize, scale: Scale) -> list[Measurement]:
    messages = scale.messages(size)
    race = partial(_race, run_client, "produce", size, messages)
    contest = Contest(f"produce {size.name}", servers, size, messages, race, scale=scale)
    rows = [
        row
        for name in (WRITE, FSYNC)
        for row in contest.rows(name, f"{PRODUCED} {PROMISES[name]}", THROUGHPUT.get((name, size.name)))
    ]
    return [*rows, contest.processor_row(WRITE)]


def _follow(servers: Mapping[str, Server], size: MessageSize, scale: Scale) -> list[Measurement]:
    messages = scale.messages(size)
    race = partial(_race, follow, "follow", size, messages)
    names = durabilities(size)
    contest = Contest(
        f"consume {size.name}, caught up",
        {name: servers[name] for name in (*names, KAFKA)},
        size,
        messages,
        race,
        scale=scale,
    )
    return [row for name in names for row in contest.rows(name, FOLLOWED, THROUGHPUT.get((name, size.name)))]


def _consume(servers: Mapping[str, Server], size: MessageSize, scale: Scale) -> list[Measurement]:
    # What all rounds have produced: what a single one has would be read too soon.
    messages = scale.messages(size) * scale.rounds
    race = partial(_race, run_client, "consume", size, messages)
    name = f"consume {size.name}, from the log"
    contest = Contest(name, servers, size, messages, race, scale=scale)
    rows = contest.rows(WRITE, CONSUMED, THROUGHPUT.get((WRITE, size.name)))
    return [*rows, contest.processor_row(WRITE)]


def _race(run: Callable[[Job], Took], do: str, size: MessageSize, messages: int, server: Server) -> float:
    """Messages in a second."""
    job = Job(do, server.bootstrap, f"size-{size.size_bytes}", messages, size.size_bytes)
    return messages / run(job).seconds
