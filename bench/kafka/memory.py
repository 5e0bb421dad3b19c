"""The most memory that a server has had."""

from __future__ import annotations

from collections.abc import Mapping

from bench.kafka.servers import AGAINST, KAFKA, KAFKA_HEAP_MB, Server
from bench.kafka.targets import MEMORY
from bench.report import Measurement, compare

__all__ = ["memory_row"]


def memory_row(name: str, ours: str, servers: Mapping[str, Server]) -> Measurement:
    return compare(
        name,
        "MiB",
        [servers[ours].peak_bytes() / (1 << 20)],
        [servers[KAFKA].peak_bytes() / (1 << 20)],
        against=AGAINST,
        target=MEMORY,
        reading="the peak of the server's resident memory (VmHWM) in all rounds of the rows above that"
        f" confluent-kafka drove with as many partitions. Kafka's heap may have {KAFKA_HEAP_MB} MB, as its"
        " own start script says, but is not made to have them from the start.",
    )
