"""The comparison sees what differs, and a row explains no more than it says."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from barbicel.codecs.kafka.messages import FetchResponse, MetadataResponse
from tests.differential.asking import batch
from tests.differential.comparison import ABSENT, Difference, compare
from tests.differential.differences import DIFFERENCES, Justified
from tests.differential.talk import CLOSED, Said

Broker, Topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic


def metadata(**fields: Any) -> Said:
    given = {"brokers": [], "topics": [], "cluster_id": "c", "controller_id": 1, "throttle_time_ms": 0}
    return Said("asked", "Metadata", 12, MetadataResponse(**{**given, **fields}))


def topic(name: str, number: int, error_code: int = 0) -> Any:
    return Topic(
        name=name, topic_id=UUID(int=number), error_code=error_code, is_internal=False, partitions=[]
    )


def found(kafka: Said, ours: Said) -> list[tuple[str, Any, Any]]:
    return [difference[4:] for difference in compare("talk", [kafka], [ours])]


def test_what_no_two_servers_share_is_not_compared() -> None:
    kafka = metadata(
        cluster_id="x", brokers=[Broker(node_id=1, host="a", port=1, rack=None)], throttle_time_ms=9
    )
    ours = metadata(cluster_id="y", brokers=[Broker(node_id=1, host="b", port=2, rack=None)])
    assert found(kafka, ours) == []


def test_ids_are_known_by_their_order_and_rows_by_their_name() -> None:
    kafka = metadata(topics=[topic("a", 70), topic("b", 71)])
    assert found(kafka, metadata(topics=[topic("a", 5), topic("b", 6)])) == []
    assert found(kafka, metadata(topics=[topic("a", 5), topic("b", 5)])) != []


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (metadata(controller_id=2), ("controller_id", 1, 2)),
        (metadata(brokers=[Broker(node_id=7, host="h", port=1, rack=None)]), ("brokers[0]", ABSENT)),
        (metadata(topics=[topic("a", 1, error_code=3)]), ("topics.a topic id 1", ABSENT)),
        (Said("asked", "Metadata", 12, CLOSED), ("",)),
    ],
)
def test_a_field_that_differs_is_named(ours: Said, expected: tuple[Any, ...]) -> None:
    [difference] = found(metadata(), ours)
    assert difference[: len(expected)] == expected


def test_records_are_compared_by_their_batches() -> None:
    def fetched(records: bytes) -> Said:
        row = FetchResponse.FetchableTopicResponse
        partition = row.PartitionData(partition_index=0, records=records, aborted_transactions=None)
        return Said("asked", "Fetch", 11, FetchResponse(responses=[row(topic="t", partitions=[partition])]))

    whole = batch(2)
    assert found(fetched(whole), fetched(whole)) == []
    assert found(fetched(whole + b"\0" * 10), fetched(whole)) == [
        ("responses.t.partitions.0.records.cut_bytes", 10, 0)
    ]
    changed = {path.rpartition(".")[2] for path, _, _ in found(fetched(whole), fetched(batch(2, size=6)))}
    assert changed == {"batch_length", "crc", "records"}


def test_conversations_of_different_lengths_are_not_compared() -> None:
    with pytest.raises(AssertionError, match="went apart"):
        compare("talk", [metadata()], [])


ROW = Justified("Metadata", "what", "why", r"topics\..*", "talk / asked.*", kafka=1, ours=2)
SEEN = Difference("talk", "asked twice", "Metadata", 12, "topics.a", 1, 2)


def test_a_row_explains_what_it_says_and_no_more() -> None:
    assert ROW.explains(SEEN)
    for change in (
        {"api": "Fetch"},
        {"path": "brokers"},
        {"label": "told"},
        {"kafka": 2},
        {"ours": 1},
    ):
        assert not ROW.explains(SEEN._replace(**change))


def test_every_row_says_what_and_why() -> None:
    names = [(row.api, row.what) for row in DIFFERENCES]
    assert len(set(names)) == len(names)
    assert all(row.what and row.why.endswith(".") for row in DIFFERENCES)
