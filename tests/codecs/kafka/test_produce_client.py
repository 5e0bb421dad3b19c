"""A client's produce requests are what the server reads, and the server's answers what the client does."""

from __future__ import annotations

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.produce import (
    ProducePartitionResult,
    ProduceTopicResult,
    RecordError,
    decode_produce_request,
    encode_produce_response,
)
from barbicel.codecs.kafka.produce_client import (
    HEAD,
    VERSION,
    ProduceAnswer,
    decode_produce_answer,
    encode_produce,
)
from barbicel.codecs.kafka.wire import INT32, MalformedRequest, encode_string

CORRELATION_ID = 77


def test_a_request_is_what_the_server_reads() -> None:
    frame = b"".join(encode_produce(CORRELATION_ID, "me", "topic", 3, b"a batch", 30_000))
    (size,) = INT32.unpack_from(frame)
    assert size == len(frame) - INT32.size
    assert HEAD.unpack_from(frame, INT32.size) == (0, VERSION, CORRELATION_ID)
    body = memoryview(frame)[INT32.size + HEAD.size + len(encode_string("me")) :]
    request = decode_produce_request(VERSION, body)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (None, -1, 30_000)
    (topic,) = request.topics
    ((index, records),) = topic.partitions
    assert records is not None
    assert (topic.name, index, bytes(records)) == ("topic", 3, b"a batch")


def answer(result: ProducePartitionResult) -> bytes:
    topics = [ProduceTopicResult("topic", None, [result])]
    return INT32.pack(CORRELATION_ID) + bytes(encode_produce_response(VERSION, topics))


REFUSED = ProducePartitionResult(
    3,
    ErrorCode.INVALID_TIMESTAMP,
    -1,
    -1,
    -1,
    "too late",
    (RecordError(0, "one"), RecordError(1, None)),
)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (ProducePartitionResult(3, ErrorCode.NONE, 500), ProduceAnswer(CORRELATION_ID, 0, 500, None)),
        (REFUSED, ProduceAnswer(CORRELATION_ID, ErrorCode.INVALID_TIMESTAMP, -1, "too late")),
    ],
)
def test_an_answer_is_what_the_server_wrote(result: ProducePartitionResult, expected: ProduceAnswer) -> None:
    assert decode_produce_answer(answer(result)) == expected


def test_an_answer_that_is_cut_is_refused() -> None:
    whole = answer(REFUSED)
    behind = INT32.size  # throttle_time_ms, which nobody needs
    for size in range(len(whole) - behind):
        with pytest.raises(MalformedRequest):
            decode_produce_answer(whole[:size])
