"""Where a request wants partitions to be. There is one broker, and it has the one copy of each.

Kafka's rules, and its order where more than one thing is wrong. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

from barbicel.gateway.broker.topic_errors import InvalidAssignment, InvalidReplicationFactor

__all__ = [
    "DEFAULT",
    "REPLICATION_FACTOR",
    "check_assignment",
    "check_partition_numbers",
    "check_replication",
]

# Asks for the server's default, of partitions and of copies.
DEFAULT = -1
REPLICATION_FACTOR = 1


def check_replication(factor: int) -> None:
    """Raises InvalidReplicationFactor."""
    if factor in (DEFAULT, REPLICATION_FACTOR):
        return
    if factor < 1:
        raise InvalidReplicationFactor(
            f"the replication factor is {factor}, it must be 1, or -1 for the default"
        )
    raise InvalidReplicationFactor(f"the replication factor is {factor}, and there is one broker")


def check_assignment(broker_ids: Sequence[int], node_id: int) -> None:
    """The brokers of one partition. Raises InvalidAssignment."""
    if not broker_ids:
        raise InvalidAssignment("a partition is assigned to no broker")
    if strangers := [broker_id for broker_id in broker_ids if broker_id != node_id]:
        raise InvalidAssignment(f"a partition is assigned to broker {strangers[0]}, there is only {node_id}")
    if len(broker_ids) > 1:
        raise InvalidAssignment(f"a partition is assigned to broker {node_id} more than once")


def check_partition_numbers(numbers: Sequence[int]) -> None:
    """The partitions that a new topic is given one by one. Raises InvalidAssignment."""
    if len(set(numbers)) < len(numbers):
        raise InvalidAssignment("a partition is assigned twice")
    if set(numbers) != set(range(len(numbers))):
        raise InvalidAssignment("the assigned partitions are not numbered from 0 on without a gap")
