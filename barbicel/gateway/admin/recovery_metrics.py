"""Metrics of what a restart has to do, and of damage that was found."""

from __future__ import annotations

from collections.abc import Iterator

from barbicel.gateway.admin.metrics import Family, Sample
from barbicel.gateway.admin.pulse import Pulse
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.kestrel.queues import Queues

__all__ = ["recovery_families"]


def recovery_families(broker: Broker, pulse: Pulse, queues: Queues | None) -> Iterator[Family]:
    def remaining() -> Iterator[Sample]:
        yield Sample(broker.recovered.offline, (("kind", "partitions"),))
        yield Sample(0 if queues is None else queues.unopened, (("kind", "queues"),))

    def snapshot_age() -> Iterator[Sample]:
        age_ms = pulse.looked.group_files.snapshot_age_ms
        if age_ms is not None:
            yield Sample(age_ms / 1000)

    def damage() -> Iterator[Sample]:
        online = [one for topic in broker.topics for one in topic.partitions if not one.is_offline]
        found = [one.damage_found for one in online]
        at_start = sum([len(one.log.damage) for one in online])
        numbers = {
            "log": at_start + sum([one.log for one in found]),
            "store": sum([one.store for one in found]),
            "groups": broker.offsets.damaged_groups,
            "produced": sum([one.produced for one in found]),
        }
        return (Sample(number, (("where", where),)) for where, number in numbers.items())

    yield Family(
        "barbicel_recovery_seconds",
        "How long the last start took until all logs were open.",
        "gauge",
        lambda: (Sample(broker.recovered.seconds),),
    )
    yield Family(
        "barbicel_recovery_remaining",
        "Partitions that could not be recovered at the start, and queues that are not open yet.",
        "gauge",
        remaining,
    )
    yield Family(
        "barbicel_group_snapshot_age_seconds",
        "How old the oldest snapshot of a group in memory is.",
        "gauge",
        snapshot_age,
    )
    yield Family(
        "barbicel_group_delta_bytes",
        "What groups in memory have written since their snapshots, of all and of the longest.",
        "gauge",
        lambda: (
            Sample(pulse.looked.group_files.delta_bytes, (("of", "all"),)),
            Sample(pulse.looked.group_files.longest_delta_bytes, (("of", "longest"),)),
        ),
    )
    yield Family(
        "barbicel_crc_failures_total",
        "Damaged places found since the start: in logs, the object store, groups, and what clients sent.",
        "counter",
        damage,
    )
