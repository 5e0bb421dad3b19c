"""A hundred partitions, beside Kafka with a hundred and beside ourselves with one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.kafka.clients import run_client
from bench.kafka.contest import Contest
from bench.kafka.driver import Job
from bench.kafka.memory import memory_row
from bench.kafka.scale import ONE_KB, Scale, chosen_scale
from bench.kafka.servers import KAFKA, WRITE, Server, running_servers
from bench.report import Measurement, compare

__all__ = ["measure_partitions"]

MANY = 100
# The gateway with one partition.
ONE = "write, 1 partition"
READINGS: Mapping[str, str] = {
    "produce": "one client; librdkafka keeps to a partition for 10 ms and then takes another at random.",
    "consume": "one client reads all partitions from their beginning, after a restart of ours.",
}


def measure_partitions(directory: str) -> list[Measurement]:
    scale, place = chosen_scale(), Path(directory, "partitions")
    with (
        running_servers(place / "many", (WRITE, KAFKA), partitions=MANY) as many,
        running_servers(place / "one", (WRITE,)) as one,
    ):
        servers = {**many, ONE: one[WRITE]}
        rows = _rows("produce", servers, scale)
        for server in servers.values():
            server.restart()
        rows += _rows("consume", servers, scale)
        return [*rows, memory_row(f"memory, {MANY} partitions", WRITE, many)]


def _rows(do: str, servers: Mapping[str, Server], scale: Scale) -> list[Measurement]:
    messages = scale.messages(ONE_KB) * (scale.rounds if do == "consume" else 1)
    partitions = {server.bootstrap: 1 if name == ONE else MANY for name, server in servers.items()}

    def race(server: Server) -> float:
        job = Job(do, server.bootstrap, "spread", messages, ONE_KB.size_bytes, partitions[server.bootstrap])
        return messages / run_client(job).seconds

    name = f"{do} 1 KB, {MANY} partitions"
    contest = Contest(name, servers, ONE_KB, messages, race, scale=scale)
    against_one = compare(
        f"{name}, {WRITE}: against 1",
        "messages/s",
        contest.rates[WRITE],
        contest.rates[ONE],
        against="the gateway, 1 partition",
        reading="the gateway beside another one whose topic has a single partition, in the same rounds.",
    )
    return [*contest.rows(WRITE, READINGS[do]), against_one]
