"""Messages of every API and version: round trips, and two other codecs that must agree.

test_malformed_messages.py has the bytes that are no message.
"""

from __future__ import annotations

import pytest
from kafka.protocol.api_message import ApiMessage

from barbicel.codecs.kafka.messages import (
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    decode_request,
    encode_request,
    encode_response,
    is_flexible,
)
from tests.codecs.kafka.random_messages import (
    KINDS,
    Case,
    kio_reads,
    kio_writes,
    plain,
    plain_like,
    random_message,
)

SEEDS = range(8)
PRODUCE = 0
every_kind = pytest.mark.parametrize("cases", KINDS.values(), ids=KINDS)


@every_kind
def test_a_message_comes_back_as_it_was(cases: list[Case]) -> None:
    for case in cases:
        for seed in SEEDS:
            body = case.encode(random_message(case, seed))
            decoded = case.decode(body)
            assert decoded.version == case.version
            assert case.encode(decoded) == body
            # librdkafka sends bytes behind a message.
            assert case.encode(case.decode(body + b"\0\1\xff")) == body
            # kafka-python's own decoder, which trusts the bytes; ApiVersionsResponse has another in front
            # of it, which may choose a version by itself.
            assert decoded == ApiMessage.decode.__func__(case.kind, body, version=case.version)


@every_kind
def test_kio_has_the_same_bytes_for_the_same_values(cases: list[Case]) -> None:
    for case in cases:
        # Kafka has had no schema for Produce 0 to 2 since 4.0, so kio has none.
        if case.api_key == PRODUCE and case.version < 3:
            continue
        for seed in SEEDS:
            body = case.encode(random_message(case, seed))
            theirs, size = kio_reads(case, body)
            assert size == len(body)
            assert plain_like(case.decode(body), theirs) == plain(theirs)
            assert kio_writes(case, theirs) == body


@every_kind
def test_the_schema_has_the_versions(cases: list[Case]) -> None:
    first, last = cases[0].kind.valid_versions
    assert cases[-1].version <= last
    # What Produce had before 3 is what it has in 3, without the newer fields.
    assert cases[0].version >= first or cases[0].api_key == PRODUCE


@pytest.mark.parametrize(
    ("api_key", "version", "expected"),
    [
        (18, 2, False),
        (18, 3, True),
        (18, 99, True),
        (3, 8, False),
        (3, 9, True),
        (47, 0, False),
        (3, -1, False),
    ],
)
def test_flexible_versions(api_key: int, version: int, expected: bool) -> None:
    assert is_flexible(api_key, version) is expected


@pytest.mark.parametrize(("api_key", "version"), [(3, 14), (3, -1), (2, 0), (99, 0), (22, 6)])
def test_what_kafka_does_not_have_is_the_callers_mistake(api_key: int, version: int) -> None:
    with pytest.raises(ValueError, match=r"there is no (API|version) "):
        decode_request(api_key, version, memoryview(b""))


def test_an_unknown_version_is_not_encoded() -> None:
    with pytest.raises(ValueError, match="there is no version 14 of MetadataResponse"):
        encode_response(MetadataResponse(topics=[]), 14)


def test_a_field_that_a_version_lacks_is_left_out() -> None:
    Topic = MetadataResponse.MetadataResponseTopic  # noqa: N806 - it is a class
    topic = Topic(error_code=0, name="t", is_internal=True, partitions=[])
    response = MetadataResponse(
        throttle_time_ms=7, brokers=[], cluster_id="c", controller_id=1, topics=[topic]
    )
    # brokers, topics; in the topic its error code, its name, and its partitions.
    assert encode_response(response, 0) == b"\0\0\0\0" + b"\0\0\0\1" + b"\0\0" + b"\0\1t" + b"\0\0\0\0"


def test_a_field_that_no_version_has_is_refused() -> None:
    with pytest.raises(ValueError, match="Unrecognized fields"):
        MetadataResponse(throtle_time_ms=7)


def test_a_known_tagged_field_is_read() -> None:
    fetch = FetchRequest(cluster_id="c", topics=[], forgotten_topics_data=[])
    assert decode_request(1, 12, memoryview(encode_request(fetch, 12))).cluster_id == "c"


def test_a_field_that_a_version_lacks_has_its_default_when_decoded() -> None:
    request = decode_request(3, 0, memoryview(encode_request(MetadataRequest(topics=[]), 0)))
    assert request.topics == []
    assert request.allow_auto_topic_creation is True
    commit = OffsetCommitRequest(group_id="g", member_id="", topics=[])
    assert decode_request(8, 2, memoryview(encode_request(commit, 2))).group_instance_id is None
