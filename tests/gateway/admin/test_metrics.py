"""Metrics: the text as Prometheus reads it, and numbers that are those that Kafka's tools see."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from barbicel.gateway.admin.exchange import Answer, Asked
from barbicel.gateway.admin.histogram import Histogram
from barbicel.gateway.admin.metrics import Collector, Family, Registry, Sample, render
from barbicel.gateway.admin.metrics_page import MetricsPage
from tests.gateway.admin.http import Operator, poll
from tests.gateway.admin.kafka_clients import commit, consume, create_topic, produce
from tests.support.gateway import Gateway

HOSTILE = 'a"b\\c\nd{}=,é'


def parsed(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by its name and labels, as Prometheus' own parser reads them."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value_of(text: str, metric: str, **labels: str) -> float | None:
    return parsed(text).get((metric, frozenset(labels.items())))


# --- the text -------------------------------------------------------------------------------------------


def test_values_of_labels_may_be_anything() -> None:
    family = Family("a_metric", HOSTILE, "gauge", lambda: [Sample(1.5, (("name", HOSTILE), ("x", "")))])
    text = "".join(render([family]))
    assert value_of(text, "a_metric", name=HOSTILE, x="") == 1.5
    assert [found.documentation for found in text_string_to_metric_families(text)] == [HOSTILE]


@pytest.mark.parametrize("value", [0, -3, 2**62, 0.1, 1e300, float("inf"), float("-inf")])
def test_numbers_come_back_as_they_were(value: float) -> None:
    text = "".join(render([Family("a_metric", "x", "gauge", lambda: [Sample(value)])]))
    assert value_of(text, "a_metric") == value


def test_a_histogram_counts_each_in_its_bucket_and_those_above() -> None:
    histogram = Histogram((0.001, 0.01))
    assert histogram.quantile_s(0.5) is None
    for seconds in (0.0005, 0.001, 0.005, 3.0):
        histogram.note(seconds)
    text = "".join(render([Family("sync_seconds", "x", "histogram", histogram.samples)]))
    found = [value_of(text, "sync_seconds_bucket", le=bound) for bound in ("0.001", "0.01", "+Inf")]
    assert found == [2, 3, 4]
    assert value_of(text, "sync_seconds_count") == 4
    assert value_of(text, "sync_seconds_sum") == pytest.approx(3.0065)
    assert histogram.quantile_s(0.5) == 0.001
    assert histogram.quantile_s(0.7) == 0.01
    assert histogram.quantile_s(1.0) == 0.01


# --- the registry ---------------------------------------------------------------------------------------


class OwnCollector:
    """As another part of the server may have one."""

    name = "manifest_chunks_active"
    help = "Chunks."
    type: Any = "gauge"

    def samples(self) -> Iterable[Sample]:
        return [Sample(7)]


def test_a_name_is_taken_once() -> None:
    registry = Registry()
    registry.add(OwnCollector())
    with pytest.raises(ValueError, match="manifest_chunks_active"):
        registry.add(OwnCollector())


def test_scrapes_at_the_same_time_are_one() -> None:
    clock: Any = Clock()
    registry, asked, answered = Registry(), [], []
    waiting: Deferred[list[Collector]] = Deferred()

    async def survey() -> list[Collector]:
        asked.append(1)
        return await waiting

    registry.add_survey(survey)
    page = MetricsPage(registry, clock)
    answers: list[Deferred[Answer]] = [
        Deferred.fromCoroutine(page.show(Asked("GET", "/metrics"))) for _ in range(3)
    ]
    for answer in answers:
        answer.addCallback(lambda found: answered.append(found.body))
    waiting.callback([OwnCollector()])
    assert len(asked) == 1
    assert len(answered) == 3
    assert b"manifest_chunks_active 7\n" in answered[0]


def test_a_survey_that_fails_fails_the_scrape_and_not_the_next_one() -> None:
    clock: Any = Clock()
    registry = Registry()
    outcomes: list[Any] = [ZeroDivisionError(), [OwnCollector()]]

    async def survey() -> list[Collector]:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        found: list[Collector] = outcome
        return found

    registry.add_survey(survey)
    page = MetricsPage(registry, clock)
    failures: list[Any] = []
    Deferred.fromCoroutine(page.show(Asked("GET", "/metrics"))).addErrback(failures.append)
    assert failures[0].check(ZeroDivisionError)
    answers: list[Answer] = []
    Deferred.fromCoroutine(page.show(Asked("GET", "/metrics"))).addCallback(answers.append)
    assert answers[0].status == 200


# --- a real server --------------------------------------------------------------------------------------


def lag_seen_by_kafka(gateway: Gateway, group: str) -> dict[tuple[str, int], int]:
    """As Kafka's tools calculate it: the latest offsets less the committed ones."""
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    asked = ConsumerGroupTopicPartitions(group)
    committed = admin.list_consumer_group_offsets([asked])[group].result(30).topic_partitions
    latest_of: Any = OffsetSpec.latest  # it has no types
    ends = admin.list_offsets({Place(one.topic, one.partition): latest_of() for one in committed})
    latest = {(place.topic, place.partition): found.result(30).offset for place, found in ends.items()}
    return {(one.topic, one.partition): latest[one.topic, one.partition] - one.offset for one in committed}


def test_the_lag_is_the_one_that_kafkas_admin_client_sees(gateway: Gateway, operator: Operator) -> None:
    create_topic(gateway, "lagging", 3)
    for partition, count in ((0, 10), (1, 25), (2, 3)):
        produce(gateway, "lagging", *[b"x"] * count, partition=partition)
    commit(gateway, "behind", ("lagging", 0, 4), ("lagging", 1, 25))
    expected = lag_seen_by_kafka(gateway, "behind")
    assert expected == {("lagging", 0): 6, ("lagging", 1): 0}
    text = operator.get("/metrics").text
    told = partial(value_of, text, consumergroup="behind", topic="lagging")
    for (_, partition), lag in expected.items():
        assert told(metric="kafka_consumergroup_lag", partition=str(partition)) == lag
    assert told(metric="kafka_consumergroup_current_offset", partition="1") == 25
    assert told(metric="kafka_consumergroup_lag", partition="2") is None
    assert value_of(text, "kafka_consumergroup_members", consumergroup="behind") == 0
    row = operator.look("/api/groups/behind")
    assert {(one["topic"], one["partition"]): one["lag"] for one in row["positions"]} == expected
    assert row["lag"] == sum(expected.values())


def test_topics_are_told_under_kafkas_names(gateway: Gateway, operator: Operator) -> None:
    create_topic(gateway, "told", 2)
    produce(gateway, "told", *[b"value"] * 12, partition=1)
    consume(gateway, "told", 1, 0, 12)
    text = operator.get("/metrics").text
    told = partial(value_of, text, topic="told")
    assert value_of(text, "kafka_brokers") == 1
    assert told(metric="kafka_topic_partitions") == 2
    assert told(metric="kafka_topic_partition_current_offset", partition="1") == 12
    assert told(metric="kafka_topic_partition_oldest_offset", partition="1") == 0
    assert told(metric="kafka_server_brokertopicmetrics_messagesin_total") == 12
    bytes_in = told(metric="kafka_server_brokertopicmetrics_bytesin_total")
    bytes_out = told(metric="kafka_server_brokertopicmetrics_bytesout_total")
    assert bytes_in is not None
    assert bytes_out is not None
    assert bytes_out >= bytes_in > 12 * len("value")


def test_syncs_and_the_event_loop_are_told(gateway: Gateway, operator: Operator) -> None:
    def count() -> float:
        return value_of(operator.get("/metrics").text, "barbicel_fsync_seconds_count") or 0

    before = count()
    produce(gateway, "synced", b"x")
    assert count() > before
    text = operator.get("/metrics").text
    assert value_of(text, "barbicel_ready") == 1
    assert value_of(text, "barbicel_fsync_failures_total") == 0
    assert value_of(text, "barbicel_log_damages") == 0
    lag_s = value_of(text, "barbicel_reactor_lag_seconds")
    assert lag_s is not None
    assert 0 <= lag_s < 30
    assert poll(lambda: value_of(operator.get("/metrics").text, "process_resident_memory_bytes"))


# What the facts of operation ask for, beside what every server of ours has: a dashboard may rely on these.
PROMISED = (
    "kafka_brokers",
    "kafka_topic_partitions",
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_oldest_offset",
    "kafka_consumergroup_current_offset",
    "kafka_consumergroup_lag",
    "kafka_consumergroup_members",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "barbicel_fsync_seconds_count",
    "barbicel_unsynced_bytes",
    "barbicel_recovery_seconds",
    "barbicel_recovery_remaining",
    "barbicel_group_delta_bytes",
    "barbicel_crc_failures_total",
    "barbicel_reactor_lag_seconds",
)


def test_every_promised_metric_has_a_value(gateway: Gateway, operator: Operator) -> None:
    create_topic(gateway, "promised", 1)
    produce(gateway, "promised", b"x")
    commit(gateway, "promised", ("promised", 0, 1))
    told = {name for name, _ in parsed(operator.get("/metrics").text)}
    assert [name for name in PROMISED if name not in told] == []


def test_a_groups_delta_grows_with_its_commits(gateway: Gateway, operator: Operator) -> None:
    create_topic(gateway, "deltas", 1)
    produce(gateway, "deltas", b"x")

    def delta_bytes() -> float:
        return value_of(operator.get("/metrics").text, "barbicel_group_delta_bytes", of="all") or 0

    before = delta_bytes()
    for _ in range(20):
        commit(gateway, "deltas", ("deltas", 0, 1))
    assert poll(lambda: delta_bytes() > before)
