"""Produce in every version against kafka-python and kio, and requests that are not what they claim."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from barbicel.codecs.kafka.leaders import CurrentLeader, NodeEndpoint
from barbicel.codecs.kafka.produce import (
    ProducePartitionResult,
    ProduceRequest,
    ProduceTopic,
    ProduceTopicResult,
    RecordError,
    decode_produce_request,
    encode_produce_response,
)
from barbicel.codecs.kafka.wire import MalformedRequest, encode_uvarint
from tests.codecs.kafka.other_codecs import NO_ID, PRODUCE, Codec, KafkaPython, Kio, Message

VERSIONS = range(14)
# Kafka 4 has no schema for older ones, so kio has none.
KIO_VERSIONS = range(3, 14)
FLEXIBLE_VERSIONS = range(9, 14)
every_version = pytest.mark.parametrize("version", VERSIONS)
every_flexible_version = pytest.mark.parametrize("version", FLEXIBLE_VERSIONS)
every_version_and_codec = pytest.mark.parametrize(
    ("version", "codec"),
    [pytest.param(version, KafkaPython(), id=f"kafka-python-{version}") for version in VERSIONS]
    + [pytest.param(version, Kio(), id=f"kio-{version}") for version in KIO_VERSIONS],
)
few = settings(max_examples=10, deadline=None)

int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=8) | st.sampled_from(["events", "x" * 126, "x" * 127, "ü" * 64])
topic_ids = st.binary(min_size=16, max_size=16) | st.just(NO_ID)
records = st.binary(max_size=40) | st.sampled_from([b"r" * 126, b"r" * 127, b"r" * 16383])


# --- requests -------------------------------------------------------------------------------------------


@st.composite
def requests(draw: st.DrawFn, version: int) -> Message:
    partition = st.fixed_dictionaries({"index": int32s, "records": st.none() | records})
    key = {"topic_id": topic_ids} if version >= 13 else {"name": texts}
    topic = st.fixed_dictionaries({**key, "partition_data": st.lists(partition, max_size=4)})
    # kio keeps a time as a number of seconds, which not every integer survives.
    message: Message = {"acks": draw(int16s), "timeout_ms": draw(st.integers(0, 10**6))}
    message["topic_data"] = draw(st.lists(topic, max_size=3))
    if version >= 3:
        message["transactional_id"] = draw(st.none() | texts)
    return message


def expected(message: Message) -> ProduceRequest:
    return ProduceRequest(
        message.get("transactional_id"),
        message["acks"],
        message["timeout_ms"],
        [
            ProduceTopic(
                topic.get("name"),
                topic.get("topic_id"),
                [(partition["index"], partition["records"]) for partition in topic["partition_data"]],
            )
            for topic in message["topic_data"]
        ],
    )


@every_version_and_codec
def test_a_request_is_what_others_wrote(version: int, codec: Codec) -> None:
    @few
    @given(message=requests(version), behind=st.binary(max_size=3))
    def check(message: Message, behind: bytes) -> None:
        body = codec.write_request(PRODUCE, version, message)
        # A view equals the bytes it shows.
        assert decode_produce_request(version, memoryview(body + behind)) == expected(message)

    check()


def a_request(version: int, payload: bytes = b"records") -> bytes:
    topics: list[Message] = [
        {"partition_data": [{"index": 0, "records": payload}, {"index": 1, "records": None}]},
        {"partition_data": [{"index": 2, "records": b"more"}]},
    ]
    for number, topic in enumerate(topics):
        topic.update({"topic_id": bytes([number] * 16)} if version >= 13 else {"name": f"topic-{number}"})
    message: Message = {"acks": -1, "timeout_ms": 30_000, "topic_data": topics}
    if version >= 3:
        message["transactional_id"] = "transaction"
    return KafkaPython().write_request(PRODUCE, version, message)


@every_version
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16382, 16383, 16384, 2097150, 2097151, 2097152])
def test_records_are_views_of_the_frame(version: int, size: int) -> None:
    payload = b"r" * size
    frame = b"header" + a_request(version, payload)
    request = decode_produce_request(version, memoryview(frame)[6:])
    _, view = request.topics[0].partitions[0]
    assert view is not None
    assert view.obj is frame
    assert view == payload
    assert request.topics[1].partitions == [(2, memoryview(b"more"))]


@every_version
def test_decoding_allocates_no_records(version: int) -> None:
    body = memoryview(a_request(version, bytes(2**22)))
    tracemalloc.start()
    decode_produce_request(version, body)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 20_000


@every_version
def test_every_truncation_is_refused(version: int) -> None:
    body = a_request(version)
    decode_produce_request(version, memoryview(body))
    for size in range(len(body)):
        with pytest.raises(MalformedRequest) as caught:
            decode_produce_request(version, memoryview(body)[:size])
        assert caught.value.position is not None
        assert caught.value.position <= len(body)


@every_version
def test_a_damaged_request_is_read_or_refused(version: int) -> None:
    whole = a_request(version)

    @settings(max_examples=25, deadline=None)
    @given(at=st.integers(0, len(whole) - 1), damage=st.binary(min_size=1, max_size=6))
    def check(at: int, damage: bytes) -> None:
        body = whole[:at] + damage + whole[at + len(damage) :]
        try:
            request = decode_produce_request(version, memoryview(body))
        except MalformedRequest:
            return
        assert all(
            view is None or view.obj is body for topic in request.topics for _, view in topic.partitions
        )

    check()


@every_version
@settings(max_examples=15, deadline=None)
@given(body=st.binary(max_size=64))
def test_garbage_is_read_or_refused(version: int, body: bytes) -> None:
    try:
        decode_produce_request(version, memoryview(body))
    except MalformedRequest as refused:
        assert refused.position is not None


def head(version: int) -> bytes:
    """Everything in front of the count of topics."""
    null = b"" if version < 3 else b"\xff\xff" if version < 9 else b"\x00"
    return null + struct.pack(">hi", -1, 30_000)


def count_of(version: int, count: int) -> bytes:
    return encode_uvarint(count + 1) if version >= 9 else struct.pack(">i", count)


def one_topic(version: int) -> bytes:
    """The count of topics and all of a topic that stands in front of the count of its partitions."""
    key = bytes(16) if version >= 13 else b"\x02t" if version >= 9 else b"\x00\x01t"
    return count_of(version, 1) + key


def bombs(version: int) -> Iterator[tuple[str, bytes]]:
    many = count_of(version, 2**31 - 1)
    yield "topics", head(version) + many
    yield "partitions", head(version) + one_topic(version) + many
    partition = struct.pack(">i", 0) + count_of(version, 2**31 - 1)
    yield "records", head(version) + one_topic(version) + count_of(version, 1) + partition
    if version >= 9:
        partition = struct.pack(">i", 0) + b"\x00" + encode_uvarint(2**31 - 1)
        yield "tagged fields", head(version) + one_topic(version) + b"\x02" + partition


@every_version
def test_a_count_is_refused_before_anything_is_allocated(version: int) -> None:
    for what, start in bombs(version):
        for padding in (b"", bytes(64), b"\xff" * 1_000_000):
            body = memoryview(start + padding)
            tracemalloc.start()
            with pytest.raises(MalformedRequest) as refused:
                decode_produce_request(version, body)
            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak_bytes < 20_000, what
            assert what == "records" or what in refused.value.message


@every_version
def test_one_element_more_than_fits_is_refused(version: int) -> None:
    empty_name = bytes(16) if version >= 13 else b"\x01" if version >= 9 else b"\x00\x00"
    topic = empty_name + count_of(version, 0) + (b"\x00" if version >= 9 else b"")
    for count in (1, 2, 100):
        behind = count * topic + (b"\x00" if version >= 9 else b"")
        fits = memoryview(head(version) + count_of(version, count) + behind)
        assert len(decode_produce_request(version, fits).topics) == count
        too_many = memoryview(head(version) + count_of(version, count + 1) + behind)
        with pytest.raises(MalformedRequest, match=f"{count + 1} topics declared in the {len(behind)} bytes"):
            decode_produce_request(version, too_many)


@every_version
def test_one_partition_more_than_fits_is_refused(version: int) -> None:
    null_records = bytes(4) + (b"\x00\x00" if version >= 9 else b"\xff" * 4)
    behind = 100 * null_records + (b"\x00\x00" if version >= 9 else b"")
    start = head(version) + one_topic(version)
    fits = memoryview(start + count_of(version, 100) + behind)
    assert decode_produce_request(version, fits).topics[0].partitions == [(0, None)] * 100
    with pytest.raises(MalformedRequest, match=f"101 partitions declared in the {len(behind)} bytes"):
        decode_produce_request(version, memoryview(start + count_of(version, 101) + behind))


@every_version
def test_what_may_not_be_null_is_refused(version: int) -> None:
    null_array = count_of(version, -1)
    with pytest.raises(MalformedRequest, match="-1 topics declared"):
        decode_produce_request(version, memoryview(head(version) + null_array + bytes(40)))
    with pytest.raises(MalformedRequest, match="-1 partitions declared"):
        decode_produce_request(
            version, memoryview(head(version) + one_topic(version) + null_array + bytes(40))
        )
    if version < 13:
        null_name = b"\x00" if version >= 9 else b"\xff\xff"
        body = head(version) + count_of(version, 1) + null_name + bytes(40)
        with pytest.raises(MalformedRequest, match="a topic's name is null"):
            decode_produce_request(version, memoryview(body))


@pytest.mark.parametrize("version", range(9))
@pytest.mark.parametrize("length", [-2, -9, -(2**31)])
def test_a_negative_length_of_records_is_refused(version: int, length: int) -> None:
    partition = count_of(version, 1) + struct.pack(">ii", 0, length)
    with pytest.raises(MalformedRequest, match=f"records have {length} bytes"):
        decode_produce_request(
            version, memoryview(head(version) + one_topic(version) + partition + bytes(40))
        )


@every_flexible_version
def test_unknown_tagged_fields_are_skipped(version: int) -> None:
    tags = b"\x02" + b"\x63\x03abc" + encode_uvarint(70_000) + encode_uvarint(200) + bytes(200)
    partition = struct.pack(">i", 7) + b"\x03rr" + tags
    body = head(version) + one_topic(version) + b"\x03" + partition + partition + tags + tags
    (topic,) = decode_produce_request(version, memoryview(body)).topics
    assert topic.partitions == [(7, memoryview(b"rr"))] * 2
    with pytest.raises(MalformedRequest):
        decode_produce_request(version, memoryview(body)[:-1])


def test_a_name_that_is_no_text_is_no_legal_name() -> None:
    body = head(7) + b"\x00\x00\x00\x01" + b"\x00\x02\xff\xfe" + bytes(4)
    assert decode_produce_request(7, memoryview(body)).topics[0].name == "\ufffd\ufffd"


# --- responses ------------------------------------------------------------------------------------------

error_codes = st.sampled_from([int(code) for code in ErrorCode])
leaders = st.none() | st.builds(CurrentLeader, st.integers(0, 99), int32s)
results = st.builds(
    ProducePartitionResult,
    int32s,
    error_codes,
    int64s,
    st.integers(-1, 4 * 10**12),
    int64s,
    st.none() | texts,
    st.lists(st.builds(RecordError, int32s, st.none() | texts), max_size=3),
    leaders,
)
topic_results = st.builds(ProduceTopicResult, texts, topic_ids, st.lists(results, max_size=4))
endpoints = st.lists(st.builds(NodeEndpoint, int32s, texts, int32s, st.none() | texts), max_size=2)


def answered(
    version: int, topics: list[ProduceTopicResult], throttle_time_ms: int, nodes: list[NodeEndpoint]
) -> Message:
    message: Message = {"responses": [answered_topic(version, topic) for topic in topics]}
    if version >= 1:
        message["throttle_time_ms"] = throttle_time_ms
    if version >= 10:
        message["node_endpoints"] = [node._asdict() for node in nodes]
    return message


def answered_topic(version: int, topic: ProduceTopicResult) -> Message:
    key: Message = {"topic_id": topic.topic_id} if version >= 13 else {"name": topic.name}
    return {
        **key,
        "partition_responses": [answered_partition(version, result) for result in topic.partitions],
    }


def answered_partition(version: int, result: ProducePartitionResult) -> Message:
    since: list[tuple[int, str, Any]] = [
        (0, "index", result.partition),
        (0, "error_code", result.error_code),
        (0, "base_offset", result.base_offset),
        (2, "log_append_time_ms", result.log_append_time_ms),
        (5, "log_start_offset", result.log_start_offset),
        (8, "error_message", result.error_message),
        (8, "record_errors", [error_of(error) for error in result.record_errors]),
    ]
    if result.current_leader is not None:
        since.append((10, "current_leader", result.current_leader._asdict()))
    return {name: value for first, name, value in since if version >= first}


def error_of(error: RecordError) -> Message:
    return {"batch_index": error.batch_index, "batch_index_error_message": error.message}


@every_version_and_codec
def test_others_read_what_was_answered(version: int, codec: Codec) -> None:
    @few
    @given(topics=st.lists(topic_results, max_size=3), throttle_ms=st.integers(0, 10**6), nodes=endpoints)
    def check(topics: list[ProduceTopicResult], throttle_ms: int, nodes: list[NodeEndpoint]) -> None:
        body = encode_produce_response(version, topics, throttle_ms, nodes)
        assert codec.read_response(PRODUCE, version, body) == answered(version, topics, throttle_ms, nodes)

    check()


@every_version_and_codec
def test_others_read_that_one_partition_has_stored_what_came(version: int, codec: Codec) -> None:
    """The usual answer, which is put together in another way: of the same topic again, and of another."""
    for name, topic_id, numbers in (("events", NO_ID, (7, 8)), ("b" * 249, b"\7" * 16, (0,))):
        for number in numbers:
            stored = ProducePartitionResult(number, 0, number + (1 << 40), -1, number)
            topics = [ProduceTopicResult(name, topic_id, [stored])]
            for throttle_ms in (0, 5):
                body = encode_produce_response(version, topics, throttle_ms)
                assert codec.read_response(PRODUCE, version, body) == answered(
                    version, topics, throttle_ms, []
                )


def test_an_answer_needs_what_its_version_calls_the_topic() -> None:
    with pytest.raises(ValueError, match="a topic without a name"):
        encode_produce_response(12, [ProduceTopicResult(None, NO_ID, [])])
    for topic_id in (None, b"short"):
        with pytest.raises(ValueError, match="is no topic id"):
            encode_produce_response(13, [ProduceTopicResult("events", topic_id, [])])
