"""Fetch in every version against kafka-python and kio, and requests that are not what they claim."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from barbicel.codecs.kafka.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchTopic,
    FetchTopicResult,
    ForgottenTopic,
    SnapshotId,
    decode_fetch_request,
    encode_fetch_response,
)
from barbicel.codecs.kafka.leaders import CurrentLeader, NodeEndpoint
from barbicel.codecs.kafka.wire import MalformedRequest, encode_uvarint
from tests.codecs.kafka.other_codecs import FETCH, NO_ID, Codec, KafkaPython, Kio, Message

VERSIONS = range(4, 19)
FLEXIBLE_VERSIONS = range(12, 19)
every_version = pytest.mark.parametrize("version", VERSIONS)
every_flexible_version = pytest.mark.parametrize("version", FLEXIBLE_VERSIONS)
every_version_and_codec = pytest.mark.parametrize(
    ("version", "codec"),
    [pytest.param(version, KafkaPython(), id=f"kafka-python-{version}") for version in VERSIONS]
    + [pytest.param(version, Kio(), id=f"kio-{version}") for version in VERSIONS],
)
few = settings(max_examples=10, deadline=None)

int8s = st.integers(-128, 127)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
# kio keeps a time as a number of seconds, which not every integer survives.
times_ms = st.integers(0, 10**6)
texts = st.text(max_size=8) | st.sampled_from(["events", "x" * 126, "x" * 127, "ü" * 64])
topic_ids = st.binary(min_size=16, max_size=16) | st.just(NO_ID)


# --- requests -------------------------------------------------------------------------------------------


def in_version(version: int, *fields: tuple[int, str, st.SearchStrategy[Any]]) -> dict[str, Any]:
    return {name: values for since, name, values in fields if version >= since}


def topic_keys(version: int) -> dict[str, st.SearchStrategy[Any]]:
    return {"topic_id": topic_ids} if version >= 13 else {"topic": texts}


def requests(version: int) -> st.SearchStrategy[Message]:
    partition = in_version(
        version,
        (4, "partition", int32s),
        (9, "current_leader_epoch", int32s),
        (4, "fetch_offset", int64s),
        (12, "last_fetched_epoch", int32s),
        (5, "log_start_offset", int64s),
        (4, "partition_max_bytes", int32s),
    )
    only_replicas_send = in_version(
        version, (17, "replica_directory_id", topic_ids), (18, "high_watermark", int64s)
    )
    partitions = st.lists(st.fixed_dictionaries(partition, optional=only_replicas_send), max_size=4)
    forgotten = {**topic_keys(version), "partitions": st.lists(int32s, max_size=4)}
    topic = {**topic_keys(version), "partitions": partitions}
    state = st.fixed_dictionaries({"replica_id": int32s, "replica_epoch": int64s})
    fields = in_version(
        version,
        (4, "max_wait_ms", times_ms),
        (4, "min_bytes", int32s),
        (4, "max_bytes", int32s),
        (4, "isolation_level", int8s),
        (7, "session_id", int32s),
        (7, "session_epoch", int32s),
        (4, "topics", st.lists(st.fixed_dictionaries(topic), max_size=3)),
        (7, "forgotten_topics_data", st.lists(st.fixed_dictionaries(forgotten), max_size=3)),
        (11, "rack_id", texts),
    )
    if version < 15:
        fields["replica_id"] = int32s
    tagged = in_version(version, (12, "cluster_id", texts), (15, "replica_state", state))
    return st.fixed_dictionaries(fields, optional=tagged)


def expected(message: Message) -> FetchRequest:
    return FetchRequest(
        message.get("replica_id", message.get("replica_state", {}).get("replica_id", -1)),
        message["max_wait_ms"],
        message["min_bytes"],
        message["max_bytes"],
        message["isolation_level"],
        message.get("session_id", 0),
        message.get("session_epoch", -1),
        [
            FetchTopic(topic.get("topic"), topic.get("topic_id"), [wanted(p) for p in topic["partitions"]])
            for topic in message["topics"]
        ],
        [
            ForgottenTopic(topic.get("topic"), topic.get("topic_id"), topic["partitions"])
            for topic in message.get("forgotten_topics_data", [])
        ],
        message.get("rack_id", ""),
    )


def wanted(partition: Message) -> FetchPartition:
    return FetchPartition(*(partition.get(name, -1) for name in FetchPartition._fields))


@every_version_and_codec
def test_a_request_is_what_others_wrote(version: int, codec: Codec) -> None:
    @few
    @given(message=requests(version), behind=st.binary(max_size=3))
    def check(message: Message, behind: bytes) -> None:
        body = codec.write_request(FETCH, version, message)
        assert decode_fetch_request(version, memoryview(body + behind)) == expected(message)

    check()


def a_request(version: int, count: int = 2) -> bytes:
    def topic(number: int, partitions: list[Any]) -> Message:
        key: Message = {"topic_id": bytes([number] * 16)} if version >= 13 else {"topic": f"topic-{number}"}
        return {**key, "partitions": partitions}

    partition: Message = {"partition": 1, "fetch_offset": 2**40, "partition_max_bytes": 2**20}
    from_replica: Message = {"replica_directory_id": b"directory-number"} if version >= 17 else {}
    message: Message = {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 2**25,
        "isolation_level": 1,
        "topics": [topic(1, [partition] * count), topic(2, [{**partition, **from_replica}])],
    }
    if version >= 7:
        message["forgotten_topics_data"] = [topic(3, [7, 8])]
    if version >= 11:
        message["rack_id"] = "rack"
    if version >= 15:
        message["replica_state"] = {"replica_id": 3, "replica_epoch": 4}
    return KafkaPython().write_request(FETCH, version, message)


@every_version
def test_every_truncation_is_refused(version: int) -> None:
    body = a_request(version)
    decode_fetch_request(version, memoryview(body))
    for size in range(len(body)):
        with pytest.raises(MalformedRequest) as caught:
            decode_fetch_request(version, memoryview(body)[:size])
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
            request = decode_fetch_request(version, memoryview(body))
        except MalformedRequest as refused:
            assert refused.position is not None
        else:
            assert len(request.topics) <= len(body)

    check()


@every_version
@settings(max_examples=15, deadline=None)
@given(body=st.binary(max_size=64))
def test_garbage_is_read_or_refused(version: int, body: bytes) -> None:
    try:
        decode_fetch_request(version, memoryview(body))
    except MalformedRequest as refused:
        assert refused.position is not None


def head(version: int) -> bytes:
    """Everything in front of the count of topics."""
    return bytes(4 * (version < 15)) + bytes(13) + bytes(8 * (version >= 7))


def count_of(version: int, count: int) -> bytes:
    return encode_uvarint(count + 1) if version >= 12 else struct.pack(">i", count)


def one_topic(version: int) -> bytes:
    """The count of topics and all of a topic that stands in front of the count of its partitions."""
    key = bytes(16) if version >= 13 else b"\x02t" if version >= 12 else b"\x00\x01t"
    return count_of(version, 1) + key


def bombs(version: int) -> Iterator[tuple[str, bytes]]:
    many = count_of(version, 2**31 - 1)
    none = count_of(version, 0)
    yield "topics", head(version) + many
    yield "partitions", head(version) + one_topic(version) + many
    if version >= 7:
        yield "topics", head(version) + none + many
        yield "forgotten partitions", head(version) + none + one_topic(version) + many
    if version >= 12:
        rack_id = b"\x01"
        yield "tagged fields", head(version) + none + none + rack_id + encode_uvarint(2**31 - 1)
        partition = bytes(32) + encode_uvarint(2**31 - 1)
        yield "tagged fields", head(version) + one_topic(version) + b"\x02" + partition


@every_version
def test_a_count_is_refused_before_anything_is_allocated(version: int) -> None:
    for what, start in bombs(version):
        for padding in (b"", bytes(64), b"\xff" * 1_000_000):
            body = memoryview(start + padding)
            tracemalloc.start()
            with pytest.raises(MalformedRequest, match=f"{what} declared"):
                decode_fetch_request(version, body)
            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak_bytes < 20_000


@every_version
def test_one_element_more_than_fits_is_refused(version: int) -> None:
    empty_name = bytes(16) if version >= 13 else b"\x01" if version >= 12 else b"\x00\x00"
    no_tags = b"\x00" if version >= 12 else b""
    topic = empty_name + count_of(version, 0) + no_tags
    # Behind the topics: nothing forgotten, no rack, no tagged fields.
    tail = count_of(version, 0) if version >= 7 else b""
    tail += (b"\x01\x00" if version >= 12 else b"\x00\x00") if version >= 11 else b""
    behind = 100 * topic + tail
    fits = memoryview(head(version) + count_of(version, 100) + behind)
    assert len(decode_fetch_request(version, fits).topics) == 100
    too_many = len(behind) // len(topic) + 1
    body = memoryview(head(version) + count_of(version, too_many) + behind)
    with pytest.raises(MalformedRequest, match=f"{too_many} topics declared in the {len(behind)} bytes"):
        decode_fetch_request(version, body)


@every_version
def test_one_partition_more_than_is_there_is_refused(version: int) -> None:
    size = 16 if version < 5 else 24 if version < 9 else 28 if version < 12 else 33
    start = head(version) + one_topic(version)
    body = memoryview(start + count_of(version, 101) + bytes(101 * size - 1))
    with pytest.raises(MalformedRequest, match=f"101 partitions declared in the {101 * size - 1} bytes"):
        decode_fetch_request(version, body)


@every_version
def test_what_may_not_be_null_is_refused(version: int) -> None:
    null = count_of(version, -1)
    with pytest.raises(MalformedRequest, match="-1 topics declared"):
        decode_fetch_request(version, memoryview(head(version) + null + bytes(80)))
    with pytest.raises(MalformedRequest, match="-1 partitions declared"):
        decode_fetch_request(version, memoryview(head(version) + one_topic(version) + null + bytes(80)))
    if version < 13:
        null_name = b"\x00" if version >= 12 else b"\xff\xff"
        body = head(version) + count_of(version, 1) + null_name + bytes(80)
        with pytest.raises(MalformedRequest, match="a topic's name is null"):
            decode_fetch_request(version, memoryview(body))


@every_flexible_version
@pytest.mark.parametrize("tagged", [(0,), (1,), (2,), (0, 1, 2), ()])
def test_unknown_tagged_fields_are_skipped(version: int, tagged: tuple[int, ...]) -> None:
    tags = b"\x02" + b"\x63\x03abc" + encode_uvarint(70_000) + encode_uvarint(200) + bytes(200)
    partitions = [FetchPartition(n, n + 1, n + 2, n + 3, n + 4, n + 5) for n in range(3)]
    encoded = b"".join(
        struct.pack(">iiqiqi", *partition) + (tags if n in tagged else b"\x00")
        for n, partition in enumerate(partitions)
    )
    forgotten = one_topic(version) + count_of(version, 1) + bytes(4) + tags
    body = head(version) + one_topic(version) + count_of(version, 3) + encoded + tags + forgotten
    body += b"\x05rack" + tags
    request = decode_fetch_request(version, memoryview(body))
    assert request.topics[0].partitions == partitions
    assert request.forgotten[0].partitions == [0]
    assert request.rack_id == "rack"
    with pytest.raises(MalformedRequest):
        decode_fetch_request(version, memoryview(body)[:-1])


@every_flexible_version
def test_the_replica_state_is_believed_from_version_15_on_and_only_whole(version: int) -> None:
    start = head(version) + b"\x01\x01\x01"
    whole = b"\x01" + b"\x01\x0d" + struct.pack(">iqx", 5, 6)
    replica_id = decode_fetch_request(version, memoryview(start + whole)).replica_id
    assert replica_id == (5 if version >= 15 else 0)
    cut = b"\x01" + b"\x01\x04" + bytes(100)
    if version >= 15:
        with pytest.raises(MalformedRequest, match="the replica's state has 12 bytes, 4 are left"):
            decode_fetch_request(version, memoryview(start + cut))
    else:
        decode_fetch_request(version, memoryview(start + cut))


# --- responses ------------------------------------------------------------------------------------------

error_codes = st.sampled_from([int(code) for code in ErrorCode])
records = st.lists(
    st.binary(max_size=40) | st.sampled_from([b"r" * 126, b"r" * 127, b"r" * 16383]) | st.just(b""),
    max_size=3,
)
aborted = st.none() | st.lists(st.builds(AbortedTransaction, int64s, int64s), max_size=3)
results = st.builds(
    FetchPartitionResult,
    int32s,
    error_codes,
    int64s,
    int64s,
    int64s,
    aborted,
    int32s,
    records | records.map(lambda pieces: [memoryview(piece) for piece in pieces]),
    st.none() | st.builds(EpochEndOffset, st.integers(0, 99), int64s),
    st.none() | st.builds(CurrentLeader, st.integers(0, 99), int32s),
    st.none() | st.builds(SnapshotId, int64s, st.integers(0, 99)),
)
topic_results = st.builds(FetchTopicResult, texts, topic_ids, st.lists(results, max_size=4))
endpoints = st.lists(st.builds(NodeEndpoint, int32s, texts, int32s, st.none() | texts), max_size=2)


def answered_topic(version: int, topic: FetchTopicResult) -> Message:
    key: Message = {"topic_id": topic.topic_id} if version >= 13 else {"topic": topic.name}
    return {**key, "partitions": [answered_partition(version, result) for result in topic.partitions]}


def answered_partition(version: int, result: FetchPartitionResult) -> Message:
    transactions = result.aborted_transactions
    since: list[tuple[int, str, Any]] = [
        (4, "partition_index", result.partition),
        (4, "error_code", result.error_code),
        (4, "high_watermark", result.high_watermark),
        (4, "last_stable_offset", result.last_stable_offset),
        (5, "log_start_offset", result.log_start_offset),
        (4, "aborted_transactions", None if transactions is None else [t._asdict() for t in transactions]),
        (11, "preferred_read_replica", result.preferred_read_replica),
        (4, "records", b"".join(result.pieces)),
    ]
    for name in ("diverging_epoch", "current_leader", "snapshot_id"):
        if (value := getattr(result, name)) is not None:
            since.append((12, name, value._asdict()))
    return {name: value for first, name, value in since if version >= first}


@every_version_and_codec
def test_others_read_what_was_answered(version: int, codec: Codec) -> None:
    @few
    @given(
        topics=st.lists(topic_results, max_size=3),
        throttle_ms=times_ms,
        error_code=error_codes,
        session_id=int32s,
        nodes=endpoints,
    )
    def check(
        topics: list[FetchTopicResult],
        throttle_ms: int,
        error_code: int,
        session_id: int,
        nodes: list[NodeEndpoint],
    ) -> None:
        expected: Message = {"responses": [answered_topic(version, topic) for topic in topics]}
        expected["throttle_time_ms"] = throttle_ms
        if version >= 7:
            expected |= {"error_code": error_code, "session_id": session_id}
        if version >= 16:
            expected["node_endpoints"] = [node._asdict() for node in nodes]
        pieces = encode_fetch_response(version, topics, throttle_ms, error_code, session_id, nodes)
        assert codec.read_response(FETCH, version, b"".join(pieces)) == expected

    check()


@every_version
def test_records_are_the_very_pieces_that_were_given(version: int) -> None:
    block = memoryview(bytes(2**22))
    given_pieces: list[bytes | memoryview] = [block[: 2**20], block[2**20 :], b"more"]
    partitions = [
        FetchPartitionResult(0, 0, 10, pieces=given_pieces[:2]),
        FetchPartitionResult(1, 0, 10),
        FetchPartitionResult(2, 0, 10, pieces=given_pieces[2:]),
    ]
    topics = [FetchTopicResult("events", NO_ID, partitions)]
    tracemalloc.start()
    pieces = encode_fetch_response(version, topics)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 20_000
    _, first, second, _, third, _ = pieces
    assert all(piece is one for piece, one in zip((first, second, third), given_pieces, strict=True))
    assert sum(map(len, pieces)) == len(b"".join(pieces))


@every_version_and_codec
def test_no_records_are_empty_and_never_null(version: int, codec: Codec) -> None:
    topics = [FetchTopicResult("events", NO_ID, [FetchPartitionResult(0, 0, 10)])]
    (body,) = encode_fetch_response(version, topics)
    assert codec.read_response(FETCH, version, bytes(body))["responses"][0]["partitions"][0]["records"] == b""


def test_an_answer_needs_what_its_version_calls_the_topic() -> None:
    with pytest.raises(ValueError, match="a topic without a name"):
        encode_fetch_response(12, [FetchTopicResult(None, NO_ID, [])])
    for topic_id in (None, b"short"):
        with pytest.raises(ValueError, match="is no topic id"):
            encode_fetch_response(13, [FetchTopicResult("events", topic_id, [])])
