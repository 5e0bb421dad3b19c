"""Bytes that are no message: cut, damaged, or lying about a length. All are refused, at no great cost."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.codecs.kafka.messages import (
    FetchRequest,
    HeartbeatRequest,
    MalformedMessage,
    OffsetFetchRequest,
    decode_request,
    encode_request,
    is_flexible,
)
from barbicel.codecs.kafka.wire import MalformedRequest
from tests.codecs.kafka.random_messages import CASES, KINDS, Case, random_message

REQUEST_KINDS = {name: cases for name, cases in KINDS.items() if name.endswith("Request")}


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(case: Case, body: bytes) -> bool:
    try:
        case.decode(body)
    except MalformedMessage:
        return True
    return False


@pytest.mark.parametrize("cases", KINDS.values(), ids=KINDS)
def test_every_message_that_is_cut_is_refused(cases: list[Case]) -> None:
    for case in cases:
        body = case.encode(random_message(case, 1))
        assert [length for length in range(len(body)) if not refused(case, body[:length])] == []


@pytest.mark.parametrize("cases", REQUEST_KINDS.values(), ids=REQUEST_KINDS)
def test_no_lie_about_a_length_costs_memory(cases: list[Case]) -> None:
    """Wherever a length, a count or a size may stand, the largest one is put."""

    def decode_lies() -> None:
        for position in range(len(body)):
            refused(case, body[:position] + lie + body[position + len(lie) :])

    for case in cases[0], cases[-1]:
        body = case.encode(random_message(case, 2))
        case.decode(body)
        lie = b"\xff\xff\xff\xff\x07" if is_flexible(case.api_key, case.version) else b"\x7f\xff\xff\xff"
        assert peak_bytes(decode_lies) < 200_000


# In a body of nothing but 0xff these find a whole message: no bytes, or numbers and nulls where null may be.
WHOLE_IN_0XFF = {
    *(("ApiVersionsRequest", version) for version in range(3)),
    *(("ListGroupsRequest", version) for version in range(3)),
    *(("MetadataRequest", version) for version in range(1, 9)),
    *(("InitProducerIdRequest", version) for version in range(2)),
    ("DescribeAclsRequest", 1),
    ("DescribeLogDirsRequest", 1),
}


def test_endless_varints_and_lengths_are_refused() -> None:
    body = b"\xff" * 200_000
    requests = [case for case in CASES if case.side == "request"]
    taken = {(case.kind.__name__, case.version) for case in requests if not refused(case, body)}
    assert taken == WHOLE_IN_0XFF


TWO_BILLION = b"\x7f\xff\xff\xff"
COMPACT_TWO_BILLION = b"\x80\x80\x80\x80\x08"
# API key, version, body, what is said about it.
BOMBS = {
    "count": (3, 1, TWO_BILLION + bytes(10), "topics"),
    "compact count": (3, 9, COMPACT_TWO_BILLION + bytes(10), "topics"),
    "count in an element": (
        8,
        2,
        b"\0\1g\0\0\0\1\0\0" + bytes(8) + b"\0\0\0\1\0\1t" + TWO_BILLION,
        "partitions",
    ),
    "just one too many": (3, 1, b"\0\0\0\6" + b"\0\0" * 5, "6 topics declared in the 10 bytes"),
    "just one too many, compact": (3, 9, b"\7" + b"\1\0" * 5, "6 topics declared in the 10 bytes"),
    "string": (12, 0, b"\x7f\xff" + bytes(10), "group_id"),
    "compact string": (12, 4, COMPACT_TWO_BILLION + bytes(10), "group_id"),
    "bytes": (14, 0, b"\0\1g\0\0\0\1\0\1m\0\0\0\1\0\1m" + TWO_BILLION, "assignment"),
    "tagged fields": (12, 4, b"\2g\0\0\0\1\2m\0" + COMPACT_TWO_BILLION, "tagged fields"),
    "unknown tagged field": (12, 4, b"\2g\0\0\0\1\2m\0\1\7" + COMPACT_TWO_BILLION, "tagged field 7"),
    "negative count": (3, 1, b"\xff\xff\xff\xfe", "-2 topics"),
    "negative length": (12, 0, b"\xff\xfe", "group_id has -2 bytes"),
    "long varint": (3, 9, b"\xff" * 5 + b"\1", "varint"),
    "null array": (3, 0, b"\xff\xff\xff\xff", "topics"),
    "null string": (12, 0, b"\xff\xff", "group_id is null"),
}


@pytest.mark.parametrize(("api_key", "version", "body", "reason"), BOMBS.values(), ids=BOMBS)
def test_a_lie_is_refused_before_it_is_believed(api_key: int, version: int, body: bytes, reason: str) -> None:
    def decode() -> None:
        with pytest.raises(MalformedMessage, match=reason):
            decode_request(api_key, version, memoryview(body))

    assert peak_bytes(decode) < 200_000


# API key, version, the smallest element of an array, what stands behind the array.
SMALLEST_ELEMENTS = {
    "MetadataRequest": (3, 9, b"\1\0", b"\0\0\0\0"),
    "DeleteGroupsRequest": (42, 2, b"\1", b"\0"),
    "OffsetFetchRequest": (9, 8, b"\1\1\0", b"\0\0"),
    "DescribeConfigsRequest": (32, 4, b"\2\1\1\0", b"\0\0\0"),
}


@pytest.mark.parametrize(
    ("api_key", "version", "element", "behind"), SMALLEST_ELEMENTS.values(), ids=SMALLEST_ELEMENTS
)
def test_the_largest_message_of_the_smallest_elements(
    api_key: int, version: int, element: bytes, behind: bytes
) -> None:
    body = compact_count(10_000) + element * 10_000 + behind
    decode_request(api_key, version, memoryview(body))
    assert peak_bytes(lambda: decode_request(api_key, version, memoryview(body))) < 100 * len(body)
    with pytest.raises(MalformedMessage):
        decode_request(api_key, version, memoryview(body[: -len(behind) - 1]))


def compact_count(count: int) -> bytes:
    """Of a compact array: one more than there are, in seven bits a byte."""
    return bytes([(count + 1) & 0x7F | 0x80, (count + 1) >> 7])


@given(st.sampled_from(CASES), st.binary(max_size=200))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_a_message_or_malformed(case: Case, body: bytes) -> None:
    refused(case, body)


@given(st.sampled_from(CASES), st.integers(0, 50), st.data())
@settings(max_examples=500, deadline=None)
def test_a_damaged_message_is_a_message_or_malformed(case: Case, seed: int, data: st.DataObject) -> None:
    body = bytearray(case.encode(random_message(case, seed)))
    for position in data.draw(st.lists(st.integers(0, max(0, len(body) - 1)), max_size=5)):
        body[position : position + 1] = data.draw(st.binary(min_size=1, max_size=1))
    refused(case, bytes(body))


def test_an_error_says_what_was_decoded_and_where() -> None:
    body = encode_request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 0)
    with pytest.raises(MalformedMessage) as caught:
        decode_request(12, 0, memoryview(body)[:-1])
    assert str(caught.value) == "at byte 9: HeartbeatRequest version 0: member_id has 1 bytes, 0 are left"
    assert isinstance(caught.value, MalformedRequest)


# --- tagged fields ----------------------------------------------------------------------------------------

HEARTBEAT = b"\2g\0\0\0\1\2m\0"


def test_unknown_tagged_fields_are_passed_over() -> None:
    request = decode_request(12, 4, memoryview(HEARTBEAT + b"\2" + b"\5\3abc" + b"\x80\1\0"))
    assert (request.group_id, request.generation_id, request.member_id) == ("g", 1, "m")


def fetch_with_cluster_id(tagged_field: bytes) -> bytes:
    """A Fetch of nothing whose only tagged field is cluster_id, tag 0."""
    plain_fetch = encode_request(FetchRequest(topics=[], forgotten_topics_data=[]), 12)
    assert plain_fetch.endswith(b"\0")
    return plain_fetch[:-1] + b"\1\0" + tagged_field


@pytest.mark.parametrize(
    ("tagged_field", "reason"),
    [
        (b"\1\2c", "cluster_id has 1 bytes, 0 are left"),
        (b"\3\2c\0", "tagged field cluster_id ends 1 bytes early"),
    ],
)
def test_a_tagged_field_has_the_size_that_it_says(tagged_field: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        decode_request(1, 12, memoryview(fetch_with_cluster_id(tagged_field)))


def test_many_tagged_fields_take_linear_memory() -> None:
    """kafka-python's decoder would copy the rest of the message for every topic."""
    body = compact_count(5000) + (b"\2t" + b"\1\7\0") * 5000 + b"\0\0\0\0"
    request = decode_request(3, 9, memoryview(body))
    assert len(request.topics) == 5000
    assert peak_bytes(lambda: decode_request(3, 9, memoryview(body))) < 100 * len(body)


def test_all_arrays_together_have_no_more_elements_than_are_allowed() -> None:
    kind = OffsetFetchRequest.OffsetFetchRequestTopic
    request = OffsetFetchRequest(
        group_id="g", topics=[kind(name=name, partition_indexes=[1, 2, 3]) for name in "ab"]
    )
    body = memoryview(encode_request(request, 5))
    read = decode_request(9, 5, body, max_rows=8)
    assert [topic.partition_indexes for topic in read.topics] == [[1, 2, 3], [1, 2, 3]]
    with pytest.raises(MalformedMessage, match="with 3 partition_indexes it has too many rows"):
        decode_request(9, 5, body, max_rows=7)
