"""The server's own metrics: under the names that Kafka's dashboards know, and beside them ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from barbicel import __version__
from barbicel.gateway.admin.api.positions import Position, Positions
from barbicel.gateway.admin.health import Health
from barbicel.gateway.admin.metrics import Collector, Family, MetricType, Registry, Sample
from barbicel.gateway.admin.pulse import Pulse
from barbicel.gateway.admin.recovery_metrics import recovery_families
from barbicel.gateway.admin.timed_disk import TimedDisk
from barbicel.gateway.admin.turns import in_turns
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.kestrel.queues import Queues
from barbicel.kestrel_compat.stats import QueueStats

__all__ = ["register_server_metrics"]

# A field of QueueStats, the metric of it, and what it tells.
QUEUE_METRICS: tuple[tuple[str, str, MetricType, str], ...] = (
    ("items", "kestrel_queue_items", "gauge", "Items that can be had."),
    ("bytes", "kestrel_queue_bytes", "gauge", "Bytes of the items that can be had."),
    ("open_transactions", "kestrel_queue_open_transactions", "gauge", "Items that are out, not confirmed."),
    ("waiters", "kestrel_queue_waiters", "gauge", "Clients that wait for an item."),
    ("age_ms", "kestrel_queue_age_milliseconds", "gauge", "How long the last item had waited."),
    ("total_items", "kestrel_queue_items_total", "counter", "Items that were put in since the start."),
    ("expired_items", "kestrel_queue_expired_items_total", "counter", "Items that expired since the start."),
    ("discarded", "kestrel_queue_discarded_total", "counter", "Items that a full queue has dropped."),
)


def register_server_metrics(
    registry: Registry,
    broker: Broker,
    pulse: Pulse,
    health: Health,
    positions: Positions,
    queues: Queues | None,
) -> None:
    for family in (
        *_topic_families(broker),
        *_server_families(broker, pulse, health),
        *recovery_families(broker, pulse, queues),
    ):
        registry.add(family)
    if isinstance(broker.disk, TimedDisk):
        for family in _sync_families(broker.disk):
            registry.add(family)
    registry.add_survey(_GroupSurvey(broker, positions).collectors)
    if queues is not None:
        registry.add(_ahead_family(queues))
        registry.add_survey(_QueueSurvey(queues).collectors)


# --- topics ---------------------------------------------------------------------------------------------


def _topic_families(broker: Broker) -> Iterator[Family]:
    def online() -> Iterator[Partition]:
        return (one for topic in broker.topics for one in topic.partitions if not one.is_offline)

    def of_partitions(number: str) -> Iterator[Sample]:
        return (Sample(getattr(one, number), _place(one.topic.name, one.number)) for one in online())

    def of_topics(number: str) -> Iterator[Sample]:
        for topic in broker.topics:
            parts = [getattr(one, number) for one in topic.partitions if not one.is_offline]
            yield Sample(sum(parts), (("topic", topic.name),))

    def sizes() -> Iterator[Sample]:
        return (Sample(one.log.size_bytes, _place(one.topic.name, one.number)) for one in online())

    def counts() -> Iterator[Sample]:
        return (Sample(len(topic.partitions), (("topic", topic.name),)) for topic in broker.topics)

    yield Family("kafka_brokers", "Brokers of the cluster.", "gauge", lambda: (Sample(1),))
    yield Family("kafka_topic_partitions", "Partitions of a topic.", "gauge", counts)
    yield Family(
        "kafka_topic_partition_current_offset",
        "The offset behind the last record of a partition.",
        "gauge",
        lambda: of_partitions("end_offset"),
    )
    yield Family(
        "kafka_topic_partition_oldest_offset",
        "The first offset of a partition.",
        "gauge",
        lambda: of_partitions("start_offset"),
    )
    yield Family("barbicel_partition_size_bytes", "What a partition takes on the disk.", "gauge", sizes)
    yield Family(
        "kafka_server_brokertopicmetrics_messagesin_total",
        "Records that were appended to a topic.",
        "counter",
        lambda: of_topics("end_offset"),
    )
    yield Family(
        "kafka_server_brokertopicmetrics_bytesin_total",
        "Bytes of record batches that were appended to a topic since the server started.",
        "counter",
        lambda: of_topics("appended_bytes"),
    )
    yield Family(
        "kafka_server_brokertopicmetrics_bytesout_total",
        "Bytes of record batches that Kafka's consumers fetched since the server started.",
        "counter",
        lambda: of_topics("fetched_bytes"),
    )


def _place(topic: str, partition: int) -> Sequence[tuple[str, str]]:
    return (("topic", topic), ("partition", str(partition)))


# --- groups ---------------------------------------------------------------------------------------------


class _GroupSurvey:
    """Asks for the positions of all groups, one after the other."""

    def __init__(self, broker: Broker, positions: Positions) -> None:
        self._broker = broker
        self._positions = positions

    async def collectors(self) -> Sequence[Collector]:
        groups = self._broker.offsets.groups()
        self._positions.forget_others(set(groups))
        found = {group: await self._positions.of(group) for group in groups}
        known = {group: [one for one in rows if one.error is None] for group, rows in found.items()}

        def rows() -> Iterator[tuple[Position, Sequence[tuple[str, str]]]]:
            for group, positions in known.items():
                for one in positions:
                    yield one, (("consumergroup", group), *_place(one.topic, one.partition))

        return (
            Family(
                "kafka_consumergroup_current_offset",
                "The offset that a group has committed.",
                "gauge",
                lambda: (Sample(one.committed, labels) for one, labels in rows()),
            ),
            Family(
                "kafka_consumergroup_lag",
                "How far a group is behind the end of a partition.",
                "gauge",
                lambda: (Sample(one.lag, labels) for one, labels in rows()),
            ),
            Family("kafka_consumergroup_members", "Members of a group.", "gauge", self._members),
        )

    def _members(self) -> Iterator[Sample]:
        coordinator = self._broker.coordinator
        names = {group.group_id for group in coordinator.list_groups()} | set(self._broker.offsets.groups())
        for name in sorted(names):
            described = coordinator.describe(name)
            yield Sample(0 if described is None else len(described.members), (("consumergroup", name),))


# --- the server -----------------------------------------------------------------------------------------


def _server_families(broker: Broker, pulse: Pulse, health: Health) -> Iterator[Family]:
    def stopped() -> int:
        return sum(not one.is_writable for topic in broker.topics for one in topic.partitions)

    def damages() -> int:
        online = (one for topic in broker.topics for one in topic.partitions if not one.is_offline)
        return sum(len(one.log.damage) for one in online)

    def space() -> Iterator[Sample]:
        found = pulse.looked.space
        if found is not None:
            yield Sample(found.usable_bytes, (("kind", "free"),))
            yield Sample(found.total_bytes, (("kind", "total"),))

    def memory() -> Iterator[Sample]:
        if pulse.looked.memory_bytes is not None:
            yield Sample(pulse.looked.memory_bytes)

    numbers: tuple[tuple[str, str, Callable[[], float]], ...] = (
        ("ready", "1 if the server is ready, see /readyz.", lambda: int(not health.problems())),
        ("clients", "Connections of Kafka's and Kestrel's clients.", lambda: broker.descriptors.clients),
        ("reactor_lag_seconds", "The longest wait for the event loop lately.", lambda: pulse.max_lag_s),
        ("partitions_not_writable", "Partitions whose log takes no writes.", stopped),
        ("log_damages", "Stretches of logs that were found damaged when they were opened.", damages),
        (
            "unsynced_offsets",
            "Records that a power cut would take, of all partitions.",
            lambda: pulse.stored.unsynced_offsets,
        ),
        ("unsynced_bytes", "The bytes of these records.", lambda: pulse.stored.unsynced_bytes),
        (
            "group_sync_lag_seconds",
            "For how long the oldest commit of a group has been waiting to be synced.",
            lambda: pulse.looked.sync_lag_ms / 1000,
        ),
        (
            "groups_failed",
            "Groups whose last write or sync failed.",
            lambda: len(pulse.looked.failed_groups),
        ),
        ("tail_bytes", "Memory for the newest records.", lambda: pulse.stored.tail_bytes),
        ("open_groups", "Groups whose files are open.", lambda: broker.offsets.store.open_groups),
    )
    version = Sample(1, (("version", __version__),))
    yield Family("barbicel_info", "The version of the server.", "gauge", lambda: (version,))
    for name, text, number in numbers:
        yield Family(f"barbicel_{name}", text, "gauge", partial(_only, number))
    yield Family("barbicel_disk_bytes", "Room on the disk of the data directory.", "gauge", space)
    yield Family("process_resident_memory_bytes", "Memory of the process.", "gauge", memory)


def _only(number: Callable[[], float]) -> Iterable[Sample]:
    return (Sample(number()),)


def _sync_families(disk: TimedDisk) -> Iterator[Family]:
    yield Family(
        "barbicel_fsync_seconds",
        "How long syncs of files took.",
        "histogram",
        disk.syncs.histogram.samples,
    )
    yield Family(
        "barbicel_fsync_failures_total",
        "Syncs that failed. A log with one takes no more writes.",
        "counter",
        lambda: (Sample(disk.syncs.failures),),
    )


# --- Kestrel's queues -----------------------------------------------------------------------------------


def _ahead_family(queues: Queues) -> Family:
    return Family(
        "barbicel_ahead_bytes",
        "Memory for what queues have read ahead, or got back.",
        "gauge",
        lambda: _only(lambda: queues.ahead.held_bytes),
    )


class _QueueSurvey:
    """Asks every queue once, however many metrics are made of it."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    async def collectors(self) -> Sequence[Collector]:
        queues = self._queues
        found = await in_turns(queues.reactor, ((name, queues.queue_stats(name)) for name in queues.names()))
        known = [(name, stats) for name, stats in found if isinstance(stats, QueueStats)]

        def of(field: str) -> Iterator[Sample]:
            return (Sample(getattr(stats, field), (("queue", name),)) for name, stats in known)

        return [Family(name, text, kind, partial(of, field)) for field, name, kind, text in QUEUE_METRICS]
