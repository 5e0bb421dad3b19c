"""What the gateway is to reach beside Kafka, which does not sync what it acknowledges."""

from __future__ import annotations

from collections.abc import Mapping

from bench.kafka.scale import MessageSize
from bench.kafka.servers import FSYNC, WRITE
from bench.report import Target

__all__ = ["MEMORY", "STARTUP", "THROUGHPUT", "durabilities"]

# By durability and message size, for produce and for consume.
THROUGHPUT: Mapping[tuple[str, str], Target] = {
    (WRITE, "100 B"): Target(">=", 0.5),
    (WRITE, "1 KB"): Target(">=", 1.0),
    (WRITE, "10 KB"): Target(">=", 1.0),
    (FSYNC, "1 KB"): Target(">=", 0.6),
}
MEMORY = Target("<=", 0.25)
STARTUP = Target("<=", 0.25)


def durabilities(size: MessageSize) -> list[str]:
    """Those that there is a target for."""
    return [durability for durability, name in THROUGHPUT if name == size.name]
