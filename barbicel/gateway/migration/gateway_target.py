"""A running gateway as the target, by its own protocols.

Lines come to be by a Kestrel `peek`, so that the gateway makes topics and groups by its own settings. Batches
go by Kafka's protocol, one request at a time, and records are read back by a consumer that is in no group.
All of these connections are made with the same client settings.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import TopicAlreadyExistsError

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.gateway.client.connecting import address_text
from barbicel.gateway.client.kestrel_queues import KestrelServer
from barbicel.gateway.client.settings import login_mechanism
from barbicel.gateway.migration.gateway_queue import GatewayQueue, error_name, refusing
from barbicel.gateway.migration.kafka_appends import NO_SETTINGS, KafkaAppends
from barbicel.gateway.migration.kestrel_lines import KestrelLines
from barbicel.gateway.migration.patience import Patient
from barbicel.gateway.migration.target import (
    LEDGER_SETTINGS,
    LEDGER_TOPIC,
    Completed,
    Keeping,
    Target,
    TargetRefused,
    check_keeping,
    parse_completed,
    render_completed,
)
from barbicel.kestrel_compat.names import QueueName, topic_of

__all__ = ["GatewayTarget"]

LEDGER_DEADLINE_S = 10.0
LEDGER_PAUSE_S = 0.05

CONSUMER = {
    "enable_auto_commit": False,
    "auto_offset_reset": "none",
    "allow_auto_create_topics": False,
    "fetch_max_bytes": 16 << 20,
    "max_partition_fetch_bytes": 8 << 20,
    # It waits so long before each topic that it has not seen before, and there may be thousands.
    "retry_backoff_ms": 10,
}


def _check_one_server(lines: KestrelLines, cluster_id: str | None, kestrel: str, bootstrap: str) -> None:
    """Before anything is made: a line made in another server would be missing in the one with the records."""
    if cluster_id is None or lines.cluster_id() != cluster_id:
        raise TargetRefused(
            f"the Kestrel port is of another server than the Kafka port {bootstrap}",
            path=kestrel,
            hint="--kestrel says where the gateway's own is",
        )


class GatewayTarget(Target):
    """Use `open`. One thread only."""

    def __init__(self, kestrel: KestrelLines, appends: KafkaAppends, admin: Any, consumer: Any) -> None:
        self.kestrel = kestrel
        self.appends = appends
        self.admin = admin
        self.consumer = consumer
        self._request_limit_bytes: int | None = None

    @classmethod
    def open(
        cls, kafka: tuple[str, int], kestrel: tuple[str, int], settings: Mapping[str, Any] = NO_SETTINGS
    ) -> GatewayTarget:
        """Raises TargetRefused if nobody answers, does not let this client in, or the two are not one server;
        BadClientConfig."""
        login_mechanism(settings)
        bootstrap = address_text(*kafka)
        with ExitStack() as opened, refusing(f"Kafka at {bootstrap}"):
            lines = opened.enter_context(KestrelLines(KestrelServer(*kestrel, settings)))
            # Before kafka-python, which tries again and again, and does not say why it was refused.
            appends = opened.enter_context(KafkaAppends(kafka, settings))
            _check_one_server(lines, appends.greet(), address_text(*kestrel), bootstrap)
            admin = KafkaAdminClient(bootstrap_servers=bootstrap, **settings)
            opened.callback(admin.close)
            consumer = KafkaConsumer(bootstrap_servers=bootstrap, **CONSUMER, **settings)
            opened.pop_all()
        return cls(lines, appends, Patient(admin), Patient(consumer))

    def close(self) -> None:
        self.kestrel.close()
        self.appends.close()
        self.consumer.close(autocommit=False)
        self.admin.close()

    # --- queues -------------------------------------------------------------------------------------

    def find(self, topic: str) -> GatewayQueue | None:
        with refusing(topic):
            return GatewayQueue(self, topic) if self._describe(topic) else None

    def topic_id(self, topic: str) -> str | None:
        with refusing(topic):
            found = self._describe(topic)
        return None if found is None else str(found["topic_id"])

    def _describe(self, topic: str) -> dict[str, Any] | None:
        described = self.admin.describe_topics([topic])
        error_code = described[0].get("error_code") if described else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        if error_code:
            # Whoever took that for no topic would import again what the ledger has.
            raise TargetRefused(f"topic {topic!r} cannot be looked at: {error_name(error_code)}")
        found: dict[str, Any] = described[0]
        return found

    def request_limit_bytes(self) -> int:
        """What the gateway takes at once; it closes the connection of whoever sends more."""
        if self._request_limit_bytes is None:
            name = "socket.request.max.bytes"
            broker = str(self.admin.describe_cluster()["brokers"][0]["broker_id"])
            (value,) = self._settings(ConfigResourceType.BROKER, broker, [name])
            self._request_limit_bytes = int(value)
        return self._request_limit_bytes

    def _settings(self, kind: ConfigResourceType, name: str, wanted: Sequence[str]) -> list[str]:
        """kafka-python passes over a refusal, and answers with none."""
        resource = ConfigResource(kind, name, dict.fromkeys(wanted))
        described = self.admin.describe_configs([resource], config_filter="all")
        what = kind.name.lower()
        found = described.get(what, {}).get(name, {})
        if any(one not in found for one in wanted):
            needed = "cluster" if kind is ConfigResourceType.BROKER else what
            raise TargetRefused(
                f"the settings of {what} {name!r} cannot be looked at",
                hint=f"where there are ACLs that needs DESCRIBE_CONFIGS on the {needed}",
            )
        return [str(found[one]["value"]) for one in wanted]

    def make(self, names: Sequence[QueueName]) -> GatewayQueue:
        with refusing(names[0].master):
            for name in names:
                self.kestrel.begin(name.text)
            topic = topic_of(names[0].master)
            check_keeping(topic, self._keeping(topic))
            return GatewayQueue(self, topic)

    def _keeping(self, topic: str) -> Keeping:
        wanted = ("retention.ms", "retention.bytes", "message.timestamp.type")
        return Keeping(*self._settings(ConfigResourceType.TOPIC, topic, wanted))

    # --- the ledger ---------------------------------------------------------------------------------

    def completed(self) -> list[Completed]:
        ledger = self.find(LEDGER_TOPIC)
        if ledger is None:
            return []
        with ledger:
            found = [parse_completed(item.data) for item in ledger.scan(0)]
        return [entry for entry in found if entry is not None]

    def prepare_ledger(self) -> None:
        """On return there is one. Whoever lets many import at once does this before: of those who found none
        at the same moment, one has been told that the topic is unknown when it wrote its entry."""
        with refusing(LEDGER_TOPIC):
            if self._describe(LEDGER_TOPIC) is None:
                self._make_ledger()

    def note_completed(self, entry: Completed) -> None:
        self.prepare_ledger()
        with refusing(LEDGER_TOPIC):
            record = NewRecord(entry.completed_ms, entry.topic.encode(), render_completed(entry))
            with GatewayQueue(self, LEDGER_TOPIC) as ledger:
                ledger.append([record])

    def _make_ledger(self) -> None:
        topic = NewTopic(LEDGER_TOPIC, num_partitions=1, replication_factor=1, topic_configs=LEDGER_SETTINGS)
        try:
            self.admin.create_topics([topic])
        except TopicAlreadyExistsError:
            self._await_ledger()

    def _await_ledger(self) -> None:
        """Somebody else is making it, and until that is done nobody can write to it."""
        deadline = time.monotonic() + LEDGER_DEADLINE_S
        while self._describe(LEDGER_TOPIC) is None and time.monotonic() < deadline:
            time.sleep(LEDGER_PAUSE_S)
